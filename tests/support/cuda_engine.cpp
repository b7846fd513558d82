// The engine's side of a GPU. Its kernels are functions of the host, which the driver calls in
// stream order and which become host nodes of a graph; its tensors are pinned memory, which both
// those functions and our producers reach.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "graphtap/cuda_device.hpp"
#include "support/cuda_producer_nodes.hpp"
#include "support/engine.hpp"
#include "support/faulty_device.hpp"

namespace graphtap::testing {
namespace {

constexpr std::size_t kArenaBytes = 2 << 20;

template <class Cuda, class Handle>
Cuda native(Handle handle) {
  return reinterpret_cast<Cuda>(static_cast<std::uintptr_t>(handle));
}
template <class Handle, class Cuda>
Handle opaque(Cuda handle) {
  return Handle{reinterpret_cast<std::uintptr_t>(handle)};
}

Status status_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // nobody else shall find it
  return {Code::device_error, fmt::format("{}: {}", what, cudaGetErrorName(error))};
}
void insist(cudaError_t error, const char* what) {
  const Status status = status_of(error, what);
  if (!status.ok()) throw Error(status);
}
Status lost() {
  return {Code::device_lost, "cudaErrorLaunchFailure: an earlier error lost the device"};
}

using Kernel = std::function<void()>;
void CUDART_CB run(void* kernel) { (*static_cast<Kernel*>(kernel))(); }
void CUDART_CB run_once(void* kernel) {
  const std::unique_ptr<Kernel> mine(static_cast<Kernel*>(kernel));
  (*mine)();
}

std::vector<Node> nodes_of(Graph graph) {
  std::size_t count = 0;
  insist(cudaGraphGetNodes(native<cudaGraph_t>(graph), nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> found(count);
  if (count > 0)
    insist(cudaGraphGetNodes(native<cudaGraph_t>(graph), found.data(), &count),
           "cudaGraphGetNodes");
  std::vector<Node> result;
  for (const cudaGraphNode_t node : found) result.push_back(opaque<Node>(node));
  return result;
}

std::shared_ptr<Device> device_or_throw() { return make_cuda_device().value_or_throw(); }

FaultyOptions faulty_options(const EngineOptions& options) {
  FaultyOptions faulty;
  faulty.seed = options.seed;
  faulty.quarantine = options.quarantine;
  faulty.memory_limit = options.memory_limit;
  faulty.count_nodes = [](Graph graph) { return nodes_of(graph).size(); };
  return faulty;
}

class CudaEngine final : public Engine {
 public:
  explicit CudaEngine(const EngineOptions& options)
      : faulty_(std::make_shared<FaultyDevice>(device_or_throw(), faulty_options(options))),
        device_(faulty_) {}

  ~CudaEngine() override {
    for (const Stream stream : std::set<Stream>(capturing_)) discard_capture(stream);
    (void)cudaDeviceSynchronize();
    for (std::byte* arena : arenas_) (void)cudaFreeHost(arena);
  }

  const std::shared_ptr<Device>& device() const override { return device_; }
  Faults& faults() override { return faulty_->faults(); }
  bool cooperative() const override { return false; }

  // --- The model

  Result<std::byte*> tensor(std::size_t bytes) override {
    if (faults().lost()) return lost();
    const std::lock_guard lock(mutex_);
    const std::size_t size = (bytes + 255) / 256 * 256;  // what cudaMalloc promises
    if (arenas_.empty() || size > arena_bytes_ - arena_used_) {
      void* arena = nullptr;
      arena_bytes_ = std::max(size, kArenaBytes);
      Status status =
          status_of(cudaHostAlloc(&arena, arena_bytes_, cudaHostAllocPortable), "cudaHostAlloc");
      if (!status.ok()) return status;
      arenas_.push_back(static_cast<std::byte*>(arena));
      arena_used_ = 0;
    }
    std::byte* const memory = arenas_.back() + arena_used_;
    arena_used_ += size;
    std::memset(memory, 0, size);
    return memory;
  }

  Status compute(Stream stream, Kernel kernel) override {
    if (faults().lost()) return lost();
    auto mine = std::make_unique<Kernel>(std::move(kernel));
    const auto cuda_stream = native<cudaStream_t>(stream);
    cudaStreamCaptureStatus state{};
    Status status = status_of(cudaStreamIsCapturing(cuda_stream, &state), "cudaStreamIsCapturing");
    if (!status.ok()) return status;
    const bool captured = state != cudaStreamCaptureStatusNone;
    status = status_of(cudaLaunchHostFunc(cuda_stream, captured ? run : run_once, mine.get()),
                       "cudaLaunchHostFunc");
    if (!status.ok()) return status;
    if (captured) {
      const std::lock_guard lock(mutex_);  // kept while any graph, exec or clone may run it
      kernels_.push_back(std::move(mine));
    } else {
      (void)mine.release();
    }
    return {};
  }

  Status begin_capture(Stream stream) override {
    if (faults().lost()) return lost();
    // Relaxed: the test's other threads, and this one, go on making calls that a capture does not
    // concern.
    Status status = status_of(
        cudaStreamBeginCapture(native<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
    if (!status.ok()) return status;
    const std::lock_guard lock(mutex_);
    capturing_.insert(stream);
    return {};
  }

  Result<Graph> end_capture(Stream stream) override {
    if (faults().lost()) {
      discard_capture(stream);
      return lost();
    }
    cudaGraph_t graph = nullptr;
    const Status status = status_of(cudaStreamEndCapture(native<cudaStream_t>(stream), &graph),
                                    "cudaStreamEndCapture");
    const std::lock_guard lock(mutex_);
    capturing_.erase(stream);
    if (!status.ok()) return status;
    faulty_->adopt(opaque<Graph>(graph));
    return opaque<Graph>(graph);
  }

  // --- What a test looks at and changes

  std::vector<Node> nodes(Graph graph) const override { return nodes_of(graph); }

  std::vector<Node> producers(Graph graph) const override {
    std::vector<Node> found;
    for (const Node node : nodes(graph)) {
      const auto info = faulty_->inner().inspect(graph, node);
      if (info.ok() && info.value().is_producer) found.push_back(node);
    }
    return found;
  }

  Result<bool> enabled(Exec exec, Node node) const override {
    unsigned on = 0;
    const Status status = status_of(
        cudaGraphNodeGetEnabled(native<cudaGraphExec_t>(exec), native<cudaGraphNode_t>(node), &on),
        "cudaGraphNodeGetEnabled");
    if (!status.ok()) return status;
    return on != 0;
  }

  Status rewrite_producer(Graph /*graph*/, Node node, const ProducerCall& call) override {
    return rewrite_producer_node(nullptr, native<cudaGraphNode_t>(node), call);
  }
  Status rewrite_producer(Exec exec, Node node, const ProducerCall& call) override {
    return rewrite_producer_node(native<cudaGraphExec_t>(exec), native<cudaGraphNode_t>(node),
                                 call);
  }

  std::size_t node_count(Exec exec) const override { return faulty_->node_count(exec); }

  // --- Progress

  bool run_one() override { return false; }
  void run_until_idle() override {
    const Status status = status_of(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::lock_guard lock(mutex_);
    if (!status.ok()) errors_.push_back(status.message());
  }

  // --- What became of it

  std::vector<std::string> violations() override {
    std::vector<std::string> all = faulty_->violations();
    const std::lock_guard lock(mutex_);
    all.insert(all.end(), errors_.begin(), errors_.end());
    return all;
  }
  std::uint64_t calls(Call call) const override { return faulty_->calls(call); }
  std::uint64_t calls() const override { return faulty_->calls(); }
  std::uint64_t calls_after_loss() const override { return faulty_->calls_after_loss(); }
  std::size_t live_graphs() const override { return faulty_->live_graphs(); }
  std::size_t live_execs() const override { return faulty_->live_execs(); }
  std::size_t live_events() const override { return faulty_->live_events(); }
  std::size_t live_allocations() const override { return faulty_->live_allocations(); }
  std::uint64_t allocated_bytes() const override { return faulty_->allocated_bytes(); }

 private:
  void discard_capture(Stream stream) {
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(native<cudaStream_t>(stream), &graph);
    (void)cudaGetLastError();
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    const std::lock_guard lock(mutex_);
    capturing_.erase(stream);
  }

  // Its destructor comes after ours has waited for the device.
  const std::shared_ptr<FaultyDevice> faulty_;
  const std::shared_ptr<Device> device_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::set<Stream> capturing_;
  std::vector<std::string> errors_;  // of the device itself: nobody ordered them
  std::vector<std::byte*> arenas_;
  std::size_t arena_bytes_ = 0;  // of the last one
  std::size_t arena_used_ = 0;
};

}  // namespace

std::unique_ptr<Engine> make_engine(const EngineOptions& options) {
  return std::make_unique<CudaEngine>(options);
}

}  // namespace graphtap::testing
