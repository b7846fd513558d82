#include "device/validate.hpp"

#include <fmt/format.h>

namespace graphtap {
namespace {

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status validate(const ProducerCall& call) {
  const Source& source = call.source;
  const auto refuse = [&call](const char* why) {
    return Status(Code::invalid_argument,
                  fmt::format("cudaErrorInvalidValue: producer of hook {}, ordinal {}: {}",
                              call.id.hook, call.id.ordinal, why));
  };
  if (source.parts == 0) return refuse("a row needs at least one part");
  if (!source.data && (source.rows > 0 || source.chunks > 0))
    return refuse("the source has no address");
  if (source.chunks > 0 && !source.chunk_bytes) return refuse("chunks need their byte counts");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (source.chunks > 0 && source.chunk_stride > kMost / source.chunks)
    return refuse("the chunks span too much");
  if (source.part_bytes > kMost / source.parts) return refuse("a row is too long");
  if (!source.addend) return {};
  if (!is_floating(call.dtype)) return refuse("only floating-point tensors can be added");
  if (source.chunks > 0) return refuse("a chunked source takes no second tensor");
  if (source.part_bytes % size_of(call.dtype) != 0) return refuse("a part holds a broken element");
  return {};
}

}  // namespace graphtap
