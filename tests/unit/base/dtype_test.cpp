#include "graphtap/dtype.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string_view>

namespace graphtap {
namespace {

struct Expected {
  int number;
  DType dtype;
  std::size_t size;
  std::string_view name;
};

// Written out once more: these numbers and names are on disks already.
constexpr Expected kExpected[] = {
    {1, DType::f16, 2, "f16"},         {2, DType::bf16, 2, "bf16"},
    {3, DType::f32, 4, "f32"},         {4, DType::f64, 8, "f64"},
    {5, DType::f8_e4m3, 1, "f8_e4m3"}, {6, DType::f8_e5m2, 1, "f8_e5m2"},
    {7, DType::i8, 1, "i8"},           {8, DType::i16, 2, "i16"},
    {9, DType::i32, 4, "i32"},         {10, DType::i64, 8, "i64"},
    {11, DType::u8, 1, "u8"},          {12, DType::u16, 2, "u16"},
    {13, DType::u32, 4, "u32"},        {14, DType::u64, 8, "u64"},
    {15, DType::boolean, 1, "bool"},
};

TEST(DType, B3_NumbersSizesAndNamesAreFixed) {
  for (const Expected& row : kExpected) {
    EXPECT_EQ(static_cast<int>(row.dtype), row.number);
    EXPECT_EQ(size_of(row.dtype), row.size) << row.name;
    EXPECT_EQ(to_string(row.dtype), row.name);
    EXPECT_EQ(parse_dtype(row.name), row.dtype);
    EXPECT_EQ(dtype_from_number(static_cast<std::uint8_t>(row.number)), row.dtype);
  }
}

TEST(DType, B3_OnlyTheKnownNumbersAreRead) {
  int known = 0;
  for (int number = 0; number < 256; ++number) {
    known += dtype_from_number(static_cast<std::uint8_t>(number)).has_value() ? 1 : 0;
  }
  EXPECT_EQ(known, 15);
  EXPECT_FALSE(dtype_from_number(0));
  EXPECT_FALSE(dtype_from_number(16));
  EXPECT_EQ(size_of(static_cast<DType>(0)), 0U);
  EXPECT_EQ(to_string(static_cast<DType>(200)), "unknown");
}

TEST(DType, B3_ReadsTheSpellingOfSafetensorsInEitherCase) {
  EXPECT_EQ(parse_dtype("BF16"), DType::bf16);
  EXPECT_EQ(parse_dtype("F8_E4M3"), DType::f8_e4m3);
  EXPECT_EQ(parse_dtype("BOOL"), DType::boolean);
  for (std::string_view text : {"", "f", "f161", "float", "b f16", "f8-e4m3"}) {
    EXPECT_FALSE(parse_dtype(text)) << text;
  }
}

}  // namespace
}  // namespace graphtap
