// Eager steps: their policies, ordinals, and steps that are larger than the ring.
#include <gtest/gtest.h>

#include <numeric>

#include "support/seeds.hpp"
#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::Captured;
using testing::Rig;
using testing::RigOptions;
using testing::SeenStep;

using Rows = std::vector<std::uint32_t>;

Rows first(std::uint32_t count) {
  Rows rows(count);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

TEST(Eager, A11_EachPolicyForEagerStepsAndTheEnabledSetForGraphSteps) {
  for (const EagerPolicy policy : {EagerPolicy::same, EagerPolicy::all, EagerPolicy::none}) {
    RigOptions options;
    options.monitor.eager = policy;
    options.monitor.selection = "resid_pre:1";
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 2}}).ok());  // step 0
    rig.eager_step({0, 1, 2, 3}, {{request, 2, 2}});             // step 1
    ASSERT_TRUE(rig.monitor->enable("none").ok());
    ASSERT_TRUE(rig.graph_step(graph, {{request, 4, 2}}).ok());  // step 2
    rig.eager_step({0, 1, 2, 3}, {{request, 6, 2}});             // step 3
    rig.settle();
    rig.verify();
    for (HookId hook = 0; hook < 4; ++hook) {
      const bool enabled = hook == 1;
      EXPECT_EQ(rig.rows_delivered(0, hook).size(), enabled ? 2u : 0u);
      const bool first_eager =
          policy == EagerPolicy::all || (policy == EagerPolicy::same && enabled);
      EXPECT_EQ(rig.rows_delivered(1, hook).size(), first_eager ? 2u : 0u) << hook;
      EXPECT_EQ(rig.rows_delivered(2, hook).size(), 0u);
      EXPECT_EQ(rig.rows_delivered(3, hook).size(), policy == EagerPolicy::all ? 2u : 0u);
    }
  }
}

TEST(Eager, A18_AWatchedRequestsWindowIsGathered) {
  RigOptions options;
  options.monitor.selection = "none";
  Rig rig(options);
  const auto a = rig.monitor->begin_request("a", 3), b = rig.monitor->begin_request("b", 2);
  LeaseSpec spec;
  spec.hooks = rig.set({1, 2});
  spec.requests = {"b"};
  spec.windows = {{1, 3, TokenWindow::From::response}};  // tokens 3 and 4
  const Lease lease = rig.monitor->watch(spec);
  rig.eager_step({0, 1, 2, 3}, {{a, 0, 5}, {b, 0, 6}});
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.rows_delivered(0, 1), (Rows{8, 9}));
  EXPECT_EQ(rig.rows_delivered(0, 2), (Rows{8, 9}));
  EXPECT_TRUE(rig.rows_delivered(0, 0).empty());
}

TEST(Eager, I1_OrdinalsAreTheOrderOfTheCallsAndNoMoreThanPlanned) {
  RigOptions options;
  options.twice = true;
  Rig rig(options);
  const HookId twice = 4;
  const auto request = rig.monitor->begin_request("a");
  rig.eager_step({twice, 0, twice, twice}, {{request, 0, 3}});  // the third call has no place
  rig.eager_step({twice}, {{request, 3, 1}});                   // the second never comes
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.rows_delivered(0, twice, 0), first(3));
  EXPECT_EQ(rig.rows_delivered(0, twice, 1), first(3));
  EXPECT_EQ(rig.rows_delivered(1, twice, 0), first(1));
  EXPECT_TRUE(rig.rows_delivered(1, twice, 1).empty());
  EXPECT_EQ(rig.monitor->stats().hooks[twice].gap(GapReason::not_fired), 1u);
}

TEST(GraphStep, I1_OrdinalsOfACaptureAreTheOrderOfItsCalls) {
  RigOptions options;
  options.twice = true;
  Rig rig(options);
  const HookId twice = 4;
  const Captured graph = rig.capture({twice, 0, twice, twice, 1});
  const auto request = rig.monitor->begin_request("a");
  ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 3}}).ok());
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.rows_delivered(0, twice, 0), first(3));
  EXPECT_EQ(rig.rows_delivered(0, twice, 1), first(3));
  EXPECT_EQ(rig.rows_delivered(0, 0), first(3));
}

// The set changes between a step's plan and its launch: the exec must hold what the plan expects.
TEST(GraphStep, A4_A6_TheExecIsChosenByThePlansSetAndNotByTheDesiredOne) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    RigOptions options;
    options.monitor.tier = tier;
    options.monitor.settle_launches = 1;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    std::uint64_t wanted = 0;
    for (int i = 0; i < 12; ++i) {
      const bool planned_full = i % 3 == 0;
      ASSERT_TRUE(rig.monitor->enable(planned_full ? "" : "none").ok());
      Step step = rig.begin(StepKind::graph, {{request, i * 4, 4}});
      ASSERT_TRUE(rig.monitor->enable(planned_full ? "none" : "").ok());
      ASSERT_TRUE(step.launch(*graph.bound).ok());
      step.end();
      wanted += planned_full ? 4 : 0;
      rig.settle();
    }
    rig.verify();
    EXPECT_EQ(rig.sink->records(), wanted);
  }
}

// The heart of A12: whatever the sizes, each wanted row comes exactly once, and no other.
TEST(Eager, A12_AStepLargerThanTheRingComesInPiecesAndHonoursTheGates) {
  int parts = 0, pieces = 0, gathered = 0;
  constexpr std::uint64_t kUsual = 120;
  for (std::uint64_t seed = 1; seed <= testing::seeds(kUsual); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RigOptions options;
    options.seed = seed;
    options.twice = random.chance(0.3);
    options.capacity = 64 + static_cast<std::uint32_t>(random.below(900));
    options.monitor.selection = "none";
    options.monitor.ring_bytes = 16 * (320 + random.below(300));
    options.monitor.staging_bytes = random.chance(0.5) ? 0 : 16 * (320 + random.below(300));
    Rig rig(options);
    std::vector<HookId> enabled;
    for (const Hook& hook : rig.table().hooks()) {
      if (random.chance(0.5)) enabled.push_back(hook.id);
    }
    if (!enabled.empty()) {
      ASSERT_TRUE(rig.monitor->enable(HookSet::of(rig.table().size(), enabled)).ok());
    }
    LeaseSpec window;  // a consumer of every other run of tokens of one request
    window.hooks = rig.table().all();
    window.requests = {"watched"};
    const auto begin = static_cast<std::int64_t>(random.below(200));
    window.windows = {{begin, begin + 150, TokenWindow::From::sequence},
                      {begin + 160, begin + 161, TokenWindow::From::sequence}};
    Lease lease;
    if (random.chance(0.5)) lease = rig.monitor->watch(window);

    const std::uint32_t rows = 1 + static_cast<std::uint32_t>(random.below(options.capacity - 1));
    const auto mine = static_cast<std::uint32_t>(random.below(rows + 1));
    const auto plain = rig.monitor->begin_request("plain"),
               watched = rig.monitor->begin_request("watched");
    for (int i = 0; i < 2; ++i) {
      rig.eager_step(rig.firing_order(),
                     {{plain, i * 1000, rows - mine}, {watched, i * 1000, mine}});
    }
    rig.settle();
    rig.verify();
    for (std::uint64_t step = 0; step < 2; ++step) {
      for (const Hook& hook : rig.table().hooks()) {
        const bool on = std::count(enabled.begin(), enabled.end(), hook.id) > 0;
        Rows expected;
        for (std::uint32_t row = 0; row < rows; ++row) {
          const std::int64_t token =
              row < rows - mine ? -1 : static_cast<std::int64_t>(step) * 1000 + row - (rows - mine);
          const bool in_window = lease.held() && token >= 0 &&
                                 ((token >= begin && token < begin + 150) || token == begin + 160);
          if (on || in_window) expected.push_back(row);
        }
        for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
          EXPECT_EQ(rig.rows_delivered(step, hook.id, ordinal), expected) << hook.name;
        }
        gathered += !on && expected.size() > 50;
      }
    }
    std::uint64_t last_part = 0;
    for (const SeenStep& step : rig.sink->steps) {
      EXPECT_TRUE(step.part == 0 || step.part == last_part + 1);
      last_part = step.part;
      parts += step.part > 0;
      pieces += static_cast<int>(step.records.size());
    }
    EXPECT_EQ(rig.monitor->stats().total.missing() + rig.monitor->stats().total.shed(), 0u)
        << "lossless, and every row fits";
    EXPECT_EQ(rig.monitor->stats().steps_planned, rig.monitor->stats().steps_delivered);
  }
  if (testing::seeds(kUsual) < kUsual) return;
  EXPECT_GT(parts, 300);
  EXPECT_GT(pieces, 600);
  EXPECT_GT(gathered, 50);
}

TEST(Eager, A12_WhatNotEvenOneRowOfFitsIsShedAndTheRestIsCaptured) {
  HookTable table("wide");
  for (int layer = 0; layer < 2; ++layer) {
    HookSpec spec;
    spec.type = "resid_pre";
    spec.layer = layer;
    spec.row_shape = {layer == 0 ? 4 : 4096};
    ASSERT_TRUE(table.add(std::move(spec)).ok());
  }
  const auto engine = testing::make_engine();
  const std::shared_ptr<Device>& device = engine->device();
  const auto sink = std::make_shared<testing::KeepingSink>();
  MonitorOptions options = testing::small_options();
  options.ring_bytes = 8192;
  Monitor monitor(device, std::move(table), options, {sink});
  const Stream stream = device->create_stream().value();
  const auto lane = monitor.make_lane();
  std::byte* const narrow = device->allocate(600 * 16).value();
  std::byte* const wide = device->allocate(2 * 16384).value();
  const std::vector<RowSpan> spans{{nullptr, 0, 600}};
  StepShape shape;
  shape.tokens = spans;
  {
    Step step = lane->begin(shape, stream);
    EXPECT_TRUE(step.captures(0));
    EXPECT_FALSE(step.captures(1)) << "no row of it fits";
    lane->produce(0, {.data = narrow, .rows = 600, .part_bytes = 16, .row_stride = 16}, stream);
    lane->produce(1, {.data = wide, .rows = 2, .part_bytes = 16384, .row_stride = 16384}, stream);
    step.end();
  }
  ASSERT_TRUE(monitor.flush(std::chrono::seconds(1)).ok());
  EXPECT_EQ(monitor.stats().hooks[1].gap(GapReason::shed_too_large), 1u);
  EXPECT_EQ(monitor.stats().hooks[0].missing() + monitor.stats().hooks[0].shed(), 0u);
  EXPECT_GT(monitor.stats().hooks[0].delivered, 1u);
  EXPECT_EQ(engine->violations(), std::vector<std::string>{});
}

TEST(Eager, AGivenUpStepLosesWhatIsStillOpenOfIt) {
  RigOptions options;
  options.capacity = 900;
  options.monitor.ring_bytes = 8192;
  options.monitor.selection = "resid_pre:0-1";
  Rig rig(options);
  const auto request = rig.monitor->begin_request("a");
  {
    Step step = rig.begin(StepKind::eager, {{request, 0, 300}});
    rig.fire({0}, rig.stream);
  }  // not ended: aborted
  rig.monitor->finish_request(request);
  rig.settle();
  rig.verify();
  EXPECT_GT(rig.sink->gaps(GapReason::aborted), 0u);
  ASSERT_EQ(rig.sink->events.size(), 2u);
  EXPECT_FALSE(rig.sink->events[1].valid);
}

TEST(Eager, B5_AStepThatIsBeingCapturedDeliversNothingAndComputesNothing) {
  Rig rig;
  const auto request = rig.monitor->begin_request("a");
  ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
  const std::uint64_t uploads = rig.engine->calls(Call::upload);
  {
    StepShape shape;
    const std::vector<RowSpan> spans{{request, 0, 2}};
    shape.tokens = spans;
    shape.kind = StepKind::graph;
    Step step = rig.lane->begin(shape, rig.stream);
    ++rig.next_step;
    for (HookId hook = 0; hook < 4; ++hook) {
      (void)rig.compute(hook, 0, rig.stream);
      rig.lane->produce(hook, rig.source(hook, 0), rig.stream);
    }
    step.end();
  }
  const Graph graph = rig.engine->end_capture(rig.stream).value();
  EXPECT_EQ(rig.engine->nodes(graph).size(), 8u) << "our own calls must not be baked in";
  EXPECT_EQ(rig.engine->calls(Call::upload), uploads);
  Captured captured{graph, rig.device->instantiate(graph, 0).value(), nullptr};
  captured.bound = rig.lane->bind(captured.graph, captured.exec);
  ASSERT_TRUE(rig.graph_step(captured, {{request, 0, 2}}).ok());
  rig.settle();
  EXPECT_EQ(rig.sink->gaps(GapReason::capture), 4u);
  EXPECT_EQ(rig.rows_delivered(1, 0), first(2));
  for (const auto& record : rig.sink->steps.back().records) {
    for (const Slice& slice : record.slices) {
      EXPECT_EQ(slice.flags, RowFlags::none) << "these tokens are computed for the first time";
    }
  }
}

}  // namespace
}  // namespace graphtap
