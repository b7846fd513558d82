#pragma once
#include <cstdint>
#include <memory>

#include "graphtap/hook_table.hpp"
#include "graphtap/options.hpp"
#include "graphtap/step_shape.hpp"
#include "hooks/lease_book.hpp"
#include "plan/step_plan.hpp"

namespace graphtap {

/// Turns "these rows, these requests, this demand" into a step plan: which records, how long each,
/// which rows. Knows no ring: space is a second step (lay_out, shed_to_fit). Stateless;
/// thread-safe.
class Planner {
 public:
  /// `max_list_rows`: row-list entries that a header holds; hooks whose list finds no room are
  /// shed.
  Planner(const HookTable& table, HookSet active, EagerPolicy eager, std::uint32_t max_list_rows)
      : table_(table), active_(std::move(active)), eager_(eager), max_list_rows_(max_list_rows) {}

  /// The plan of a step before space was found: one frame with every wanted record, without offsets
  /// or a ticket; what could fit no ring or header is in its `shed`. Null if the step wants
  /// nothing.
  [[nodiscard]] std::shared_ptr<StepPlan> plan(const Demand& demand, const StepShape& shape,
                                               std::uint64_t step_number) const;

 private:
  const HookTable& table_;
  HookSet active_;
  EagerPolicy eager_;
  std::uint32_t max_list_rows_;
};

/// Bytes before the first record of a frame: the census of a graph step, 16 bytes of an eager one
/// (an offset of 0 means OFF).
[[nodiscard]] std::uint64_t frame_prologue(StepKind kind, std::uint32_t slots) noexcept;

/// Gives every record of `frame` its offset; sets frame.bytes (0 if it holds no record).
void lay_out(FramePlan& frame, StepKind kind, std::uint32_t slots);

/// Keeps the records that fit `limit` bytes, highest priority first and in firing order among
/// equals, moves the others into frame.shed and lays out what is kept. One that is too large does
/// not keep those below it from being tried.
void shed_to_fit(FramePlan& frame, StepKind kind, std::uint32_t slots, std::uint64_t limit,
                 const std::vector<int>& priority, GapReason reason);

/// Splits an eager step into frames of at most `limit` bytes each, and records by rows where one
/// alone is larger. What cannot be split (one row larger than `limit`) is shed as too large.
void split_frames(StepPlan& plan, std::uint32_t slots, std::uint64_t limit);

/// StepPlan::captured from what the frames hold.
void refresh_captured(StepPlan& plan, std::size_t universe);

}  // namespace graphtap
