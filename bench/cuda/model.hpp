#pragma once
// The engine's side of the benchmarks: a decoder-shaped step of kernels that stream weights,
// captured as a chain.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace graphtap::bench {

inline constexpr int kHidden = 4096;  // bf16: 8 KiB a row
inline constexpr std::uint64_t kRowBytes = kHidden * 2;
inline constexpr int kMaxRows = 256;

struct ModelShape {
  int layers = 36;
  int kernels = 8;  ///< a layer
  std::size_t kernel_bytes =
      4u << 20;  ///< that each kernel reads; buffers are distinct, so they come from memory
  int tail = 0;  ///< further kernels behind the last layer, for a round node count
  [[nodiscard]] int total_kernels() const { return layers * kernels + tail; }
};

class DecodeModel {
 public:
  explicit DecodeModel(const ModelShape& shape);

  /// Launches one step; `before_layer(layer)` is called before each layer's kernels.
  void run(cudaStream_t stream, const std::function<void(int)>& before_layer = {}) const;
  /// The same, captured. The caller destroys the graph.
  [[nodiscard]] cudaGraph_t capture(cudaStream_t stream,
                                    const std::function<void(int)>& before_layer = {}) const;

  /// [kMaxRows, kHidden] bf16, written whole once: what hooks read. It is not written by the step,
  /// so whether it lies in the L2 cache depends on the 32 MiB that are streamed between two hooks.
  [[nodiscard]] const std::byte* residual() const { return residual_.get(); }
  [[nodiscard]] const ModelShape& shape() const { return shape_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { (void)cudaFree(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(std::size_t bytes);

  ModelShape shape_;
  Memory weights_, residual_, partial_;
};

/// Of the compiler that built the device code, e.g. "13.0.88".
[[nodiscard]] std::string nvcc_version();

}  // namespace graphtap::bench
