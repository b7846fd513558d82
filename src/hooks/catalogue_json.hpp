#pragma once
#include <string_view>

namespace graphtap {

/// The text of catalogue.json as it was when the library was built.
[[nodiscard]] std::string_view catalogue_json() noexcept;

}  // namespace graphtap
