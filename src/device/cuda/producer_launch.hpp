#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "device/device.hpp"

namespace graphtap::cuda {

/// What the launcher knows beside the call itself.
struct LaunchShape {
  std::uint64_t speculative_bytes = 0;  ///< CudaOptions::speculative_bytes
  std::uint32_t most_blocks = 0;        ///< a grid is no larger; the kernels loop
  bool slot_is_mapped = false;          ///< the header is long enough for this slot
};

/// Chooses the kernel for a call that validate() accepted and launches it, or adds it to the graph
/// being captured.
[[nodiscard]] cudaError_t launch_producer(const ProducerCall& call, const LaunchShape& shape,
                                          cudaStream_t stream);
/// Every producer kernel, as the symbols that cudaGetFuncBySymbol takes.
[[nodiscard]] std::span<const void* const> producer_kernels() noexcept;

}  // namespace graphtap::cuda
