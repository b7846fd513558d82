#include "store/export/stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/small_float.hpp"

namespace graphtap::store {
namespace {

template <class Code>
void widen_all(std::span<const std::byte> values, small_float::Format format,
               std::vector<std::byte>& out) {
  for (std::size_t i = 0; i < values.size() / sizeof(Code); ++i) {
    Code code;
    std::memcpy(&code, values.data() + i * sizeof(Code), sizeof(Code));
    const float value = small_float::widen(code, format);
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
      widen_all<std::uint16_t>(values, small_float::kF16, out);
      break;
    case DType::bf16:
      widen_all<std::uint16_t>(values, small_float::kBf16, out);
      break;
    case DType::f8_e4m3:
      widen_all<std::uint8_t>(values, small_float::kE4m3, out);
      break;
    case DType::f8_e5m2:
      widen_all<std::uint8_t>(values, small_float::kE5m2, out);
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
