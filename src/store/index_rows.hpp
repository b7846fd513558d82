#pragma once
// What a row of each table of index.sqlite holds, in the order of its columns. One place for both
// the writer of rows and the check that compares them.
#include <array>
#include <cstdint>

#include "store/index.hpp"

namespace graphtap::store {

template <std::size_t N>
using Ints = std::array<std::int64_t, N>;

inline constexpr int kIndexVersion = 1;
extern const char* const kIndexSchema;

[[nodiscard]] inline std::int64_t as_signed(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value);
}

[[nodiscard]] inline Ints<15> values(const IndexBatch::Row<FrameEntry>& row) {
  const FrameEntry& e = row.entry;
  return {as_signed(row.segment),
          row.place,
          row.run,
          as_signed(e.offset),
          as_signed(e.bytes),
          as_signed(e.ticket),
          e.part,
          e.lane,
          as_signed(e.step),
          e.step_kind,
          as_signed(e.set_version),
          e.end_unix_ns,
          e.records,
          e.gaps,
          as_signed(e.payload_bytes)};
}
[[nodiscard]] inline Ints<8> values(const IndexBatch::Row<RangeEntry>& row) {
  const RangeEntry& e = row.entry;
  return {as_signed(row.segment), row.run,  as_signed(e.request), e.first_frame,
          e.last_frame,           e.frames, e.first_token,        e.end_token};
}
[[nodiscard]] inline Ints<10> values(const IndexBatch::Row<EventEntry>& row) {
  const EventEntry& e = row.entry;
  return {as_signed(row.segment),
          row.place,
          row.run,
          as_signed(e.request),
          e.kind,
          e.begin,
          e.end,
          e.valid,
          as_signed(e.records),
          as_signed(e.gaps)};
}
[[nodiscard]] inline Ints<7> values(const IndexBatch::Row<HookTotalEntry>& row) {
  const HookTotalEntry& e = row.entry;
  return {as_signed(row.segment), row.run,           e.hook,
          as_signed(e.records),   as_signed(e.rows), as_signed(e.tokens),
          as_signed(e.bytes)};
}
[[nodiscard]] inline Ints<5> values(const IndexBatch::Row<GapTotalEntry>& row) {
  const GapTotalEntry& e = row.entry;
  return {as_signed(row.segment), row.run, e.hook, e.reason, as_signed(e.count)};
}

/// Rows of one segment, in the order of the primary key.
inline constexpr const char* kSelectSteps =
    "SELECT segment, frame, run, offset, bytes, ticket, part, lane, step, kind, set_version, "
    "end_unix_ns, "
    "records, gaps, payload_bytes FROM steps WHERE segment = ? ORDER BY frame";
inline constexpr const char* kSelectSpans =
    "SELECT segment, run, request, first_frame, last_frame, frames, first_token, end_token FROM "
    "spans "
    "WHERE segment = ? ORDER BY run, request, first_frame";
inline constexpr const char* kSelectEvents =
    "SELECT segment, place, run, request, kind, begin_token, end_token, valid, records, gaps FROM "
    "events "
    "WHERE segment = ? ORDER BY place";
inline constexpr const char* kSelectHookTotals =
    "SELECT segment, run, hook, records, rows, tokens, bytes FROM hook_totals WHERE segment = ? "
    "ORDER BY hook";
inline constexpr const char* kSelectGapTotals =
    "SELECT segment, run, hook, reason, count FROM gap_totals WHERE segment = ? ORDER BY hook, "
    "reason";

}  // namespace graphtap::store
