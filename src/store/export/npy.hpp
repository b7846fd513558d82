#pragma once
#include <span>
#include <string>
#include <string_view>

#include "store/export/tensor_file.hpp"

namespace graphtap::store {

/// How numpy keeps a type: bf16 and the fp8 types, which it does not know, as their bits.
[[nodiscard]] DType numpy_dtype(DType dtype) noexcept;

/// The head of a .npy member, version 1.0: what comes before the data. The type is one that numpy
/// has.
[[nodiscard]] std::string npy_head(DType dtype, std::span<const std::int64_t> shape);

/// Bytes of the head that begins with these bytes (at least kNpyPrefix); 0: no .npy file.
inline constexpr std::size_t kNpyPrefix = 12;
[[nodiscard]] std::size_t npy_head_bytes(std::span<const std::byte> prefix) noexcept;
/// Longer heads are refused: numpy itself refuses what exceeds 10,000 bytes.
inline constexpr std::size_t kMostNpyHead = 16 << 10;

/// Reads a whole head into type, shape and bytes. The error's text names no file.
[[nodiscard]] Status parse_npy_head(std::span<const std::byte> head, TensorEntry& tensor);

}  // namespace graphtap::store
