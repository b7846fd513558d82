#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace graphtap {

/// Element types a hook may have. The numeric values are stored on disk: never renumber.
enum class DType : std::uint8_t {
  f16 = 1,
  bf16 = 2,
  f32 = 3,
  f64 = 4,
  f8_e4m3 = 5,
  f8_e5m2 = 6,
  i8 = 7,
  i16 = 8,
  i32 = 9,
  i64 = 10,
  u8 = 11,
  u16 = 12,
  u32 = 13,
  u64 = 14,
  boolean = 15,
};

/// Bytes an element takes; 0 for a value that is none of the above.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
/// safetensors spelling in lower case: "bf16", "f8_e4m3", "bool", ….
[[nodiscard]] std::string_view to_string(DType dtype) noexcept;
/// Reads what to_string() writes, in either case (safetensors files say "BF16").
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text) noexcept;
/// From the number stored on disk; nothing for a number this version does not know.
[[nodiscard]] std::optional<DType> dtype_from_number(std::uint8_t number) noexcept;

}  // namespace graphtap
