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
[[nodiscard]] cudaError_t launch_close_step(wire::StepHeader* header, std::uint32_t slots,
                                            cudaStream_t stream);

/// Whether launch_upload() can do it: whole 16-byte units that fit into a kernel's argument (3,840
/// bytes).
[[nodiscard]] bool fits_argument(const std::byte* to, std::size_t bytes) noexcept;
/// Copies host memory, which is read before the call returns, to the device.
[[nodiscard]] cudaError_t launch_upload(std::byte* to, const std::byte* from, std::size_t bytes,
                                        cudaStream_t stream);

/// Every producer kernel, as the symbols that cudaGetFuncBySymbol takes.
[[nodiscard]] std::span<const void* const> producer_kernels() noexcept;
/// The kernels that are no producers.
[[nodiscard]] std::span<const void* const> other_kernels() noexcept;

}  // namespace graphtap::cuda
