#pragma once
#include <cstdint>
#include <memory>

#include "graphtap/handles.hpp"

namespace graphtap {

class Device;  // src/device/device.hpp

/// A software device whose streams are threads: for CPU inference and for running everything
/// without a GPU. `inline_stream()` runs each operation in the caller's thread before the call
/// returns.
[[nodiscard]] std::shared_ptr<Device> make_host_device();

/// The stream that runs in the caller's thread, on every host device.
[[nodiscard]] constexpr Stream inline_stream() noexcept { return Stream{1}; }

}  // namespace graphtap
