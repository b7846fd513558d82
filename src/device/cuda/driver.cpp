#include "device/cuda/driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/cuda_status.hpp"
#include "device/cuda/producer_launch.hpp"

namespace graphtap::cuda {

Result<KernelNodes> KernelNodes::make() {
  KernelNodes nodes;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &found,
                                                             12000, cudaEnableDefault, &status);
  if (error != cudaSuccess) return to_status(error, "cudaGetDriverEntryPointByVersion");
  if (status != cudaDriverEntryPointSuccess || found == nullptr) {
    return Status(Code::unavailable,
                  "the CUDA driver has no cuGraphKernelNodeGetParams of CUDA 12");
  }
  std::memcpy(&nodes.get_params_, &found, sizeof(found));
  const auto load = [&nodes](const void* symbol) -> Status {
    cudaFunction_t function{};
    if (const cudaError_t failed = cudaGetFuncBySymbol(&function, symbol); failed != cudaSuccess) {
      return to_status(failed, "cudaGetFuncBySymbol");
    }
    nodes.handles_.push_back(function);
    cudaKernel_t kernel{};
    if (const cudaError_t failed = cudaGetKernel(&kernel, symbol); failed != cudaSuccess) {
      return to_status(failed, "cudaGetKernel");
    }
    nodes.handles_.push_back(kernel);
    return {};
  };
  for (const void* symbol : producer_kernels()) {
    if (Status loaded = load(symbol); !loaded.ok()) return loaded;
  }
  return nodes;
}

Result<KernelNodes::Found> KernelNodes::look(cudaGraphNode_t node) const {
  CUDA_KERNEL_NODE_PARAMS params{};
  if (const CUresult result = get_params_(node, &params); result != CUDA_SUCCESS) {
    return Status(Code::device_error,
                  fmt::format("cuGraphKernelNodeGetParams: CUresult {}", static_cast<int>(result)));
  }
  const auto ours = [this](const void* handle) {
    return handle != nullptr &&
           std::find(handles_.begin(), handles_.end(), handle) != handles_.end();
  };
  Found found;
  if (!ours(params.func) && !ours(params.kern)) return found;
  if (params.kernelParams == nullptr || params.kernelParams[0] == nullptr) return found;
  found.is_producer = true;
  std::memcpy(&found.tag, params.kernelParams[0], sizeof(found.tag));
  return found;
}

}  // namespace graphtap::cuda
