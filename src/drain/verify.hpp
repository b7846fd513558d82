#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "graphtap/delivery.hpp"
#include "plan/step_plan.hpp"

namespace graphtap {

/// Looks at what lies at a planned record's place in a copied frame.
struct Verdict {
  std::optional<GapReason> gap;  // why it is not the planned record
  std::uint64_t bytes = 0;       // of its payload, if it is
};

/// The one check that decides whether a record is delivered: its firing count (graph steps), then
/// magic, ticket, hook, ordinal, rows and bytes of its head against the plan.
[[nodiscard]] Verdict verify_record(const std::byte* frame, const FramePlan& plan, StepKind kind,
                                    const PlannedRecord& record, std::uint64_t magic) noexcept;

}  // namespace graphtap
