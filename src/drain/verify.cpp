#include "drain/verify.hpp"

#include <cstring>

#include "plan/wire.hpp"

namespace graphtap {

Verdict verify_record(const std::byte* frame, [[maybe_unused]] const FramePlan& plan, StepKind kind,
                      const PlannedRecord& record, [[maybe_unused]] std::uint64_t magic) noexcept {
  if (kind == StepKind::graph) {
    std::uint32_t fired = 0;
    std::memcpy(&fired, frame + record.slot * sizeof(fired), sizeof(fired));
    if (fired == 0) return {GapReason::not_fired, 0};
#if !defined(GRAPHTAP_BUG_census_ignored)
    if (fired > 1) return {GapReason::fired_twice, 0};
#endif
  }
  wire::RecordHead head;
  std::memcpy(&head, frame + record.offset, sizeof(head));
#if !defined(GRAPHTAP_BUG_ticket_not_checked)
  if (head.magic != magic || head.ticket != plan.ticket) {
    // An eager producer that never ran leaves what the ring held before.
    return {kind == StepKind::graph ? GapReason::wrong_head : GapReason::not_fired, 0};
  }
#endif
#if !defined(GRAPHTAP_BUG_identity_not_checked)
  if (head.hook != record.hook || head.ordinal != record.ordinal) return {GapReason::wrong_head, 0};
#endif
  if (head.rows != record.rows) return {GapReason::source_too_small, 0};
  const bool size_is_right =
      record.chunked ? head.bytes <= record.payload_bytes() : head.bytes == record.payload_bytes();
  if (!size_is_right) return {GapReason::wrong_head, 0};
  return {std::nullopt, head.bytes};
}

}  // namespace graphtap
