#pragma once
// The content of tests/data/store-1.0, which was written by the first version of the format.
#include <algorithm>
#include <vector>

#include "graphtap/sink.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {

inline HookTable golden_table() {
  HookTable table("golden");
  int layer = 0;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::f8_e4m3,
                            DType::f8_e5m2, DType::i32, DType::boolean}) {
    static_cast<void>(table.add({"resid_pre", layer++, dtype, {6}, 1, 1}).value_or_throw());
  }
  static_cast<void>(table.add({"z", 0, DType::f32, {2, 3}, 2, 1}).value_or_throw());
  static_cast<void>(
      table.add({"pattern", 0, DType::f16, {2, kPerStepColumns}, 1, 1}).value_or_throw());
  static_cast<void>(table.add({"final_logits", -1, DType::f32, {5}, 1, 1}).value_or_throw());
  return table;
}

inline std::vector<OwnedStep> golden_steps(const HookTable& table) {
  const Request a = make_request(1, "a", 4);
  const Request b = make_request(2, "b/ü", 2);
  std::vector<OwnedStep> steps;
  for (std::uint64_t ticket = 1; ticket <= 6; ++ticket) {
    OwnedStep step;
    step.ticket = ticket;
    step.step = ticket - 1;
    step.kind = ticket == 1 ? StepKind::eager : StepKind::graph;
    step.set_version = ticket < 4 ? 1 : 2;
    step.end_unix_ns = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(ticket) * 1'000'000;
    step.wanted = table.all();
    const auto token = static_cast<std::int64_t>(ticket * 2);
    const RowFlags flags = ticket == 5 ? RowFlags::recomputed : RowFlags::none;
    const std::vector<Slice> slices{{a, token, 0, 2, flags}, {b, token - 2, 2, 1, RowFlags::none}};
    for (const Hook& hook : table.hooks()) {
      for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
        const std::int64_t columns = hook.type == "pattern" ? token + 2 : 0;
        OwnedRecord record =
            make_record(table, hook.id, slices, ticket * 100 + hook.id * 2u + ordinal, columns);
        record.ordinal = ordinal;
        if (ticket == 3 && hook.layer == 2) {
          step.gaps.push_back({hook.id, ordinal, GapReason::wrong_head, slices});
        } else {
          step.records.push_back(std::move(record));
        }
      }
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

inline std::vector<RequestEvent> golden_events() {
  const Request a = make_request(1, "a", 4);
  return {{RequestEvent::Kind::not_computed, a, 0, 2, true, 0, 0},
          {RequestEvent::Kind::rejected, a, 13, 14, true, 0, 0},
          {RequestEvent::Kind::finished, a, 0, 0, false, 71, 1}};
}

}  // namespace graphtap::store_test
