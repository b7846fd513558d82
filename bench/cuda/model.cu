#include <algorithm>
#include <string>

#include "check.hpp"
#include "model.hpp"

namespace graphtap::bench {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 2;  // 16-byte loads a thread: 4 MiB is 256 blocks
constexpr std::size_t kBlockBytes = std::size_t{kThreads} * kLoads * sizeof(uint4);

// Reads its block's share once and writes one word a warp: as much as a matrix-vector product
// leaves behind.
__global__ void __launch_bounds__(kThreads)
    stream_weights(const uint4* __restrict__ weights, unsigned* partial) {
  const std::size_t first = std::size_t{blockIdx.x} * kThreads * kLoads + threadIdx.x;
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint4 value = __ldg(weights + first + i * kThreads);
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % 32 == 0) partial[blockIdx.x * (kThreads / 32) + threadIdx.x / 32] = sum;
}

}  // namespace

DecodeModel::Memory DecodeModel::allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "allocate the model");
  Memory owner(static_cast<std::byte*>(memory));
  check(cudaMemset(memory, 0x3c, bytes), "fill the model");
  return owner;
}

DecodeModel::DecodeModel(const ModelShape& shape)
    : shape_(shape),
      weights_(allocate(std::max<std::size_t>(1, static_cast<std::size_t>(shape.total_kernels())) *
                        shape.kernel_bytes)),
      residual_(allocate(kMaxRows * kRowBytes)),
      partial_(allocate(shape.kernel_bytes / kBlockBytes * (kThreads / 32) * sizeof(unsigned))) {
  if (shape.kernel_bytes == 0 || shape.kernel_bytes % kBlockBytes != 0)
    fail("kernel_bytes must be whole blocks");
}

void DecodeModel::run(cudaStream_t stream, const std::function<void(int)>& before_layer) const {
  const auto blocks = static_cast<unsigned>(shape_.kernel_bytes / kBlockBytes);
  const std::byte* weights = weights_.get();
  const auto launch = [&](int kernels) {
    for (int i = 0; i < kernels; ++i, weights += shape_.kernel_bytes) {
      stream_weights<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(weights),
                                                      reinterpret_cast<unsigned*>(partial_.get()));
    }
  };
  for (int layer = 0; layer < shape_.layers; ++layer) {
    if (before_layer) before_layer(layer);
    launch(shape_.kernels);
  }
  launch(shape_.tail);
  check(cudaGetLastError(), "launch the model");
}

cudaGraph_t DecodeModel::capture(cudaStream_t stream,
                                 const std::function<void(int)>& before_layer) const {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin a capture");
  run(stream, before_layer);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "end a capture");
  return graph;
}

std::string nvcc_version() {
  return std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__) + "." +
         std::to_string(__CUDACC_VER_BUILD__);
}

}  // namespace graphtap::bench
