#pragma once
#include <cstdint>
#include <memory>

#include "graphtap/handles.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

class Device;  // src/device/device.hpp

struct CudaOptions {
  int device = 0;  ///< CUDA's ordinal, after CUDA_VISIBLE_DEVICES
  /// Bytes of a source that a producer in a graph may read while it still waits for its plan. Saves
  /// one memory latency when the hook is on; read in vain when it is off. 0: the plan always comes
  /// first. (H200, 512 KiB a hook: 0.2 µs less when on, 0.4 µs more when off.)
  std::uint64_t speculative_bytes = 512u << 10;
};

/// The GPU `options.device`, in its primary context (the one that the CUDA runtime and PyTorch
/// use). The handles that the monitor takes and gives are CUDA's own: see handles.hpp.
///
/// Makes the context if there is none. Uses no managed memory and keeps no global state; several
/// devices may live in one process. Step headers stay allocated until the process ends, since
/// graphs hold their addresses. Errors: unavailable (built without CUDA, no driver, no such
/// device), device_error.
[[nodiscard]] Result<std::shared_ptr<Device>> make_cuda_device(const CudaOptions& options = {});

/// Whether this library was built with CUDA. Says nothing about a GPU being there.
[[nodiscard]] bool built_with_cuda() noexcept;

}  // namespace graphtap
