#pragma once
#include <span>
#include <string_view>

namespace graphtap::llama {

/// The texts of the maps that are built in.
[[nodiscard]] std::span<const std::string_view> builtin_maps() noexcept;

}  // namespace graphtap::llama
