#pragma once

namespace graphtap {

/// "0.1.0"
[[nodiscard]] const char* version() noexcept;

}  // namespace graphtap
