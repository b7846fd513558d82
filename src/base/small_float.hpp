#pragma once
// The small float formats, in integer arithmetic only, so that host and device code get the same
// bits.
#include <bit>
#include <cstdint>

namespace graphtap::small_float {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // e4m3 has none: the topmost code is NaN, all others are finite
};
inline constexpr Format kF16{5, 10, true};
inline constexpr Format kBf16{8, 7, true};
inline constexpr Format kE4m3{4, 3, false};
inline constexpr Format kE5m2{5, 2, true};

[[nodiscard]] constexpr std::uint32_t sign_bit(Format f) noexcept {
  return 1u << (f.exponent_bits + f.mantissa_bits);
}
/// The positive NaN with every bit set, which is what a NVIDIA GPU's conversions return.
[[nodiscard]] constexpr std::uint32_t nan_code(Format f) noexcept { return sign_bit(f) - 1; }
/// The smallest magnitude code that stands for no finite number.
[[nodiscard]] constexpr std::uint32_t beyond_finite(Format f) noexcept {
  return f.infinities ? ((1u << f.exponent_bits) - 1) << f.mantissa_bits : nan_code(f);
}

/// The exact value of a code.
[[nodiscard]] constexpr float decode(std::uint32_t code, Format f) noexcept {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const std::uint32_t sign = (code & sign_bit(f)) ? 0x80000000u : 0u;
  const std::uint32_t magnitude = code & (sign_bit(f) - 1);
  if (magnitude >= beyond_finite(f)) {
    const bool infinite = f.infinities && magnitude == beyond_finite(f);
    return std::bit_cast<float>(infinite ? (sign | 0x7f800000u) : 0x7fffffffu);
  }
  std::uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while (!(mantissa & (1u << f.mantissa_bits)) && exponent - bias > -126) {
      mantissa <<= 1;
      --exponent;
    }
    if (!(mantissa & (1u << f.mantissa_bits))) {  // subnormal as a float as well (bf16)
      return std::bit_cast<float>(sign | (mantissa << (23 - f.mantissa_bits)));
    }
    mantissa &= (1u << f.mantissa_bits) - 1;
  }
  const auto biased = static_cast<std::uint32_t>(exponent - bias + 127);
  return std::bit_cast<float>(sign | (biased << 23) | (mantissa << (23 - f.mantissa_bits)));
}

/// decode(), but a NaN keeps its sign and its bits, as a conversion that only widens does.
[[nodiscard]] constexpr float widen(std::uint32_t code, Format f) noexcept {
  const std::uint32_t magnitude = code & (sign_bit(f) - 1);
  const bool nan =
      magnitude >= beyond_finite(f) && !(f.infinities && magnitude == beyond_finite(f));
  if (!nan) return decode(code, f);
  const std::uint32_t sign = (code & sign_bit(f)) ? 0x80000000u : 0u;
  const std::uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << (23 - f.mantissa_bits)));
}

/// Rounds to nearest, ties to even. Too large a value becomes infinity, or NaN where there is none
/// (no saturation); a NaN becomes nan_code().
[[nodiscard]] constexpr std::uint32_t encode(float value, Format f) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) ? sign_bit(f) : 0u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return nan_code(f);
  if (magnitude == 0x7f800000u) return sign | beyond_finite(f);

  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const auto raw = static_cast<int>(magnitude >> 23);
  const std::uint32_t significand = (magnitude & 0x7fffffu) | (raw ? 0x800000u : 0u);
  const int exponent = (raw ? raw : 1) - 127 + bias;  // as the target would store it
  int shift = 23 - f.mantissa_bits;
  if (exponent < 1) shift += 1 - exponent;
  if (shift > 25) return sign;  // below half of the smallest subnormal

  std::uint32_t rounded = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1u))) ++rounded;
  // The implicit leading one of a normal number carries into the exponent by itself.
  if (exponent > 1) rounded += static_cast<std::uint32_t>(exponent - 1) << f.mantissa_bits;
  return sign | (rounded < beyond_finite(f) ? rounded : beyond_finite(f));
}

}  // namespace graphtap::small_float
