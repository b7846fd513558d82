#pragma once
// Element sums: fp32, rounded once, nearest even, no saturation, every NaN the positive one with all bits set.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "device/small_float.hpp"
#include "graphtap/dtype.hpp"

namespace graphtap::cuda {

/// N bytes that are loaded and stored at once.
template <int N>
struct alignas(N) Granule {
  unsigned char bytes[N];
};

template <class T, int N>
__device__ __forceinline__ T get(const Granule<N>& granule, int at) {
  T value;
  memcpy(&value, granule.bytes + at, sizeof(T));
  return value;
}
template <class T, int N>
__device__ __forceinline__ void put(Granule<N>& granule, int at, T value) {
  memcpy(granule.bytes + at, &value, sizeof(T));
}

__device__ __forceinline__ std::uint16_t add_bf16(std::uint16_t a, std::uint16_t b) {
  const float sum = __uint_as_float(std::uint32_t{a} << 16) + __uint_as_float(std::uint32_t{b} << 16);
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
__device__ __forceinline__ std::uint8_t add_f8(std::uint8_t a, std::uint8_t b, small_float::Format format) {
  const float sum = small_float::decode(a, format) + small_float::decode(b, format);
  return static_cast<std::uint8_t>(small_float::encode(sum, format));
}

/// Every element of a + b.
template <int N>
__device__ __forceinline__ Granule<N> add(DType dtype, const Granule<N>& a, const Granule<N>& b) {
  Granule<N> sum = a;
  const auto each = [&]<class T>(T, auto add_two) {
    if constexpr (sizeof(T) <= N) {
#pragma unroll
      for (int at = 0; at < N; at += static_cast<int>(sizeof(T))) {
        put<T>(sum, at, add_two(get<T>(a, at), get<T>(b, at)));
      }
    }
  };
  switch (dtype) {
    case DType::bf16:
      each(std::uint16_t{}, [](auto x, auto y) { return add_bf16(x, y); });
      break;
    case DType::f16:
      each(std::uint16_t{}, [](auto x, auto y) { return add_f16(x, y); });
      break;
    case DType::f32:
      each(float{}, [](auto x, auto y) { return add_f32(x, y); });
      break;
    case DType::f64:
      each(double{}, [](auto x, auto y) { return add_f64(x, y); });
      break;
    case DType::f8_e4m3:
      each(std::uint8_t{}, [](auto x, auto y) { return add_f8(x, y, small_float::kE4m3); });
      break;
    case DType::f8_e5m2:
      each(std::uint8_t{}, [](auto x, auto y) { return add_f8(x, y, small_float::kE5m2); });
      break;
    default:
      break;  // refused on the host
  }
  return sum;
}

}  // namespace graphtap::cuda
