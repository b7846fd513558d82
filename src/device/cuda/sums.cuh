#pragma once
// Element sums: fp32, rounded once, nearest even, no saturation, every NaN the positive one with
// all bits set.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/small_float.hpp"
#include "graphtap/dtype.hpp"

namespace graphtap::cuda {

/// N bytes that are loaded and stored at once, in words so that the compiler keeps them in
/// registers.
template <int N>
struct alignas(N) Granule {
  std::uint32_t words[N / 4];
};
template <>
struct Granule<2> {
  std::uint16_t words[1];
};
template <>
struct Granule<1> {
  std::uint8_t words[1];
};

__device__ __forceinline__ std::uint16_t add_bf16(std::uint16_t a, std::uint16_t b) {
  const float sum =
      __uint_as_float(std::uint32_t{a} << 16) + __uint_as_float(std::uint32_t{b} << 16);
  return isnan(sum) ? std::uint16_t{0x7fff} : __bfloat16_as_ushort(__float2bfloat16_rn(sum));
}
__device__ __forceinline__ std::uint16_t add_f16(std::uint16_t a, std::uint16_t b) {
  const float sum = __half2float(__ushort_as_half(a)) + __half2float(__ushort_as_half(b));
  return isnan(sum) ? std::uint16_t{0x7fff} : __half_as_ushort(__float2half_rn(sum));
}
__device__ __forceinline__ float add_f32(float a, float b) {
  const float sum = a + b;
  return isnan(sum) ? __uint_as_float(0x7fffffffu) : sum;
}
__device__ __forceinline__ double add_f64(double a, double b) {
  const double sum = a + b;
  return isnan(sum) ? __longlong_as_double(0x7fffffffffffffffll) : sum;
}
__device__ __forceinline__ std::uint8_t add_f8(std::uint8_t a, std::uint8_t b,
                                               small_float::Format format) {
  const float sum = small_float::decode(a, format) + small_float::decode(b, format);
  return static_cast<std::uint8_t>(small_float::encode(sum, format));
}

/// Two 16-bit elements in one word.
template <class AddTwo>
__device__ __forceinline__ std::uint32_t add_halves(std::uint32_t a, std::uint32_t b,
                                                    AddTwo add_two) {
  const std::uint32_t low = add_two(static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b));
  const std::uint32_t high =
      add_two(static_cast<std::uint16_t>(a >> 16), static_cast<std::uint16_t>(b >> 16));
  return low | (high << 16);
}

/// Every element of a + b. Sums of 8-bit floats are rare and long-winded: those come one element at
/// a time.
template <int N>
__device__ __forceinline__ Granule<N> add(DType dtype, const Granule<N>& a, const Granule<N>& b) {
  Granule<N> sum = a;
  if constexpr (N == 1) {
    sum.words[0] = dtype == DType::f8_e4m3 ? add_f8(a.words[0], b.words[0], small_float::kE4m3)
                                           : add_f8(a.words[0], b.words[0], small_float::kE5m2);
  } else if constexpr (N == 2) {
    sum.words[0] =
        dtype == DType::bf16 ? add_bf16(a.words[0], b.words[0]) : add_f16(a.words[0], b.words[0]);
  } else {
    constexpr int kWords = N / 4;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const std::uint32_t x = a.words[i], y = b.words[i];
      if (dtype == DType::bf16) {
        sum.words[i] = add_halves(x, y, [](auto p, auto q) { return add_bf16(p, q); });
      } else if (dtype == DType::f16) {
        sum.words[i] = add_halves(x, y, [](auto p, auto q) { return add_f16(p, q); });
      } else if (dtype == DType::f32) {
        sum.words[i] = __float_as_uint(add_f32(__uint_as_float(x), __uint_as_float(y)));
      } else if (kWords > 1 && i % 2 == 0) {  // f64; what else there is was refused on the host
        const auto at = [i](const Granule<N>& from) {
          const int next = i + 1 < kWords ? i + 1 : i;
          return __hiloint2double(static_cast<int>(from.words[next]),
                                  static_cast<int>(from.words[i]));
        };
        const double both = add_f64(at(a), at(b));
        sum.words[i] = static_cast<std::uint32_t>(__double2loint(both));
        sum.words[i + 1 < kWords ? i + 1 : i] = static_cast<std::uint32_t>(__double2hiint(both));
      }
    }
  }
  return sum;
}

}  // namespace graphtap::cuda
