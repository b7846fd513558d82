#include "device/cuda/cuda_status.hpp"

#include <fmt/format.h>

namespace graphtap::cuda {

// CUDA Runtime API, enum cudaError: those said to leave the process "in an inconsistent state".
bool is_sticky(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDeviceUninitialized:
    case cudaErrorMpsClientTerminated:
    case cudaErrorCudartUnloading:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status to_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  Code code = Code::device_error;
  if (is_sticky(error)) code = Code::device_lost;
  if (error == cudaErrorMemoryAllocation) code = Code::exhausted;
  return {code,
          fmt::format("{}: {} ({})", call, cudaGetErrorName(error), cudaGetErrorString(error))};
}

}  // namespace graphtap::cuda
