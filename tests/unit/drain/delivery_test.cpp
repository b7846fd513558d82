// From a plan, through its header image and the producers, to what the sinks get: every payload
// carries marks that say which hook, ordinal and row it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "device/host/producer.hpp"
#include "drain/delivery_builder.hpp"
#include "drain/outstanding.hpp"
#include "hooks/lease_book.hpp"
#include "plan/header_image.hpp"
#include "plan/planner.hpp"
#include "plan/tickets.hpp"
#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

using testing::random_lease;
using testing::random_requests;
using testing::random_spans;
using testing::random_table;

constexpr std::uint64_t kRingBytes = 1 << 18;

std::byte mark(HookId hook, std::uint16_t ordinal, std::uint32_t row, std::uint64_t byte) {
  Random random(((std::uint64_t{hook} * 64 + ordinal) << 32) + row * 4096 + byte);
  return static_cast<std::byte>(random.next());
}

/// What a deliberate violation does to one record, and the gap it must become.
enum class Violation { none, not_fired, twice, wrong_hook, wrong_ordinal, short_source, known_gap };

struct Rig {
  Rig() : ring_memory(kRingBytes), staging_memory(kRingBytes) {
    ring = FrameRing::make(ring_memory.data(), kRingBytes, 0xabcd, {});
    staging = FrameRing::make(staging_memory.data(), kRingBytes, 0, {});
  }
  std::vector<std::byte> ring_memory, staging_memory;
  std::shared_ptr<FrameRing> ring, staging;
};

std::uint32_t existing_rows(const StepPlan& plan, const Hook& hook, const StepShape& shape) {
  if (hook.rows == RowBasis::experts) return shape.expert_rows;
  if (hook.rows == RowBasis::fixed) return hook.fixed_rows;
  const auto& slices = *plan.slices(hook.rows);
  return slices.empty() ? 0 : slices.back().row + slices.back().rows;
}

/// The rows of the step's tensor that `record` must hold, in order.
std::vector<std::uint32_t> rows_of(const StepPlan& plan, const PlannedRecord& record) {
  std::vector<std::uint32_t> rows(record.rows);
  for (std::uint32_t i = 0; i < record.rows; ++i) {
    rows[i] = record.list == PlannedRecord::kNoList
                  ? i
                  : plan.lists[static_cast<std::size_t>(record.list)].rows[i];
  }
  return rows;
}

/// Runs the producer of `record` as its graph node would.
void fire(const HookTable& table, const StepPlan& plan, const StepShape& shape,
          const PlannedRecord& record, std::byte* header, Violation violation) {
  const Hook& hook = table[record.hook];
  const std::uint32_t rows = existing_rows(plan, hook, shape);
  std::vector<std::byte> tensor(rows * record.row_bytes);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint64_t i = 0; i < record.row_bytes; ++i) {
      tensor[row * record.row_bytes + i] = mark(record.hook, record.ordinal, row, i);
    }
  }
  ProducerCall call;
  call.id = {record.hook, record.ordinal, record.slot};
  if (violation == Violation::wrong_hook)
    call.id.hook = static_cast<std::uint16_t>(record.hook + 1);
  if (violation == Violation::wrong_ordinal) {
    call.id.ordinal = static_cast<std::uint16_t>(record.ordinal + 1);
  }
  call.source.data = tensor.data();
  call.source.rows = violation == Violation::short_source ? rows_of(plan, record).back() : rows;
  call.source.part_bytes = record.row_bytes;
  call.source.row_stride = static_cast<std::int64_t>(record.row_bytes);
  call.header = reinterpret_cast<wire::StepHeader*>(header);
  run_producer(call);
  if (violation == Violation::twice) run_producer(call);
}

std::optional<GapReason> expected_gap(Violation violation) {
  switch (violation) {
    case Violation::none:
      return std::nullopt;
    case Violation::not_fired:
      return GapReason::not_fired;
    case Violation::twice:
      return GapReason::fired_twice;
    case Violation::wrong_hook:
    case Violation::wrong_ordinal:
      return GapReason::wrong_head;
    case Violation::short_source:
      return GapReason::source_too_small;
    case Violation::known_gap:
      return GapReason::mismatch;
  }
  return std::nullopt;
}

void check_payload(const StepPlan& plan, const PlannedRecord& planned, const Record& record) {
  EXPECT_EQ(record.rows, planned.rows);
  EXPECT_EQ(record.row_bytes, planned.row_bytes);
  ASSERT_EQ(record.payload.size(), planned.payload_bytes());
  const std::vector<std::uint32_t> rows = rows_of(plan, planned);
  for (std::uint32_t i = 0; i < record.rows; ++i) {
    for (std::uint64_t byte = 0; byte < record.row_bytes; ++byte) {
      ASSERT_EQ(record.payload[i * record.row_bytes + byte],
                mark(planned.hook, planned.ordinal, rows[i], byte))
          << "row " << i << " is not row " << rows[i];
    }
  }
}

/// Slices name the same owners as the step's own slices of those rows.
void check_owners(const StepPlan& plan, const Hook& hook, const std::vector<std::uint32_t>& rows,
                  std::span<const Slice> slices) {
  const std::vector<Slice>* step_slices = plan.slices(hook.rows);
  if (step_slices == nullptr) {
    EXPECT_TRUE(slices.empty());
    return;
  }
  std::size_t covered = 0;
  for (const Slice& slice : slices) {
    for (std::uint32_t i = 0; i < slice.rows; ++i, ++covered) {
      ASSERT_LT(slice.row + i, rows.size());
      const std::uint32_t row = rows[slice.row + i];
      const auto owner =
          std::find_if(step_slices->begin(), step_slices->end(),
                       [&](const Slice& s) { return s.row <= row && row < s.row + s.rows; });
      ASSERT_NE(owner, step_slices->end());
      EXPECT_EQ(slice.request, owner->request);
      EXPECT_EQ(slice.first_token + i, owner->first_token + (row - owner->row));
    }
  }
  EXPECT_EQ(covered, rows.size());
}

TEST(Delivery, I1_I2_I3_EveryRecordIsRightOrAGapWithItsReason) {
  std::map<Violation, int> seen;
  int records = 0, gathered = 0;
  Rig rig;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto table = std::make_shared<const HookTable>(random_table(random));
    const auto book = LeaseBook::make(table->all());
    std::vector<Lease> held;
    for (int i = 0; i < 2; ++i) {
      held.push_back(book->add(random_lease(random, table->size())).value_or_throw());
    }
    const auto requests = random_requests(random);
    const auto spans = random_spans(random, requests);
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = spans;
    shape.columns = 1 + static_cast<std::int64_t>(random.below(4));
    shape.expert_rows = static_cast<std::uint32_t>(random.below(4));
    const Planner planner(*table, table->all(), EagerPolicy::same, 1000);
    const auto plan = planner.plan(*book->current(), shape, random.below(6));
    if (!plan) continue;
    FramePlan& frame = plan->frames[0];
    const std::vector<int> priority(table->size());
    lay_out(frame, plan->kind, table->slots());
    if (random.chance(0.3)) {
      shed_to_fit(frame, plan->kind, table->slots(), random.below(frame.bytes + 1), priority,
                  GapReason::shed_ring);
    }
    frame.ticket = next_ticket();
    Accounts accounts(table->size());
    RequestLedger ledger;
    accounts.planned(*plan);
    std::vector<Violation> violations(frame.records.size(), Violation::none);
    std::shared_ptr<FrameLoan> staging;
    if (frame.bytes > 0) {
      frame.loan = rig.ring->try_lend(frame.bytes);
      ASSERT_NE(frame.loan, nullptr);
      std::vector<std::byte> header(header_image_bytes(*plan, table->slots()));
      write_header_image(header.data(), *plan, frame, table->slots());
      std::memset(frame.loan->data(), 0, wire::census_bytes(table->slots()));
      for (std::size_t i = 0; i < frame.records.size(); ++i) {
        PlannedRecord& record = frame.records[i];
        if (random.chance(0.3)) violations[i] = static_cast<Violation>(1 + random.below(6));
        if (violations[i] == Violation::known_gap) record.gap = GapReason::mismatch;
        if (violations[i] != Violation::not_fired) {
          fire(*table, *plan, shape, record, header.data(), violations[i]);
        }
      }
      run_close_step(reinterpret_cast<wire::StepHeader*>(header.data()));
      staging = rig.staging->try_lend(frame.bytes);
      ASSERT_NE(staging, nullptr);
      std::memcpy(staging->data(), frame.loan->data(), frame.bytes);
    }
    EndedFrame ended;
    ended.plan = plan;
    const auto step = build_delivery(table, Ranks{1, 2, 3, 4}, ended, staging, accounts, ledger);

    EXPECT_EQ(step->table, table.get());
    EXPECT_EQ(step->ticket, frame.ticket);
    EXPECT_EQ(step->ranks, (Ranks{1, 2, 3, 4}));
    EXPECT_EQ(step->wanted, plan->wanted);
    std::size_t record_at = 0, gap_at = 0;
    for (std::size_t i = 0; i < frame.records.size(); ++i) {
      const PlannedRecord& planned = frame.records[i];
      const Hook& hook = (*table)[planned.hook];
      ++seen[violations[i]];
      if (const auto reason = expected_gap(violations[i])) {
        ASSERT_LT(gap_at, step->gaps.size());
        const Gap& gap = step->gaps[gap_at++];
        EXPECT_EQ(gap.hook->id, planned.hook);
        EXPECT_EQ(gap.ordinal, planned.ordinal);
        EXPECT_EQ(gap.reason, *reason) << static_cast<int>(violations[i]);
        check_owners(*plan, hook, rows_of(*plan, planned), gap.slices);
        continue;
      }
      ASSERT_LT(record_at, step->records.size()) << hook.name << " was lost without a gap";
      const Record& record = step->records[record_at++];
      ++records;
      gathered += planned.list != PlannedRecord::kNoList;
      EXPECT_EQ(record.hook->id, planned.hook);
      EXPECT_EQ(record.ordinal, planned.ordinal);
      check_payload(*plan, planned, record);
      check_owners(*plan, hook, rows_of(*plan, planned), record.slices);
    }
    EXPECT_EQ(record_at, step->records.size());
    EXPECT_EQ(gap_at + frame.shed.size(), step->gaps.size());
    for (std::size_t i = 0; i < frame.shed.size(); ++i) {
      EXPECT_EQ(step->gaps[gap_at + i].hook->id, frame.shed[i].hook);
      EXPECT_EQ(step->gaps[gap_at + i].reason, GapReason::shed_ring);
    }
    Stats stats;
    accounts.fill(stats);
    EXPECT_EQ(stats.total.planned,
              stats.total.delivered + stats.total.missing() + stats.total.shed());
    EXPECT_EQ(stats.total.delivered, step->records.size());

    // The ledger knows, for each request, the records and gaps that hold rows of it.
    Outstanding none;
    for (const Request& request : requests) {
      ledger.hold({RequestEvent::Kind::finished, request, 0, 0, true, 0, 0}, 0);
    }
    const auto holds = [](std::span<const Slice> slices, const Request& request) {
      return std::any_of(slices.begin(), slices.end(),
                         [&](const Slice& slice) { return slice.request == request; });
    };
    for (const RequestEvent& event : ledger.take_ready(none)) {
      std::uint64_t with_rows = 0, missing = 0;
      for (const Record& r : step->records) with_rows += holds(r.slices, event.request);
      for (const Gap& g : step->gaps) missing += holds(g.slices, event.request);
      EXPECT_EQ(event.records, with_rows);
      EXPECT_EQ(event.gaps, missing);
      EXPECT_EQ(event.valid, missing == 0);
    }
    frame.loan.reset();
  }
  EXPECT_GT(records, 2000);
  EXPECT_GT(gathered, 500);
  for (int i = 0; i <= 6; ++i) EXPECT_GT(seen[static_cast<Violation>(i)], 50) << i;
}

// Half of a split record is missing: only the requests whose rows it held are told so.
TEST(Delivery, I2_D3_APieceConcernsOnlyTheRequestsInIt) {
  HookTable built("m");
  HookSpec spec;
  spec.type = "resid_pre";
  spec.layer = 0;
  spec.row_shape = {4};
  ASSERT_TRUE(built.add(std::move(spec)).ok());
  const auto table = std::make_shared<const HookTable>(std::move(built));
  const auto a = std::make_shared<RequestInfo>(RequestInfo{1, "a", 0});
  const auto b = std::make_shared<RequestInfo>(RequestInfo{2, "b", 0});
  auto plan = std::make_shared<StepPlan>();
  plan->kind = StepKind::eager;
  plan->token_slices = {{a, 0, 0, 2}, {b, 0, 2, 2}};
  plan->wanted = table->all();
  plan->frames.resize(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    PlannedRecord record;
    record.first_row = 2 * i;
    record.rows = 2;
    record.row_bytes = 16;
    record.piece = true;
    record.gap = i == 0 ? std::optional(GapReason::mismatch) : std::nullopt;
    record.fired = true;
    plan->frames[i].part = i;
    plan->frames[i].ticket = next_ticket();
    plan->frames[i].records.push_back(record);
    lay_out(plan->frames[i], plan->kind, 1);
  }
  Rig rig;
  FramePlan& second = plan->frames[1];
  second.loan = rig.ring->try_lend(second.bytes);
  const PlannedRecord& record = second.records[0];
  const wire::RecordHead head{second.loan->magic(), second.ticket, 0, 0, 2, 32};
  std::memcpy(second.loan->data() + record.offset, &head, sizeof(head));
  Accounts accounts(1);
  RequestLedger ledger;
  EndedFrame ended;
  ended.plan = plan;
  ended.frame = 0;
  const auto first_part = build_delivery(table, {}, ended, nullptr, accounts, ledger);
  ended.frame = 1;
  auto staging = rig.staging->try_lend(second.bytes);
  std::memcpy(staging->data(), second.loan->data(), second.bytes);
  const auto second_part = build_delivery(table, {}, ended, staging, accounts, ledger);

  ASSERT_EQ(first_part->gaps.size(), 1u);
  EXPECT_EQ(first_part->part, 0u);
  ASSERT_EQ(first_part->gaps[0].slices.size(), 1u);
  EXPECT_EQ(first_part->gaps[0].slices[0].request, a);
  ASSERT_EQ(second_part->records.size(), 1u);
  EXPECT_EQ(second_part->part, 1u);
  ASSERT_EQ(second_part->records[0].slices.size(), 1u);
  EXPECT_EQ(second_part->records[0].slices[0].request, b);
  EXPECT_EQ(second_part->records[0].slices[0].row, 0u);
  Outstanding none;
  ledger.hold({RequestEvent::Kind::finished, a, 0, 0, true, 0, 0}, 0);
  ledger.hold({RequestEvent::Kind::finished, b, 0, 0, true, 0, 0}, 0);
  const auto events = ledger.take_ready(none);
  EXPECT_FALSE(events[0].valid);
  EXPECT_EQ(events[0].records, 0u);
  EXPECT_TRUE(events[1].valid) << "nothing of b is missing";
  EXPECT_EQ(events[1].records, 1u);
}

}  // namespace
}  // namespace graphtap
