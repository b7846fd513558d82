#pragma once
#include <span>
#include <string>
#include <string_view>

#include "graphtap/status.hpp"
#include "store/export/tensor_file.hpp"

namespace graphtap::store {

/// A safetensors header may not be longer; readers of the format refuse what is.
inline constexpr std::uint64_t kMostHeader = 100'000'000;

/// The bytes before the data: the length, the header with `document` as metadata "graphtap", and
/// blanks up to a multiple of 8. Tensors follow each other without gaps, in order. Errors:
/// exhausted (the header would be too long), invalid_argument (a name that is not UTF-8).
[[nodiscard]] Result<std::string> safetensors_head(std::span<const TensorEntry> tensors,
                                                   std::string_view document);

}  // namespace graphtap::store
