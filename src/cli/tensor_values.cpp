#include "cli/tensor_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/small_float.hpp"

namespace graphtap::cli {
namespace {

template <class T>
double plain(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return static_cast<double>(value);
}

template <class Code>
double small(const std::byte* data, small_float::Format format) {
  Code code;
  std::memcpy(&code, data, sizeof(code));
  return static_cast<double>(small_float::decode(code, format));
}

/// Calls visit(value) for each of the first `most` values. The type is looked at once, not per
/// value.
template <class Visit>
void for_each_value(DType dtype, std::span<const std::byte> row, std::size_t most, Visit visit) {
  const auto loop = [&](std::size_t bytes, auto read) {
    const std::size_t count = std::min(most, row.size() / bytes);
    for (std::size_t i = 0; i < count; ++i) visit(read(row.data() + i * bytes));
  };
  namespace sf = small_float;
  switch (dtype) {
    case DType::f16:
      return loop(2, [](const std::byte* d) { return small<std::uint16_t>(d, sf::kF16); });
    case DType::bf16:
      return loop(2, [](const std::byte* d) { return small<std::uint16_t>(d, sf::kBf16); });
    case DType::f32:
      return loop(4, plain<float>);
    case DType::f64:
      return loop(8, plain<double>);
    case DType::f8_e4m3:
      return loop(1, [](const std::byte* d) { return small<std::uint8_t>(d, sf::kE4m3); });
    case DType::f8_e5m2:
      return loop(1, [](const std::byte* d) { return small<std::uint8_t>(d, sf::kE5m2); });
    case DType::i8:
      return loop(1, plain<std::int8_t>);
    case DType::i16:
      return loop(2, plain<std::int16_t>);
    case DType::i32:
      return loop(4, plain<std::int32_t>);
    case DType::i64:
      return loop(8, plain<std::int64_t>);
    case DType::u8:
    case DType::boolean:
      return loop(1, plain<std::uint8_t>);
    case DType::u16:
      return loop(2, plain<std::uint16_t>);
    case DType::u32:
      return loop(4, plain<std::uint32_t>);
    case DType::u64:
      return loop(8, plain<std::uint64_t>);
  }
}

}  // namespace

std::vector<double> row_values(DType dtype, std::span<const std::byte> row, std::size_t most) {
  std::vector<double> values;
  for_each_value(dtype, row, most, [&](double value) { values.push_back(value); });
  return values;
}

RowStats row_stats(DType dtype, std::span<const std::byte> row) {
  RowStats stats;
  double sum = 0, squares = 0;
  for_each_value(dtype, row, std::numeric_limits<std::size_t>::max(), [&](double value) {
    ++stats.values;
    if (!std::isfinite(value)) {
      ++stats.not_finite;
      return;
    }
    const bool first = stats.values - stats.not_finite == 1;
    stats.least = first ? value : std::min(stats.least, value);
    stats.most = first ? value : std::max(stats.most, value);
    sum += value;
    squares += value * value;
  });
  const std::uint64_t finite = stats.values - stats.not_finite;
  stats.mean = finite > 0 ? sum / static_cast<double>(finite) : 0;
  stats.norm = std::sqrt(squares);
  return stats;
}

double row_norm(DType dtype, std::span<const std::byte> row) {
  double squares = 0;
  for_each_value(dtype, row, std::numeric_limits<std::size_t>::max(),
                 [&](double value) { squares += value * value; });
  return std::isfinite(squares) ? std::sqrt(squares) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace graphtap::cli
