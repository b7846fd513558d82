#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/cuda/driver.hpp"
#include "device/device.hpp"
#include "device/edges.hpp"
#include "graphtap/cuda_device.hpp"

namespace graphtap::cuda {

[[nodiscard]] inline cudaStream_t native(Stream stream) noexcept {
  return reinterpret_cast<cudaStream_t>(stream);
}
[[nodiscard]] inline cudaEvent_t native(Event event) noexcept {
  return reinterpret_cast<cudaEvent_t>(event);
}
[[nodiscard]] inline cudaGraph_t native(Graph graph) noexcept {
  return reinterpret_cast<cudaGraph_t>(graph);
}
[[nodiscard]] inline cudaGraphExec_t native(Exec exec) noexcept {
  return reinterpret_cast<cudaGraphExec_t>(exec);
}
[[nodiscard]] inline cudaGraphNode_t native(Node node) noexcept {
  return reinterpret_cast<cudaGraphNode_t>(node);
}

/// One GPU in its primary context. Every call makes that device current for its duration where CUDA
/// asks for it; calls that CUDA forbids during somebody's global-mode capture are made in relaxed
/// mode.
class CudaDevice final : public Device {
 public:
  /// Errors: see make_cuda_device().
  static Result<std::shared_ptr<Device>> make(const CudaOptions& options);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  [[nodiscard]] std::string describe() const override { return name_; }
  Result<std::byte*> allocate(std::size_t bytes) override;
  void free(std::byte* memory) noexcept override;
  void retain(std::byte* memory) noexcept override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  Result<Stream> create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Result<Event> create_event() override;
  void destroy_event(Event event) noexcept override;
  Status record(Event event, Stream stream) override;
  Status wait(Stream stream, Event event) override;
  Result<bool> query(Event event) override;
  Status synchronize(Event event) override;
  Status upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                Stream stream) override;
  Status download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                  Stream stream) override;
  Status zero(std::byte* device, std::size_t bytes, Stream stream) override;
  Status close_step(wire::StepHeader* header, Stream stream) override;
  Status produce(const ProducerCall& call, Stream stream) override;
  Result<CaptureState> capture_state(Stream stream) override;
  Result<Node> captured_tail(Stream stream) override;
  Result<NodeInfo> inspect(Graph graph, Node node) override;
  Status cloneable(Graph graph) override;
  Result<Graph> clone(Graph graph) override;
  Result<Node> find_in_clone(Graph clone, Node original) override;
  Status remove_node(Graph graph, Node node) override;
  void destroy_graph(Graph graph) noexcept override;
  Result<Exec> instantiate(Graph graph, std::uint64_t flags) override;
  void destroy_exec(Exec exec) noexcept override;
  std::uint64_t exec_bytes(Exec exec) override;
  Status set_enabled(Exec exec, Node node, bool enabled) override;
  Status launch(Exec exec, Stream stream) override;
  [[nodiscard]] std::uint64_t now_ns() const noexcept override;
  void idle() noexcept override;

 private:
  CudaDevice(const CudaOptions& options, std::string name, std::uint32_t processors,
             KernelNodes kernels, cudaStream_t service);
  /// Whether the slot's plan lies inside a header that this device allocated.
  [[nodiscard]] bool slot_is_mapped(const ProducerCall& call) const;

  const CudaOptions options_;
  const std::string name_;
  const std::uint32_t processors_;
  const KernelNodes kernels_;
  const cudaStream_t
      service_;  // for zeroing memory and uploading execs, away from the engine's streams

  mutable std::mutex mutex_;  // guards what follows; never held over a CUDA call
  std::map<const std::byte*, std::size_t> memory_;  // device allocations and their sizes
  std::unordered_map<Exec, std::uint64_t> exec_bytes_;
};

}  // namespace graphtap::cuda
