#include "graphtap/cuda_device.hpp"

namespace graphtap {

bool built_with_cuda() noexcept { return false; }

Result<std::shared_ptr<Device>> make_cuda_device(const CudaOptions&) {
  return Status(Code::unavailable, "this graphtap was built without CUDA");
}

}  // namespace graphtap
