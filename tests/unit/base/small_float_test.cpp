#include "base/small_float.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace graphtap::small_float {
namespace {

struct Named {
  const char* name;
  Format format;
};
constexpr Named kAll[] = {{"f16", kF16}, {"bf16", kBf16}, {"e4m3", kE4m3}, {"e5m2", kE5m2}};

// The same value by its definition, in double.
double by_definition(std::uint32_t code, Format f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const double sign = (code & sign_bit(f)) ? -1 : 1;
  const std::uint32_t magnitude = code & (sign_bit(f) - 1);
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const double fraction =
      static_cast<double>(magnitude & ((1u << f.mantissa_bits) - 1)) / (1 << f.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

TEST(SmallFloat, B3_EveryCodeDecodesToItsDefinitionAndBack) {
  for (const auto& [name, format] : kAll) {
    for (std::uint32_t code = 0; code < 2 * sign_bit(format); ++code) {
      const float value = decode(code, format);
      const std::uint32_t magnitude = code & (sign_bit(format) - 1);
      if (magnitude < beyond_finite(format)) {
        ASSERT_EQ(value, by_definition(code, format)) << name << " " << code;
        ASSERT_EQ(encode(value, format), code) << name << " " << code;
      } else if (format.infinities && magnitude == beyond_finite(format)) {
        ASSERT_TRUE(std::isinf(value)) << name << " " << code;
        ASSERT_EQ(encode(value, format), code) << name << " " << code;
      } else {
        ASSERT_TRUE(std::isnan(value)) << name << " " << code;
        ASSERT_EQ(encode(value, format), nan_code(format)) << name << " " << code;
      }
    }
  }
}

TEST(SmallFloat, B3_RoundsToTheNearestAndTiesToEven) {
  for (const auto& [name, format] : kAll) {
    for (std::uint32_t code = 0; code + 1 < beyond_finite(format); ++code) {
      const float low = decode(code, format);
      const float high = decode(code + 1, format);
      const float middle = static_cast<float>((double{low} + double{high}) / 2);
      if (double{middle} != (double{low} + double{high}) / 2) continue;  // not a float
      const std::uint32_t even = code % 2 == 0 ? code : code + 1;
      ASSERT_EQ(encode(middle, format), even) << name << " " << code;
      ASSERT_EQ(encode(std::nextafter(middle, low), format), code) << name << " " << code;
      ASSERT_EQ(encode(std::nextafter(middle, high), format), code + 1) << name << " " << code;
      ASSERT_EQ(encode(-middle, format), even | sign_bit(format)) << name << " " << code;
    }
  }
}

TEST(SmallFloat, B3_TooLargeIsInfinityOrNaN) {
  EXPECT_EQ(encode(65519.0f, kF16), 0x7bffu);  // the largest that still rounds down
  EXPECT_EQ(encode(65520.0f, kF16), 0x7c00u);
  EXPECT_EQ(encode(std::numeric_limits<float>::max(), kBf16), 0x7f80u);
  EXPECT_EQ(encode(464.0f, kE4m3), 0x7eu);  // a tie between 448 and what would be 480
  EXPECT_EQ(encode(465.0f, kE4m3), 0x7fu);
  EXPECT_EQ(encode(-465.0f, kE4m3), 0xffu);
  EXPECT_EQ(encode(-std::numeric_limits<float>::infinity(), kE4m3), 0xffu);
  EXPECT_EQ(encode(61439.0f, kE5m2), 0x7bu);
  EXPECT_EQ(encode(61440.0f, kE5m2), 0x7cu);
  EXPECT_EQ(encode(std::numeric_limits<float>::quiet_NaN(), kF16), 0x7fffu);
  EXPECT_EQ(encode(-std::numeric_limits<float>::quiet_NaN(), kBf16), 0x7fffu);
}

TEST(SmallFloat, B3_TooSmallIsZeroWithItsSign) {
  for (const auto& [name, format] : kAll) {
    const float smallest = decode(1, format);
    EXPECT_EQ(encode(smallest / 2, format), 0u) << name;  // a tie: even is zero
    EXPECT_EQ(encode(-smallest / 4, format), sign_bit(format)) << name;
  }
}

}  // namespace
}  // namespace graphtap::small_float
