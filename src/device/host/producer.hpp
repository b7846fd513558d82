#pragma once
#include <cstddef>
#include <cstdint>

#include "device/device.hpp"

namespace graphtap {

/// What a producer does, as plain functions: the definition that every device's producer matches
/// byte for byte. In words:
///
/// - Graph form (call.header set): nothing is written if the header's ticket is 0, the producer's
/// slot is
///   not below header.slots, or its plan's offset16 is 0. Else its firing count in the
///   census at the start of the frame goes up by one. Eager form: the same without header and
///   census.
/// - Rows: the first min(plan.rows, source.rows); or those that the row list names, in its order. A
/// list
///   whose last entry is not below source.rows, or that does not lie in the header, copies no row.
///   (The planner writes ascending lists, so the last entry bounds the others.)
/// - Chunked sources: chunk_bytes[i], clamped to [0, chunk_stride], of each chunk, packed one
/// behind the
///   other. The head's rows are then plan.rows, and its bytes the bytes that were really there. Row
///   list and parts are not used.
/// - With an addend each element is the fp32 sum, rounded once to the dtype (nearest, ties to even,
/// no
///   saturation; a NaN is the positive one with every bit set). f64 is added in double.
/// - Never more than plan.capacity16 × 16 bytes are written, and only whole rows.
/// - The head is written last: the magic and ticket of the plan, the producer's own hook and
/// ordinal.

/// What a call comes to under the plan it finds; nothing is written yet.
struct ProducerJob {
  bool on = false;
  std::byte* record = nullptr;  ///< where the head goes; the rows follow it
  wire::RecordHead head{};
  std::uint32_t* census = nullptr;      ///< graph form: this slot's firing count
  const std::uint32_t* list = nullptr;  ///< rows to copy, or null for the first head.rows
};

/// Reads the plan (graph form: from the header in device memory) and the chunk counts.
[[nodiscard]] ProducerJob read_plan(const ProducerCall& call) noexcept;
/// Bumps the census (graph form only) and writes rows, then head. `job.on` must be set.
void write_record(const ProducerCall& call, const ProducerJob& job) noexcept;
/// Both.
void run_producer(const ProducerCall& call) noexcept;

/// Ends a step: switches the header OFF.
void run_close_step(wire::StepHeader* header) noexcept;

}  // namespace graphtap
