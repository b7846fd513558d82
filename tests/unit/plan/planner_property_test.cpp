// The planner against an oracle that asks of each row alone whether somebody wants it.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "hooks/lease_book.hpp"
#include "plan/planner.hpp"
#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

using testing::random_lease;
using testing::random_requests;
using testing::random_set;
using testing::random_spans;
using testing::random_table;

constexpr std::uint32_t kAnyRows = 1u << 30;

/// One row of a step: who owns it.
struct Row {
  Request request;
  std::int64_t token = 0;
  RowFlags flags = RowFlags::none;
};

struct Case {
  explicit Case(HookTable hooks) : table(std::move(hooks)) {}

  HookTable table;
  HookSet active;
  std::vector<LeaseSpec> leases;
  std::vector<RowSpan> spans, request_spans;
  StepShape shape;
  std::uint64_t step = 0;
  EagerPolicy eager = EagerPolicy::same;

  // What the shape means, row by row.
  std::vector<Row> tokens, requests;
};

std::vector<Row> rows_of(const std::vector<RowSpan>& spans) {
  std::vector<Row> rows;
  for (const RowSpan& span : spans) {
    for (std::uint32_t i = 0; i < span.rows; ++i) {
      rows.push_back({span.request, span.first_token + i, span.flags});
    }
  }
  return rows;
}

std::unique_ptr<Case> random_case(Random& random) {
  auto made = std::make_unique<Case>(random_table(random));
  Case& c = *made;
  c.active = random_set(random, c.table.size(), random.chance(0.5) ? 1.0 : 0.7);
  const std::uint64_t leases = random.below(5);
  for (std::uint64_t i = 0; i < leases; ++i) {
    c.leases.push_back(random_lease(random, c.table.size()));
    if (random.chance(0.15)) {  // a consumer that wants all of its hooks
      c.leases.back().requests.clear();
      c.leases.back().windows.clear();
      c.leases.back().sampling = {};
    }
  }
  const std::vector<Request> requests = random_requests(random);
  c.spans = random_spans(random, requests);
  c.tokens = rows_of(c.spans);
  if (random.chance(0.3)) {
    for (const RowSpan& span : random_spans(random, requests)) {
      c.request_spans.push_back({span.request, span.first_token, 1, span.flags});
    }
    c.requests = rows_of(c.request_spans);
  }
  if (c.request_spans.empty()) {
    std::size_t end = 0;
    for (const RowSpan& span : c.spans) {
      end += span.rows;
      if (span.rows > 0) c.requests.push_back(c.tokens[end - 1]);
    }
  }
  c.shape.kind = random.chance(0.5) ? StepKind::graph : StepKind::eager;
  c.shape.tokens = c.spans;
  c.shape.requests = c.request_spans;
  c.shape.expert_rows = static_cast<std::uint32_t>(random.below(4));
  c.shape.columns = static_cast<std::int64_t>(random.below(4));
  c.step = random.below(12);
  c.eager = static_cast<EagerPolicy>(random.below(3));
  return made;
}

bool lets_through(const LeaseSpec& lease, const Row& row) {
  if (!lease.requests.empty() || lease.sampling.every_request > 1) {
    if (!row.request || row.request->serial % lease.sampling.every_request != 0) return false;
    if (!lease.requests.empty() &&
        std::count(lease.requests.begin(), lease.requests.end(), row.request->id) == 0) {
      return false;
    }
  }
  if (lease.sampling.phase != Sampling::Phase::any) {
    if (!row.request) return false;
    const bool prompt = row.token < row.request->prompt_tokens;
    if (prompt != (lease.sampling.phase == Sampling::Phase::prefill)) return false;
  }
  if (lease.windows.empty()) return true;
  if (!row.request) return false;
  return std::any_of(lease.windows.begin(), lease.windows.end(), [&](const TokenWindow& window) {
    const bool response = window.from == TokenWindow::From::response;
    const std::int64_t at = row.token - (response ? row.request->prompt_tokens : 0);
    return window.begin <= at && at < window.end;
  });
}

/// The rows of `hook` that the step must capture, in order.
std::vector<std::uint32_t> wanted_rows(const Case& c, const Hook& hook, std::uint32_t existing,
                                       const std::vector<Row>* owners) {
  std::vector<std::uint32_t> rows;
  if (!c.active.contains(hook.id)) return rows;
  const bool eager = c.shape.kind == StepKind::eager;
  if (eager && c.eager == EagerPolicy::none) return rows;
  const bool all = eager && c.eager == EagerPolicy::all;
  for (std::uint32_t row = 0; row < existing; ++row) {
    const bool wanted =
        all || std::any_of(c.leases.begin(), c.leases.end(), [&](const LeaseSpec& lease) {
          if (!lease.hooks.contains(hook.id) || c.step % lease.sampling.every_step != 0)
            return false;
          return owners == nullptr || lets_through(lease, (*owners)[row]);
        });
    if (wanted) rows.push_back(row);
  }
  return rows;
}

std::shared_ptr<StepPlan> plan_of(const Case& c, std::uint32_t max_list_rows) {
  const auto book = LeaseBook::make(c.active);
  std::vector<Lease> held;
  for (const LeaseSpec& spec : c.leases) {
    Result<Lease> lease = book->add(spec);
    // Refused only if none of its hooks is active: then it wants nothing.
    if (lease.ok()) held.push_back(std::move(lease).value());
  }
  const Planner planner(c.table, c.active, c.eager, max_list_rows);
  return planner.plan(*book->current(), c.shape, c.step);
}

std::uint32_t existing_rows(const Case& c, const Hook& hook) {
  switch (hook.rows) {
    case RowBasis::tokens:
      return static_cast<std::uint32_t>(c.tokens.size());
    case RowBasis::requests:
      return static_cast<std::uint32_t>(c.requests.size());
    case RowBasis::experts:
      return c.shape.expert_rows;
    case RowBasis::fixed:
      return hook.fixed_rows;
  }
  return 0;
}

const std::vector<Row>* owners_of(const Case& c, const Hook& hook) {
  if (hook.rows == RowBasis::tokens) return &c.tokens;
  if (hook.rows == RowBasis::requests) return &c.requests;
  return nullptr;
}

/// Every one of `rows` is owned by exactly one slice, and by the right one.
void check_slices(const std::vector<Slice>& slices, const std::vector<std::uint32_t>& rows,
                  const std::vector<Row>& owners) {
  std::vector<int> covered(rows.size());
  for (const Slice& slice : slices) {
    ASSERT_GT(slice.rows, 0u);
    ASSERT_LE(slice.row + slice.rows, rows.size());
    for (std::uint32_t i = 0; i < slice.rows; ++i) {
      const Row& owner = owners[rows[slice.row + i]];
      ++covered[slice.row + i];
      EXPECT_EQ(slice.request, owner.request);
      EXPECT_EQ(slice.first_token + i, owner.token);
      EXPECT_EQ(slice.flags, owner.flags);
    }
  }
  EXPECT_EQ(std::count(covered.begin(), covered.end(), 1),
            static_cast<std::ptrdiff_t>(rows.size()));
  EXPECT_TRUE(std::is_sorted(slices.begin(), slices.end(),
                             [](const Slice& a, const Slice& b) { return a.row < b.row; }));
}

struct Counts {
  int plans = 0, nothing = 0, gathered = 0, whole = 0, two_lists = 0, ordinals = 0, shed = 0;
};

void check(const Case& c, const std::shared_ptr<StepPlan>& plan, Counts& counts) {
  std::vector<HookId> wanted;
  std::size_t next = 0;  // record that comes now
  for (const Hook& hook : c.table.hooks()) {
    const std::uint32_t existing = existing_rows(c, hook);
    const std::vector<Row>* owners = owners_of(c, hook);
    const std::vector<std::uint32_t> rows = wanted_rows(c, hook, existing, owners);
    if (rows.empty() || hook.row_bytes(c.shape.columns) == 0) continue;
    wanted.push_back(hook.id);
    ASSERT_NE(plan, nullptr) << hook.name << " is wanted";
    for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal, ++next) {
      ASSERT_LT(next, plan->frames[0].records.size()) << hook.name << " is missing";
      const PlannedRecord& record = plan->frames[0].records[next];
      SCOPED_TRACE(hook.name);
      ASSERT_EQ(record.hook, hook.id);
      EXPECT_EQ(record.ordinal, ordinal);
      EXPECT_EQ(record.slot, hook.first_slot + ordinal);
      EXPECT_EQ(record.row_bytes, hook.row_bytes(c.shape.columns));
      EXPECT_EQ(record.rows, rows.size());
      EXPECT_EQ(record.first_row, 0u);
      EXPECT_FALSE(record.gap.has_value());
      counts.ordinals += ordinal > 0;
      if (rows.size() == existing) {
        EXPECT_EQ(record.list, PlannedRecord::kNoList) << "all rows need no list";
        ++counts.whole;
        if (owners != nullptr) check_slices(*plan->slices(hook.rows), rows, *owners);
        continue;
      }
      ASSERT_GE(record.list, 0);
      ++counts.gathered;
      const RowList& list = plan->lists[static_cast<std::size_t>(record.list)];
      EXPECT_EQ(list.basis, hook.rows);
      EXPECT_EQ(list.rows, rows);
      check_slices(list.slices, rows, *owners);
    }
  }
  if (wanted.empty()) {
    EXPECT_EQ(plan, nullptr) << "nothing is wanted";
    ++counts.nothing;
    return;
  }
  ++counts.plans;
  counts.two_lists += plan->lists.size() > 1;
  EXPECT_EQ(plan->frames.size(), 1u);
  EXPECT_EQ(plan->frames[0].records.size(), next) << "a record nobody wants";
  EXPECT_TRUE(plan->frames[0].shed.empty());
  EXPECT_EQ(plan->wanted, HookSet::of(c.table.size(), wanted));
  EXPECT_EQ(plan->captured, plan->wanted);
  EXPECT_EQ(plan->step, c.step);
  EXPECT_EQ(plan->kind, c.shape.kind);
  EXPECT_EQ(plan->columns, c.shape.columns);
}

TEST(Planner, I1_A11_A18_B2_PlansExactlyTheRowsSomebodyWants) {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto c = random_case(random);
    check(*c, plan_of(*c, kAnyRows), counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.plans, 1000);
  EXPECT_GT(counts.nothing, 200);
  EXPECT_GT(counts.gathered, 1000);
  EXPECT_GT(counts.whole, 1000);
  EXPECT_GT(counts.two_lists, 200);
  EXPECT_GT(counts.ordinals, 500);
}

// A header holds so many row-list entries and no more: writing past its end would be writing into
// other device memory. What finds no room is shed, with its rows; all else is planned as before.
TEST(Planner, I4_RowListsNeverOutgrowTheHeader) {
  int shed = 0, squeezed = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto c = random_case(random);
    const auto room = static_cast<std::uint32_t>(random.below(8));
    const auto free = plan_of(*c, kAnyRows);
    const auto tight = plan_of(*c, room);
    ASSERT_EQ(free == nullptr, tight == nullptr);
    if (!free) continue;
    std::size_t entries = 0;
    for (const RowList& list : tight->lists) entries += list.in_header ? list.rows.size() : 0;
    EXPECT_LE(entries, room);
    const FramePlan& frame = tight->frames[0];
    EXPECT_EQ(frame.records.size() + frame.shed.size(), free->frames[0].records.size());
    for (const PlannedRecord& record : frame.records) {
      if (record.list == PlannedRecord::kNoList) continue;
      EXPECT_TRUE(tight->lists[static_cast<std::size_t>(record.list)].in_header);
    }
    for (const PlannedRecord& record : frame.shed) {
      ++shed;
      EXPECT_EQ(record.gap, GapReason::shed_too_large);
      ASSERT_GE(record.list, 0);
      const RowList& list = tight->lists[static_cast<std::size_t>(record.list)];
      EXPECT_FALSE(list.in_header);
      EXPECT_EQ(list.rows.size(), record.rows);
      EXPECT_FALSE(list.slices.empty()) << "a gap says whose rows are missing";
      EXPECT_FALSE(tight->captured.contains(record.hook));
      EXPECT_TRUE(tight->wanted.contains(record.hook));
    }
    squeezed += !frame.shed.empty() && !frame.records.empty();
  }
  EXPECT_GT(shed, 200);
  EXPECT_GT(squeezed, 100);
}

}  // namespace
}  // namespace graphtap
