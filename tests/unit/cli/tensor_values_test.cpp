#include "cli/tensor_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>

namespace graphtap::cli {
namespace {

template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::size_t at = 0;
  for (const T value : values) {
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    at += sizeof(T);
  }
  return bytes;
}

TEST(TensorValues, B3_EveryDtypeIsRead) {
  const auto first = [](DType dtype, const std::vector<std::byte>& bytes) {
    return row_values(dtype, bytes, 1).at(0);
  };
  EXPECT_EQ(first(DType::f16, bytes_of<std::uint16_t>({0x3e00})), 1.5);
  EXPECT_EQ(first(DType::bf16, bytes_of<std::uint16_t>({0xbfc0})), -1.5);
  EXPECT_EQ(first(DType::f32, bytes_of({-2.25f})), -2.25);
  EXPECT_EQ(first(DType::f64, bytes_of({1e300})), 1e300);
  EXPECT_EQ(first(DType::f8_e4m3, bytes_of<std::uint8_t>({0x3c})), 1.5);
  EXPECT_EQ(first(DType::f8_e5m2, bytes_of<std::uint8_t>({0x3e})), 1.5);
  EXPECT_EQ(first(DType::i8, bytes_of<std::int8_t>({-7})), -7);
  EXPECT_EQ(first(DType::i16, bytes_of<std::int16_t>({-300})), -300);
  EXPECT_EQ(first(DType::i32, bytes_of<std::int32_t>({-70000})), -70000);
  EXPECT_EQ(first(DType::i64, bytes_of<std::int64_t>({-(1ll << 40)})), -1099511627776.0);
  EXPECT_EQ(first(DType::u8, bytes_of<std::uint8_t>({200})), 200);
  EXPECT_EQ(first(DType::u16, bytes_of<std::uint16_t>({60000})), 60000);
  EXPECT_EQ(first(DType::u32, bytes_of<std::uint32_t>({4000000000u})), 4e9);
  EXPECT_EQ(first(DType::u64, bytes_of<std::uint64_t>({1ull << 60})), std::ldexp(1, 60));
  EXPECT_EQ(first(DType::boolean, bytes_of<std::uint8_t>({1})), 1);
}

TEST(TensorValues, StatisticsAreThoseOfTheWholeRow) {
  const auto row = bytes_of({3.0f, -4.0f, 0.0f, 12.0f});
  const RowStats stats = row_stats(DType::f32, row);
  EXPECT_EQ(stats.values, 4u);
  EXPECT_EQ(stats.not_finite, 0u);
  EXPECT_DOUBLE_EQ(stats.norm, 13);
  EXPECT_EQ(stats.least, -4);
  EXPECT_EQ(stats.most, 12);
  EXPECT_DOUBLE_EQ(stats.mean, 2.75);
  EXPECT_DOUBLE_EQ(row_norm(DType::f32, row), 13);
  EXPECT_EQ(row_values(DType::f32, row, 2), (std::vector<double>{3, -4}));
}

TEST(TensorValues, NormsAreSummedInDouble) {
  // In float the small squares would vanish beside the large one.
  std::vector<float> values(1'000'001, 1e-2f);
  values[0] = 1e4f;
  std::vector<std::byte> row(values.size() * sizeof(float));
  std::memcpy(row.data(), values.data(), row.size());
  EXPECT_NEAR(row_norm(DType::f32, row), std::sqrt(1e8 + 1e6 * 1e-4), 1e-6);
}

TEST(TensorValues, NotFiniteValuesAreCountedAndLeftOut) {
  const auto row = bytes_of({1.0f, NAN, -INFINITY, 3.0f});
  const RowStats stats = row_stats(DType::f32, row);
  EXPECT_EQ(stats.not_finite, 2u);
  EXPECT_EQ(stats.least, 1);
  EXPECT_EQ(stats.most, 3);
  EXPECT_DOUBLE_EQ(stats.mean, 2);
  EXPECT_TRUE(std::isnan(row_norm(DType::f32, row)));
}

TEST(TensorValues, AnEmptyRowHasNothing) {
  const RowStats stats = row_stats(DType::f32, {});
  EXPECT_EQ(stats.values, 0u);
  EXPECT_EQ(stats.norm, 0);
  EXPECT_EQ(stats.mean, 0);
}

}  // namespace
}  // namespace graphtap::cli
