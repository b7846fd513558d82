#pragma once
// A model on a GPU whose every row says which hook, step and row it is: kernels fill a tensor for
// each hook, its producer follows. A sink compares what arrives with what must have been there.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graphtap/cuda_device.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap::gpu {

inline constexpr std::uint32_t kWords = 64;  // 8-byte words a row

__host__ __device__ inline std::uint64_t word_of(std::uint64_t hook, std::uint64_t step,
                                                 std::uint64_t row, std::uint64_t word) {
  std::uint64_t x = (hook << 48) ^ (step << 16) ^ (row << 8) ^ word;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
  return x ^ (x >> 29);
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}
#define GT_CUDA(call) ::graphtap::gpu::check((call), #call)

template <class Handle>
[[nodiscard]] std::uintptr_t bits(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// The step number that the model's kernels read, in stream order.
__global__ void set_step(std::uint64_t* where, std::uint64_t step);
/// Fills a tensor. `spin_ns`: how long it takes at least, so that launches queue up behind it.
__global__ void fill(std::uint64_t* tensor, std::uint32_t rows, std::uint32_t hook,
                     const std::uint64_t* step, std::uint64_t spin_ns);
/// Programmatic: starts before its predecessor has ended, waits for it, then counts what is not as
/// it must be.
__global__ void count_wrong(const std::uint64_t* tensor, std::uint32_t rows, std::uint32_t hook,
                            const std::uint64_t* step, std::uint64_t* wrong);
__global__ void trap();

/// Checks every record: label and bytes. The first token of a slice is step × rows of that step's
/// graph.
class MarkSink final : public Sink {
 public:
  [[nodiscard]] std::string name() const override { return "marks"; }
  Status write(const DeliveredStep& step) override;

  std::atomic<std::uint64_t> right{0}, wrong{0}, steps{0};
  std::string first_wrong;
  std::map<GapReason, std::uint64_t> gaps;
  std::mutex mutex;  // guards the two above
  /// Holds up each step this long.
  std::chrono::nanoseconds delay{0};
};

struct ModelGraph {
  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  std::shared_ptr<BoundGraph> bound;
  std::vector<HookId> hooks;
};

/// A monitor over one CUDA device, tensors for each hook, graphs that are captured from a stream.
class MarkedModel {
 public:
  struct Shape {
    std::uint32_t hooks = 8;
    std::uint32_t rows = 4;
    std::uint64_t spin_ns = 0;
  };
  MarkedModel(const Shape& shape, MonitorOptions options);
  ~MarkedModel();

  /// What is put into a capture for a hook: its kernel, then its producer. Tests put other things
  /// around it.
  using Body = std::function<void(HookId, cudaStream_t)>;
  void layer(HookId hook, cudaStream_t stream);
  /// Captures `hooks` on the first stream. `mode`: of the capture.
  ModelGraph capture(const std::vector<HookId>& hooks, Body body = {},
                     cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal);
  /// Instantiates and binds.
  void bind(ModelGraph& graph, const std::string& name, BindOptions options = {});

  /// One step on `stream`: plan, launch, end. What the plan captures is added to `expected`.
  void step(ModelGraph& graph, cudaStream_t stream);
  /// A replay that nobody planned.
  void raw_launch(ModelGraph& graph, cudaStream_t stream);
  [[nodiscard]] HookSet random_set(std::uint64_t& random) const;
  [[nodiscard]] std::vector<HookId> all_hooks() const;
  /// Flushes; then every expected record was delivered and was right.
  void expect_all_right();

  const Shape shape;
  std::shared_ptr<Device> device;
  std::shared_ptr<MarkSink> sink = std::make_shared<MarkSink>();
  std::unique_ptr<Monitor> monitor;
  std::shared_ptr<Lane> lane;
  std::vector<cudaStream_t> streams;
  std::uint64_t* step_number = nullptr;  // device
  std::vector<std::uint64_t*> tensors;   // device, by hook
  Request request;
  std::uint64_t next_step = 1;
  std::uint64_t expected = 0;  // records
};

[[nodiscard]] inline HookSet set_of(std::size_t hooks, std::vector<HookId> ids) {
  return HookSet::of(hooks, ids);
}

/// How often something is repeated: a twentieth under compute-sanitizer, which makes everything
/// that much slower.
[[nodiscard]] int times(int usual);

[[nodiscard]] inline std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}

}  // namespace graphtap::gpu
