#include "graphtap/dtype.hpp"

#include <array>

#include "base/near_match.hpp"

namespace graphtap {
namespace {

struct Row {
  DType dtype;
  std::uint8_t size;
  std::string_view name;
};

constexpr std::array<Row, 15> kRows{{
    {DType::f16, 2, "f16"},
    {DType::bf16, 2, "bf16"},
    {DType::f32, 4, "f32"},
    {DType::f64, 8, "f64"},
    {DType::f8_e4m3, 1, "f8_e4m3"},
    {DType::f8_e5m2, 1, "f8_e5m2"},
    {DType::i8, 1, "i8"},
    {DType::i16, 2, "i16"},
    {DType::i32, 4, "i32"},
    {DType::i64, 8, "i64"},
    {DType::u8, 1, "u8"},
    {DType::u16, 2, "u16"},
    {DType::u32, 4, "u32"},
    {DType::u64, 8, "u64"},
    {DType::boolean, 1, "bool"},
}};

// The number on disk is the row's place in the table plus one, so that a look-up is an index.
constexpr bool numbers_match_places() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(numbers_match_places());

const Row* row_of(DType dtype) noexcept {
  const auto number = static_cast<std::size_t>(dtype);
  return number >= 1 && number <= kRows.size() ? &kRows[number - 1] : nullptr;
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  const Row* row = row_of(dtype);
  return row ? row->size : 0;
}

std::string_view to_string(DType dtype) noexcept {
  const Row* row = row_of(dtype);
  return row ? row->name : "unknown";
}

std::optional<DType> parse_dtype(std::string_view text) noexcept {
  for (const Row& row : kRows) {
    if (equal_ignoring_case(row.name, text)) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_number(std::uint8_t number) noexcept {
  const auto dtype = static_cast<DType>(number);
  return row_of(dtype) ? std::optional{dtype} : std::nullopt;
}

}  // namespace graphtap
