#pragma once
#include <cstdint>

namespace graphtap {

/// Where a producer reads its rows. All addresses are device addresses.
///
/// A row is `parts` runs of `part_bytes` that lie `part_stride` apart; rows lie `row_stride` apart.
/// A contiguous [rows, hidden] tensor has parts = 1; heads strided within a token have parts =
/// heads. Strides may be anything (no .contiguous() copy is ever made); they may also be negative.
struct Source {
  const void* data = nullptr;
  std::uint32_t rows = 0;  ///< rows that exist there (the captured capacity under a graph)
  std::uint32_t parts = 1;
  std::uint64_t part_bytes = 0;
  std::int64_t part_stride = 0;  ///< bytes; unused for parts = 1
  std::int64_t row_stride = 0;   ///< bytes

  /// Optional second tensor of the same shape and dtype that is added (a residual kept as a pair):
  /// fp32 sum, one rounding. Same part layout, own row stride. Floating dtypes only.
  const void* addend = nullptr;
  std::int64_t addend_row_stride = 0;

  /// Optional: the tensor is `chunks` chunks, `chunk_stride` bytes apart, and of each only the
  /// first chunk_bytes[i] bytes are real (counts in device memory, read when the producer runs; a
  /// negative or huge count is clamped to [0, chunk_stride]). They are packed one behind the other.
  const std::int64_t* chunk_bytes = nullptr;
  std::uint32_t chunks = 0;
  std::uint64_t chunk_stride = 0;

  [[nodiscard]] std::uint64_t row_bytes() const noexcept { return parts * part_bytes; }
};

}  // namespace graphtap
