// What it costs the device when nothing is captured (I6), and when switching is off as a whole
// (A2).
#include <gtest/gtest.h>

#include <array>

#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::Captured;
using testing::Rig;
using testing::RigOptions;

using Calls = std::array<std::uint64_t, kCalls>;

Calls counts(const Rig& rig) {
  Calls calls{};
  for (std::size_t i = 0; i < kCalls; ++i) calls[i] = rig.engine->calls(static_cast<Call>(i));
  return calls;
}

/// Name and count of every kind of call made since `before`.
std::map<std::string, std::uint64_t> since(const Rig& rig, const Calls& before) {
  std::map<std::string, std::uint64_t> made;
  const Calls now = counts(rig);
  for (std::size_t i = 0; i < kCalls; ++i) {
    if (now[i] != before[i]) made[to_string(static_cast<Call>(i))] = now[i] - before[i];
  }
  return made;
}
using Made = std::map<std::string, std::uint64_t>;

const std::vector<RowSpan> kRows{{nullptr, 0, 2}};

class Tiers : public ::testing::TestWithParam<GateTier> {};
INSTANTIATE_TEST_SUITE_P(All, Tiers,
                         ::testing::Values(GateTier::soft, GateTier::node, GateTier::specialised));

TEST_P(Tiers, I6_AnEmptyStepMakesNoDeviceCallButTheLaunch) {
  RigOptions options;
  options.monitor.tier = GetParam();
  Rig rig(options);
  const Captured graph = rig.capture_all();
  ASSERT_TRUE(rig.monitor->enable("none").ok());
  ASSERT_TRUE(rig.graph_step(graph, kRows).ok());  // finds its stream, catches nodes up
  rig.settle();
  const Calls before = counts(rig);
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = kRows;
  for (int i = 0; i < 100; ++i) {
    Step step = rig.lane->begin(shape, rig.stream);
    EXPECT_TRUE(step.empty());
    EXPECT_EQ(step.ticket(), 0u);
    EXPECT_TRUE(step.prepare(*graph.bound).ok());
    step.end();
  }
  EXPECT_EQ(since(rig, before), Made{});
  for (int i = 0; i < 100; ++i) {
    Step step = rig.lane->begin(shape, rig.stream);
    EXPECT_TRUE(step.launch(*graph.bound).ok());
  }
  EXPECT_EQ(since(rig, before), (Made{{"launch", 100}}));
  EXPECT_EQ(rig.monitor->stats().steps_empty, 201u);
  EXPECT_EQ(rig.monitor->stats().steps_in_flight, 0u);
}

TEST(Silence, I6_TheFirstEmptyStepAfterACapturedOneIsFreeToo) {
  Rig rig;
  const Captured graph = rig.capture_all();
  ASSERT_TRUE(rig.graph_step(graph, kRows).ok());
  ASSERT_TRUE(rig.monitor->enable("none").ok());
  const Calls before = counts(rig);
  ASSERT_TRUE(rig.graph_step(graph, kRows).ok());
  EXPECT_EQ(since(rig, before), (Made{{"launch", 1}})) << "the header was turned OFF when it ended";
  rig.settle();
  EXPECT_EQ(rig.sink->records(), 4u);
  rig.verify();
}

TEST(Silence, I6_AStepWhoseLeasesWantNoneOfItsRowsUploadsNothing) {
  Rig rig;
  const Captured graph = rig.capture_all();
  ASSERT_TRUE(rig.monitor->enable("none").ok());
  LeaseSpec spec;
  spec.hooks = rig.table().all();
  spec.requests = {"somebody else"};
  const Lease lease = rig.monitor->watch(spec);
  ASSERT_TRUE(rig.graph_step(graph, kRows).ok());
  const Calls before = counts(rig);
  ASSERT_TRUE(rig.graph_step(graph, kRows).ok());
  EXPECT_EQ(since(rig, before), (Made{{"capture_state", 1}, {"launch", 1}}));
}

TEST(Silence, I6_AnotherStreamIsOrderedBehindTheLaneAndNothingElse) {
  Rig rig;
  ASSERT_TRUE(rig.monitor->enable("none").ok());
  StepShape shape;
  shape.kind = StepKind::graph;
  (void)rig.lane->begin(shape, rig.stream);
  const Stream other = rig.device->create_stream().value();
  (void)rig.lane->begin(shape, other);  // makes the event that is reused from now on
  const Calls before = counts(rig);
  (void)rig.lane->begin(shape, rig.stream);
  EXPECT_EQ(since(rig, before), (Made{{"capture_state", 1}, {"record", 1}, {"wait", 1}}));
}

// A2: the same engine run with every hook on, with and without the feature.
Calls calls_of_a_run(bool switching, GateTier tier, std::uint64_t& records) {
  RigOptions options;
  options.advance = 0;  // the same schedule in both runs
  options.monitor.switching = switching;
  options.monitor.tier = tier;
  Rig rig(options);
  const Captured graph = rig.capture_all();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(rig.graph_step(graph, kRows).ok());
    rig.eager_step({0, 1, 2, 3}, kRows);
    rig.settle();
  }
  rig.verify();
  records = rig.sink->records();
  return counts(rig);
}

TEST(SwitchingOff, A2_MakesNoCallThatAPlainCaptureDoesNotNeed) {
  GRAPHTAP_NEEDS_A_SCHEDULER("it compares the calls of two runs, polling included");
  std::uint64_t off_records = 0, soft_records = 0;
  const Calls off = calls_of_a_run(false, GateTier::specialised, off_records);
  const Calls soft = calls_of_a_run(true, GateTier::soft, soft_records);
  EXPECT_EQ(off_records, 160u);
  EXPECT_EQ(soft_records, 160u);
  for (std::size_t i = 0; i < kCalls; ++i) {
    EXPECT_LE(off[i], soft[i]) << to_string(static_cast<Call>(i));
  }
  for (const Call gate : {Call::captured_tail, Call::inspect, Call::cloneable, Call::clone,
                          Call::find_in_clone, Call::remove_node, Call::set_enabled}) {
    EXPECT_EQ(off[static_cast<std::size_t>(gate)], 0u) << to_string(gate);
  }
  // Exactly what a step that captures needs: one question, a clean census, one upload, the launch,
  // the close, its event.
  const auto of = [&](Call call) { return off[static_cast<std::size_t>(call)]; };
  EXPECT_EQ(of(Call::zero), 20u);
  EXPECT_EQ(of(Call::upload), 20u);
  EXPECT_EQ(of(Call::close_step), 20u);
  EXPECT_EQ(of(Call::launch), 20u);
  EXPECT_EQ(of(Call::download), 40u);
  EXPECT_EQ(of(Call::instantiate), 1u) << "the engine's own";
  EXPECT_EQ(of(Call::produce), 4u + 80u);
}

TEST(SwitchingOff, A2_RefusesToSwitch) {
  RigOptions options;
  options.monitor.switching = false;
  options.monitor.selection = "resid_pre:1 @every=3";  // ignored: every active hook, always
  Rig rig(options);
  EXPECT_EQ(rig.monitor->enabled(), rig.table().all());
  for (const Apply apply : {Apply::at_next_launch, Apply::now}) {
    const Status status = rig.monitor->enable("none", apply);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_NE(status.message().find("switching"), std::string::npos);
  }
  LeaseSpec spec;
  spec.hooks = rig.table().all();
  EXPECT_THROW((void)rig.monitor->watch(spec), Error);
  EXPECT_EQ(rig.monitor->stats().switches, 0u);
  const Captured graph = rig.capture_all();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rig.graph_step(graph, kRows).ok());
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.sink->records(), 16u);
}

}  // namespace
}  // namespace graphtap
