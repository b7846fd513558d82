#pragma once
#include "device/device.hpp"

namespace graphtap {

/// Refuses arguments that no plan could make sense of, on every device alike. Errors:
/// invalid_argument.
[[nodiscard]] Status validate(const ProducerCall& call);

}  // namespace graphtap
