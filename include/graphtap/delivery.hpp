#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graphtap/hook_table.hpp"
#include "graphtap/request.hpp"

namespace graphtap {

/// Why a record that was wanted is not there. Stored on disk: never renumber.
enum class GapReason : std::uint8_t {
  not_fired =
      1,  ///< planned, but its producer did not write (node off, graph without it, no launch)
  fired_twice =
      2,           ///< its producer ran more than once under one plan: whose data it is, is unknown
  wrong_head = 3,  ///< what lies at its place is another record's
  capture = 4,     ///< the step was being captured into a graph: nothing ran
  aborted = 5,     ///< the step was planned and then given up by the adapter
  device_error = 6,      ///< a device call for this step failed
  device_lost = 7,       ///< a sticky device error: all in flight is gone
  shutdown = 8,          ///< the deadline of close() passed
  source_too_small = 9,  ///< the tensor had fewer rows than the plan
  mismatch = 10,         ///< the adapter found that the engine ran something else than was planned
  shed_ring = 32,        ///< no room in the payload ring (policy shed)
  shed_timeout = 33,     ///< no room within the timeout (policy lossless)
  shed_too_large = 34,   ///< can never fit the ring
  shed_headers = 35,     ///< every header slot is still in flight
};
[[nodiscard]] const char* to_string(GapReason reason) noexcept;
[[nodiscard]] constexpr bool is_shed(GapReason reason) noexcept {
  return static_cast<unsigned>(reason) >= 32;
}
inline constexpr std::size_t kGapReasons = 64;

/// Parallel ranks of the process that captured.
struct Ranks {
  std::int32_t tensor = 0, pipeline = 0, data = 0, expert = 0;
  friend bool operator==(const Ranks&, const Ranks&) = default;
};

enum class StepKind : std::uint8_t { graph = 1, eager = 2 };

/// Rows [row, row + rows) of a record belong to tokens [first_token, first_token + rows) of a
/// request.
struct Slice {
  Request request;  ///< null: unattributed
  std::int64_t first_token = 0;
  std::uint32_t row = 0;
  std::uint32_t rows = 0;
  RowFlags flags = RowFlags::none;
};

/// One hook's output in one step. The payload is borrowed: valid during the sink's call only.
struct Record {
  const Hook* hook = nullptr;
  std::uint16_t ordinal = 0;
  std::uint32_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::int64_t columns = 0;  ///< the size of a kPerStepColumns dimension, else 0
  std::span<const std::byte>
      payload;                    ///< rows × row_bytes, rows contiguous; less for chunked records
  std::span<const Slice> slices;  ///< in row order; rows outside every slice are unattributed
};

/// A record that was wanted and is not there, with the rows it would have had.
struct Gap {
  const Hook* hook = nullptr;
  std::uint16_t ordinal = 0;
  GapReason reason = GapReason::not_fired;
  std::span<const Slice> slices;
};

/// Everything one step (or one part of a split eager step) delivered.
/// Lifetime: borrowed by Sink::write; records point into pinned staging memory.
struct DeliveredStep {
  const HookTable* table = nullptr;
  std::uint64_t ticket = 0;  ///< unique in the process, rising
  std::uint32_t lane = 0;
  std::uint64_t step = 0;  ///< per lane, from 0
  std::uint32_t part = 0;  ///< of an eager step larger than the ring
  StepKind kind = StepKind::graph;
  Ranks ranks;
  std::uint64_t set_version = 0;  ///< of the desired set the step was planned from
  std::int64_t end_unix_ns = 0;   ///< when its end was seen
  HookSet wanted;                 ///< hooks that the step should have captured
  std::vector<Record> records;
  std::vector<Gap> gaps;
};

}  // namespace graphtap
