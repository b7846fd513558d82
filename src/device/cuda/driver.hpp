#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "device/cuda/producer_args.hpp"
#include "graphtap/status.hpp"

namespace graphtap::cuda {

/// Kernel nodes as the driver sees them. The runtime's cudaGraphKernelNodeGetParams names a kernel
/// by a symbol of the runtime library that launched it; with two of them in a process (ours is
/// linked in, PyTorch brings its own) only the driver's handles say which kernel it really is. The
/// driver is found at run time: libcuda is not linked.
class KernelNodes {
 public:
  /// Loads every producer kernel in the current context, so that none is loaded during a capture.
  /// Errors: unavailable (no driver, or one that is too old), device_error.
  static Result<KernelNodes> make();

  /// The argument struct of a node, if it is one of our producers.
  struct Found {
    bool is_producer = false;
    ProducerTag tag;
  };
  [[nodiscard]] Result<Found> look(cudaGraphNode_t node) const;

 private:
  using GetParams = CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  KernelNodes() = default;
  GetParams get_params_ = nullptr;
  std::vector<const void*> handles_;  // CUfunction and CUkernel of each producer
};

}  // namespace graphtap::cuda
