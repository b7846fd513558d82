#pragma once
#include <cuda_runtime_api.h>

#include "graphtap/status.hpp"

namespace graphtap::cuda {

/// What CUDA returned, with its own name in the message; ok for cudaSuccess. An error that CUDA
/// will return to every later call as well is device_lost, one of memory exhausted. Takes the error
/// out of the runtime's "last error", so that the engine's own checks do not find it.
[[nodiscard]] Status to_status(cudaError_t error, const char* call);
/// Whether the context is beyond use after this error.
[[nodiscard]] bool is_sticky(cudaError_t error) noexcept;

}  // namespace graphtap::cuda
