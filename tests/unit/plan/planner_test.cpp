#include "plan/planner.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

struct Model {
  Model() {
    for (int layer = 0; layer < 3; ++layer) add("resid_pre", layer);
    add("pattern", 0, {2, kPerStepColumns});
    add("final_logits", -1, {16});
  }
  void add(const char* type, int layer, std::vector<std::int64_t> shape = {4}) {
    HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.row_shape = std::move(shape);
    ASSERT_TRUE(table.add(std::move(spec)).ok());
  }
  [[nodiscard]] std::shared_ptr<StepPlan> plan(const StepShape& shape,
                                               EagerPolicy eager = EagerPolicy::same,
                                               std::uint64_t step = 0) const {
    return Planner(table, table.all(), eager, 1000).plan(*book->current(), shape, step);
  }
  HookTable table{"small"};
  std::shared_ptr<LeaseBook> book;
  std::vector<Lease> held;

  void lease(LeaseSpec spec) {
    if (!book) book = LeaseBook::make(table.all());
    held.push_back(book->add(std::move(spec)).value_or_throw());
  }
};

LeaseSpec everything(const HookTable& table) {
  LeaseSpec spec;
  spec.hooks = table.all();
  return spec;
}

TEST(Planner, C1_LogitsBelongToTheLastTokenOfEachSpan) {
  Model model;
  model.lease(everything(model.table));
  const auto a = std::make_shared<RequestInfo>(RequestInfo{1, "a", 5});
  const auto b = std::make_shared<RequestInfo>(RequestInfo{2, "b", 3});
  const std::vector<RowSpan> spans{{a, 2, 3}, {b, 7, 0}, {b, 7, 1}};
  StepShape shape;
  shape.tokens = spans;
  shape.columns = 3;
  const auto plan = model.plan(shape);
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->request_slices.size(), 2u);
  EXPECT_EQ(plan->request_slices[0].request, a);
  EXPECT_EQ(plan->request_slices[0].first_token, 4);
  EXPECT_EQ(plan->request_slices[1].request, b);
  EXPECT_EQ(plan->request_slices[1].first_token, 7);
  EXPECT_EQ(plan->frames[0].records.back().rows, 2u);
}

TEST(Planner, B3_PerStepColumnsTakeTheSizeTheStepSays) {
  Model model;
  model.lease(everything(model.table));
  const std::vector<RowSpan> spans{{nullptr, 0, 2}};
  StepShape shape;
  shape.tokens = spans;
  shape.columns = 5;
  const auto plan = model.plan(shape);
  EXPECT_EQ(plan->frames[0].records[3].row_bytes, 2u * 5 * 4);
}

// 2^61 columns of a row: its size, and that of the frame around it, must not wrap round to
// something small.
TEST(Planner, I4_SizesThatNoFrameCanHaveAreShedAndNotWrappedRound) {
  Model model;
  model.lease(everything(model.table));
  const std::vector<RowSpan> spans{{nullptr, 0, 16}};
  for (const std::int64_t columns :
       {std::int64_t{1} << 30, std::int64_t{1} << 57, std::int64_t{1} << 61,
        std::numeric_limits<std::int64_t>::max()}) {
    StepShape shape;
    shape.tokens = spans;
    shape.columns = columns;
    const auto plan = model.plan(shape);
    ASSERT_NE(plan, nullptr);
    ASSERT_EQ(plan->frames[0].shed.size(), 1u) << columns;
    EXPECT_EQ(plan->frames[0].shed[0].hook, 3);
    EXPECT_EQ(plan->frames[0].shed[0].gap, GapReason::shed_too_large);
    EXPECT_EQ(plan->frames[0].records.size(), 4u);
    EXPECT_FALSE(plan->captured.contains(3));
    lay_out(plan->frames[0], plan->kind, model.table.slots());
    EXPECT_LT(plan->frames[0].bytes, 4096u);
  }
}

TEST(Planner, A11_EagerPolicies) {
  Model model;
  LeaseSpec one = everything(model.table);
  one.hooks = HookSet::of(model.table.size(), std::vector<HookId>{1});
  model.lease(one);
  const std::vector<RowSpan> spans{{nullptr, 0, 2}};
  StepShape shape;
  shape.tokens = spans;
  shape.columns = 1;
  for (const StepKind kind : {StepKind::graph, StepKind::eager}) {
    shape.kind = kind;
    const bool eager = kind == StepKind::eager;
    EXPECT_EQ(model.plan(shape, EagerPolicy::same)->wanted.count(), 1u);
    EXPECT_EQ(model.plan(shape, EagerPolicy::all)->wanted.count(), eager ? 5u : 1u);
    EXPECT_EQ(model.plan(shape, EagerPolicy::none) == nullptr, eager);
  }
}

TEST(Planner, A11_TheOriginalsPassthroughTakesAllRowsWhateverTheLeasesFilter) {
  Model model;
  LeaseSpec narrow = everything(model.table);
  narrow.requests = {"nobody"};
  model.lease(narrow);
  const std::vector<RowSpan> spans{{nullptr, 0, 6}};
  StepShape shape;
  shape.kind = StepKind::eager;
  shape.tokens = spans;
  EXPECT_EQ(model.plan(shape, EagerPolicy::same), nullptr);
  const auto plan = model.plan(shape, EagerPolicy::all);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->frames[0].records[0].rows, 6u);
  EXPECT_TRUE(plan->lists.empty());
}

TEST(Planner, A18_HooksWithTheSameRowsShareOneList) {
  Model model;
  LeaseSpec window = everything(model.table);
  window.windows = {{1, 3, TokenWindow::From::sequence}};
  model.lease(window);
  const auto a = std::make_shared<RequestInfo>(RequestInfo{1, "a", 5});
  const std::vector<RowSpan> spans{{a, 0, 4}};
  StepShape shape;
  shape.tokens = spans;
  shape.columns = 1;
  const auto plan = model.plan(shape);
  ASSERT_EQ(plan->lists.size(), 1u);  // token 3, the logits' row, is outside the window
  EXPECT_EQ(plan->lists[0].rows, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_FALSE(plan->wanted.contains(4));
}

TEST(Planner, AnEmptyBatchPlansNothing) {
  Model model;
  model.lease(everything(model.table));
  EXPECT_EQ(model.plan(StepShape{}), nullptr);
}

}  // namespace
}  // namespace graphtap
