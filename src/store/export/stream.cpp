#include "store/export/stream.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace graphtap::store {
namespace {

struct SmallFloat {
  int exponent_bits, mantissa_bits;
  bool infinities;  // e4m3 has none: the topmost magnitude is NaN, all others are numbers
};

float widen(std::uint32_t code, SmallFloat f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const std::uint32_t sign = (code >> (f.exponent_bits + f.mantissa_bits)) << 31;
  const std::uint32_t top = (1u << f.exponent_bits) - 1;
  const std::uint32_t exponent = (code >> f.mantissa_bits) & top;
  const std::uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const std::uint32_t shifted = mantissa << (23 - f.mantissa_bits);
  const bool nan_only = !f.infinities && mantissa == (1u << f.mantissa_bits) - 1;
  if (exponent == top && (f.infinities || nan_only)) {
    return std::bit_cast<float>(sign | 0x7f800000u | shifted);
  }
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - f.mantissa_bits);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const auto rebased = static_cast<std::uint32_t>(static_cast<int>(exponent) - bias + 127);
  return std::bit_cast<float>(sign | (rebased << 23) | shifted);
}

template <class Code>
void widen_all(std::span<const std::byte> values, SmallFloat format, std::vector<std::byte>& out) {
  for (std::size_t i = 0; i < values.size() / sizeof(Code); ++i) {
    Code code;
    std::memcpy(&code, values.data() + i * sizeof(Code), sizeof(Code));
    const float value = widen(code, format);
    std::memcpy(out.data() + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

bool can_widen(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f8_e4m3 ||
         dtype == DType::f8_e5m2;
}

std::vector<std::byte> widened(DType dtype, std::span<const std::byte> values) {
  std::vector<std::byte> out(values.size() / size_of(dtype) * sizeof(float));
  switch (dtype) {
    case DType::f16:
      widen_all<std::uint16_t>(values, {5, 10, true}, out);
      break;
    case DType::bf16:
      widen_all<std::uint16_t>(values, {8, 7, true}, out);
      break;
    case DType::f8_e4m3:
      widen_all<std::uint8_t>(values, {4, 3, false}, out);
      break;
    case DType::f8_e5m2:
      widen_all<std::uint8_t>(values, {5, 2, true}, out);
      break;
    default:
      break;
  }
  return out;
}

TensorStream::TensorStream(const StoreReader& reader, const FiledTensor& tensor,
                           std::uint64_t buffer_bytes)
    : reader_(reader),
      tensor_(tensor),
      rows_at_once_(std::max<std::uint64_t>(
          1, buffer_bytes / std::max<std::uint64_t>(1, tensor.planned->row_bytes))),
      at_(tensor.planned->tokens.begin) {}

Result<std::span<const std::byte>> TensorStream::next() {
  const PlannedTensor& planned = *tensor_.planned;
  bytes_.clear();
  rows_ = std::min(rows_at_once_, static_cast<std::uint64_t>(planned.tokens.end - at_));
  if (rows_ == 0) return std::span<const std::byte>(bytes_);
  if (planned.row_bytes == 0) {  // nothing but gaps, and their width is not known
    at_ += static_cast<std::int64_t>(rows_);
    return next();
  }
  GatherQuery query;
  query.run = planned.run->header.info.number;
  query.serial = planned.serial;
  query.hook = planned.hook->name;
  query.ordinal = planned.ordinal;
  query.ranks = planned.ranks;
  query.begin = at_;
  query.end = at_ + static_cast<std::int64_t>(rows_);
  Result<Gathered> gathered = reader_.gather(query);
  if (!gathered.ok()) return gathered.status();
  at_ = query.end;
  bytes_ = std::move(gathered.value().data);
  if (gathered.value().row_bytes != planned.row_bytes) {
    // Where none of the rows is there, a gather cannot know how wide they would be.
    std::uint64_t missing = 0;
    for (const MissingTokens& gone : gathered.value().missing)
      missing += static_cast<std::uint64_t>(gone.tokens.end - gone.tokens.begin);
    if (missing != rows_) {
      return Status(Code::corrupt,
                    "rows of " + planned.hook->name + " changed while they were read");
    }
    bytes_.assign(rows_ * planned.row_bytes, {});
  }
  if (tensor_.stored_as == DType::f32 && can_widen(planned.hook->dtype)) {
    bytes_ = widened(planned.hook->dtype, bytes_);
  }
  checksum_.add(bytes_);
  return std::span<const std::byte>(bytes_);
}

}  // namespace graphtap::store
