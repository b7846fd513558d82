#include "support/cuda_producer_nodes.hpp"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

namespace graphtap::testing {
namespace {

template <class Function>
Function entry_point(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    throw Error(Code::unavailable, fmt::format("the CUDA driver has no {}", name));
  }
  Function function{};
  std::memcpy(&function, &found, sizeof(found));
  return function;
}

struct Driver {
  PFN_cuGraphKernelNodeGetParams_v12000 get =
      entry_point<PFN_cuGraphKernelNodeGetParams_v12000>("cuGraphKernelNodeGetParams", 12000);
  PFN_cuGraphKernelNodeSetParams_v12000 set =
      entry_point<PFN_cuGraphKernelNodeSetParams_v12000>("cuGraphKernelNodeSetParams", 12000);
  PFN_cuGraphExecKernelNodeSetParams_v12000 set_in_exec =
      entry_point<PFN_cuGraphExecKernelNodeSetParams_v12000>("cuGraphExecKernelNodeSetParams",
                                                             12000);
  PFN_cuFuncGetParamInfo_v12040 function_argument =
      entry_point<PFN_cuFuncGetParamInfo_v12040>("cuFuncGetParamInfo", 12040);
  PFN_cuKernelGetParamInfo_v12040 kernel_argument =
      entry_point<PFN_cuKernelGetParamInfo_v12040>("cuKernelGetParamInfo", 12040);
};

Status status_of(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  return {Code::device_error, fmt::format("{}: CUresult {}", what, static_cast<int>(result))};
}

}  // namespace

Status rewrite_producer_node(cudaGraphExec_t exec, cudaGraphNode_t node, const ProducerCall& call) {
  static const Driver driver;
  CUDA_KERNEL_NODE_PARAMS params{};
  Status status = status_of(driver.get(node, &params), "cuGraphKernelNodeGetParams");
  if (!status.ok()) return status;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  status = params.func != nullptr
               ? status_of(driver.function_argument(params.func, 0, &offset, &bytes),
                           "cuFuncGetParamInfo")
               : status_of(driver.kernel_argument(params.kern, 0, &offset, &bytes),
                           "cuKernelGetParamInfo");
  if (!status.ok()) return status;
  // Every producer takes one struct that begins with who it is and where its header lies.
  std::vector<std::max_align_t> copy(bytes / sizeof(std::max_align_t) + 1);
  auto* const argument = reinterpret_cast<std::byte*>(copy.data());
  std::memcpy(argument, params.kernelParams[0], bytes);
  std::memcpy(argument, &call.id, sizeof(call.id));
  std::memcpy(argument + sizeof(call.id), &call.header, sizeof(call.header));
  void* arguments[] = {argument};
  params.kernelParams = arguments;
  params.extra = nullptr;
  return exec != nullptr
             ? status_of(driver.set_in_exec(exec, node, &params), "cuGraphExecKernelNodeSetParams")
             : status_of(driver.set(node, &params), "cuGraphKernelNodeSetParams");
}

}  // namespace graphtap::testing
