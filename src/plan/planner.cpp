#include "plan/planner.hpp"

#include <algorithm>
#include <map>

#include "plan/row_lists.hpp"
#include "plan/wire.hpp"

namespace graphtap {
namespace {

std::vector<Slice> slices_of(std::span<const RowSpan> spans) {
  std::vector<Slice> slices;
  slices.reserve(spans.size());
  std::uint32_t row = 0;
  for (const RowSpan& span : spans) {
    if (span.rows == 0) continue;
    slices.push_back({span.request, span.first_token, row, span.rows, span.flags});
    row += span.rows;
  }
  return slices;
}

// Logits: one row a request, at the last token of its span.
std::vector<Slice> last_tokens(std::span<const Slice> tokens) {
  std::vector<Slice> slices;
  slices.reserve(tokens.size());
  std::uint32_t row = 0;
  for (const Slice& span : tokens) {
    slices.push_back({span.request, span.first_token + span.rows - 1, row++, 1, span.flags});
  }
  return slices;
}

std::uint32_t row_count(std::span<const Slice> slices) {
  return slices.empty() ? 0 : slices.back().row + slices.back().rows;
}

// Row lists of a step, one for each combination of filtered leases that some hook needs.
class ListMaker {
 public:
  ListMaker(StepPlan& plan, const Demand& demand, std::uint64_t step, std::uint32_t room)
      : plan_(plan), demand_(demand), step_(step), room_(room) {}

  // Index of the list for `hook`, kNoList for all rows, nothing if the step wants no row of it.
  std::optional<std::int32_t> list_for(const Hook& hook) {
    std::vector<bool> key(demand_.filtered.size() + 1);
    key.back() = hook.rows == RowBasis::tokens;
    bool any = false;
    for (std::size_t i = 0; i < demand_.filtered.size(); ++i) {
      const LeaseSpec& lease = *demand_.filtered[i];
      if (!lease.hooks.contains(hook.id) || step_ % lease.sampling.every_step != 0) continue;
      key[i] = true;
      any = true;
    }
    if (!any) return std::nullopt;
    const std::vector<Slice>* slices = plan_.slices(hook.rows);
    if (slices == nullptr) return PlannedRecord::kNoList;  // rows without owners cannot be filtered
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = make(key, hook.rows, *slices);
  }

 private:
  std::optional<std::int32_t> make(const std::vector<bool>& key, RowBasis basis,
                                   const std::vector<Slice>& slices) {
    std::vector<RowRange> ranges;
    for (std::size_t i = 0; i < demand_.filtered.size(); ++i) {
      if (!key[i]) continue;
      const auto more = wanted_rows(*demand_.filtered[i], slices);
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
    ranges = unite(std::move(ranges));
    if (ranges.empty()) return std::nullopt;
    if (ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end == row_count(slices)) {
      return PlannedRecord::kNoList;
    }
    RowList list = make_row_list(basis, ranges, slices);
    list.in_header = list.rows.size() <= room_;
    if (list.in_header) room_ -= list.rows.size();
    plan_.lists.push_back(std::move(list));
    return static_cast<std::int32_t>(plan_.lists.size()) - 1;
  }

  StepPlan& plan_;
  const Demand& demand_;
  const std::uint64_t step_;
  std::size_t room_;  // entries that the header has left
  std::map<std::vector<bool>, std::optional<std::int32_t>> known_;
};

}  // namespace

std::shared_ptr<StepPlan> Planner::plan(const Demand& demand, const StepShape& shape,
                                        std::uint64_t step_number) const {
#if defined(GRAPHTAP_BUG_eager_ignores_gate)
  const bool everything = shape.kind == StepKind::eager;
#else
  const bool everything = shape.kind == StepKind::eager && eager_ == EagerPolicy::all;
#endif
  if (shape.kind == StepKind::eager && eager_ == EagerPolicy::none) return nullptr;
  const HookSet& enabled = everything ? active_ : demand.enabled;
  if (enabled.empty()) return nullptr;

  auto plan = std::make_shared<StepPlan>();
  plan->step = step_number;
  plan->kind = shape.kind;
  plan->set_version = demand.version;
  plan->columns = shape.columns;
  plan->token_slices = slices_of(shape.tokens);
  plan->request_slices =
      shape.requests.empty() ? last_tokens(plan->token_slices) : slices_of(shape.requests);
  const std::uint32_t rows_of[] = {row_count(plan->token_slices), row_count(plan->request_slices),
                                   shape.expert_rows, 0};

  ListMaker lists(*plan, demand, step_number, max_list_rows_);
  FramePlan frame;
  frame.records.reserve(enabled.count());
  std::vector<HookId> wanted;
  wanted.reserve(enabled.count());
  for (const HookId id : enabled.ids()) {
    const Hook& hook = table_[id];
    PlannedRecord record;
    record.hook = id;
    record.row_bytes = hook.row_bytes(shape.columns);
    record.rows = hook.rows == RowBasis::fixed ? hook.fixed_rows
                                               : rows_of[static_cast<std::size_t>(hook.rows)];
    bool possible = true;
    if (!everything && !demand.unfiltered.contains(id)) {
      const auto list = lists.list_for(hook);
      if (!list) continue;
      record.list = *list;
      if (*list != PlannedRecord::kNoList) {
        const RowList& rows = plan->lists[static_cast<std::size_t>(*list)];
        record.rows = static_cast<std::uint32_t>(rows.rows.size());
        possible = rows.in_header;
      }
    }
    if (record.payload_bytes() == 0) continue;
    possible = possible && record.payload_bytes() < wire::kMaxFrameBytes;
    if (!possible) record.gap = GapReason::shed_too_large;
    wanted.push_back(id);
    for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
      record.ordinal = ordinal;
      record.slot = hook.first_slot + ordinal;
      (possible ? frame.records : frame.shed).push_back(record);
    }
  }
  if (wanted.empty()) return nullptr;
  plan->wanted = HookSet::of(table_.size(), wanted);
  plan->frames.push_back(std::move(frame));
  plan->captured = plan->wanted;
  if (!plan->frames[0].shed.empty()) refresh_captured(*plan, table_.size());
  return plan;
}

std::uint64_t frame_prologue(StepKind kind, std::uint32_t slots) noexcept {
  return kind == StepKind::graph ? wire::census_bytes(slots) : wire::kAlign;
}

void lay_out(FramePlan& frame, StepKind kind, std::uint32_t slots) {
  std::uint64_t offset = frame_prologue(kind, slots);
  for (PlannedRecord& record : frame.records) {
    record.offset = offset;
    offset += wire::record_bytes(record.payload_bytes());
  }
  frame.bytes = frame.records.empty() ? 0 : offset;
}

void shed_to_fit(FramePlan& frame, StepKind kind, std::uint32_t slots, std::uint64_t limit,
                 const std::vector<int>& priority, GapReason reason) {
  const auto rank = [&](const PlannedRecord& r) {
    return r.hook < priority.size() ? priority[r.hook] : 0;
  };
  std::vector<std::size_t> order(frame.records.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rank(frame.records[a]) > rank(frame.records[b]);
  });
  std::uint64_t bytes = frame_prologue(kind, slots);
  std::vector<bool> keep(frame.records.size());
  for (const std::size_t i : order) {
    const std::uint64_t more = wire::record_bytes(frame.records[i].payload_bytes());
    if (bytes + more > limit) continue;
    bytes += more;
    keep[i] = true;
  }
  std::vector<PlannedRecord> kept;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) {
      kept.push_back(frame.records[i]);
    } else {
      frame.shed.push_back(frame.records[i]);
      frame.shed.back().gap = reason;
    }
  }
  frame.records = std::move(kept);
  lay_out(frame, kind, slots);
}

void split_frames(StepPlan& plan, std::uint32_t slots, std::uint64_t limit) {
  const std::uint64_t room = limit - std::min(limit, frame_prologue(plan.kind, slots));
  std::vector<FramePlan> parts(1);
  parts[0].shed = std::move(plan.frames[0].shed);
  std::uint64_t used = 0;
  const auto put = [&](const PlannedRecord& piece) {
    const std::uint64_t bytes = wire::record_bytes(piece.payload_bytes());
    if (used + bytes > room && !parts.back().records.empty()) {
      parts.emplace_back();
      used = 0;
    }
    parts.back().records.push_back(piece);
    used += bytes;
  };
  const std::uint64_t head = sizeof(wire::RecordHead);
  const std::uint64_t payload_room = room > head ? (room - head) / wire::kAlign * wire::kAlign : 0;
  for (PlannedRecord record : plan.frames[0].records) {
    if (wire::record_bytes(record.payload_bytes()) <= room) {
      put(record);
      continue;
    }
    const std::uint64_t rows_that_fit = payload_room / record.row_bytes;
    if (rows_that_fit == 0) {
      record.gap = GapReason::shed_too_large;
      parts.back().shed.push_back(record);
      continue;
    }
    const std::uint32_t end = record.rows;
    record.piece = true;
    for (std::uint32_t row = 0; row < end;) {
      record.first_row = row;
      record.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows_that_fit, end - row));
      row += record.rows;
      put(record);
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].part = static_cast<std::uint32_t>(i);
    lay_out(parts[i], plan.kind, slots);
  }
  plan.frames = std::move(parts);
}

void refresh_captured(StepPlan& plan, std::size_t universe) {
  std::vector<HookId> ids;
  for (const FramePlan& frame : plan.frames) {
    for (const PlannedRecord& record : frame.records) ids.push_back(record.hook);
  }
  plan.captured = HookSet::of(universe, ids);
}

}  // namespace graphtap
