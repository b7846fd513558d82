#include "drain/delivery_builder.hpp"

#include <deque>
#include <map>

#include "drain/verify.hpp"
#include "plan/row_lists.hpp"

namespace graphtap {
namespace {

struct OwnedDelivery {
  DeliveredStep step;
  std::shared_ptr<const HookTable> table;
  std::shared_ptr<StepPlan> plan;
  std::shared_ptr<FrameLoan> staging;
  std::deque<std::vector<Slice>> clipped;  // slices of pieces; a deque: spans into it stay valid
};

class Builder {
 public:
  Builder(const HookTable& table, OwnedDelivery& owned, Accounts& accounts, RequestLedger& ledger)
      : table_(table), owned_(owned), accounts_(accounts), ledger_(ledger) {}

  void record(const PlannedRecord& record, std::uint64_t bytes) {
    const Hook& hook = table_[record.hook];
    const std::byte* payload = owned_.staging->data() + record.offset + sizeof(wire::RecordHead);
    const bool whole = bytes == record.payload_bytes();
    const auto slices = whole ? slices_of(hook, record) : std::span<const Slice>{};
    owned_.step.records.push_back({&hook,
                                   record.ordinal,
                                   record.rows,
                                   record.row_bytes,
                                   owned_.plan->columns,
                                   {payload, bytes},
                                   slices});
    accounts_.delivered(record.hook, bytes);
    ++tally_for(slices).records;
  }

  void gap(const PlannedRecord& record, GapReason reason) {
    const Hook& hook = table_[record.hook];
    const auto slices = slices_of(hook, record);
    owned_.step.gaps.push_back({&hook, record.ordinal, reason, slices});
    accounts_.gap(record.hook, reason);
    ++tally_for(slices).gaps;
  }

  // One ledger entry a group of records with the same rows, not one a record.
  void finish() {
    for (const auto& [first, tally] : tallies_) {
      ledger_.tally(tally.slices, tally.records, tally.gaps);
    }
  }

 private:
  struct Tally {
    std::span<const Slice> slices;
    std::uint64_t records = 0;
    std::uint64_t gaps = 0;
  };

  [[nodiscard]] const std::vector<Slice>* whole_slices(const Hook& hook,
                                                       const PlannedRecord& record) const {
    if (record.list != PlannedRecord::kNoList) {
      return &owned_.plan->lists[static_cast<std::size_t>(record.list)].slices;
    }
    return owned_.plan->slices(hook.rows);
  }

  std::span<const Slice> slices_of(const Hook& hook, const PlannedRecord& record) {
    const std::vector<Slice>* all = whole_slices(hook, record);
    if (all == nullptr || all->empty()) return {};
    const std::uint32_t rows = all->back().row + all->back().rows;
    if (record.first_row == 0 && record.rows == rows) return *all;
    owned_.clipped.push_back(clip(*all, record.first_row, record.rows));
    return owned_.clipped.back();
  }

  Tally& tally_for(std::span<const Slice> slices) {
    Tally& tally = tallies_[slices.data()];
    tally.slices = slices;
    return tally;
  }

  const HookTable& table_;
  OwnedDelivery& owned_;
  Accounts& accounts_;
  RequestLedger& ledger_;
  std::map<const Slice*, Tally> tallies_;
};

}  // namespace

std::shared_ptr<const DeliveredStep> build_delivery(std::shared_ptr<const HookTable> table,
                                                    const Ranks& ranks, const EndedFrame& ended,
                                                    std::shared_ptr<FrameLoan> staging,
                                                    Accounts& accounts, RequestLedger& ledger) {
  auto owned = std::make_shared<OwnedDelivery>();
  owned->table = std::move(table);
  owned->plan = ended.plan;
  owned->staging = std::move(staging);
  const StepPlan& plan = *ended.plan;
  const FramePlan& frame = ended.frame_plan();
  DeliveredStep& step = owned->step;
  step.table = owned->table.get();
  step.ticket = frame.ticket;
  step.lane = plan.lane;
  step.step = plan.step;
  step.part = frame.part;
  step.kind = plan.kind;
  step.ranks = ranks;
  step.set_version = plan.set_version;
  step.end_unix_ns = ended.end_unix_ns != 0 ? ended.end_unix_ns : unix_now_ns();
  step.wanted = plan.wanted;
  step.records.reserve(frame.records.size());

  Builder builder(*owned->table, *owned, accounts, ledger);
  for (const PlannedRecord& record : frame.records) {
    std::optional<GapReason> gap = record.gap ? record.gap : frame.failed;
    Verdict verdict;
    if (!gap && !owned->staging) gap = GapReason::device_error;
    if (!gap && plan.kind == StepKind::eager && !record.fired) gap = GapReason::not_fired;
    if (!gap) {
      verdict =
          verify_record(owned->staging->data(), frame, plan.kind, record, frame.loan->magic());
      gap = verdict.gap;
    }
    if (gap) {
      builder.gap(record, *gap);
    } else {
      builder.record(record, verdict.bytes);
    }
  }
  for (const PlannedRecord& record : frame.shed) {
    builder.gap(record, record.gap.value_or(GapReason::shed_ring));
  }
  builder.finish();
  return {owned, &owned->step};
}

}  // namespace graphtap
