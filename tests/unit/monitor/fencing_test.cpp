// The device refuses to turn a header OFF, to say when it is done, or to take an upload, with and
// without having done so. Whatever a graph then writes, and whenever: no record is mislabelled, and
// no memory is used again before it is certain that nobody writes there any more.
#include <gtest/gtest.h>

#include "support/seeds.hpp"
#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::Captured;
using testing::Rig;
using testing::RigOptions;

constexpr Call kFenced[] = {Call::close_step, Call::record, Call::upload, Call::query,
                            Call::download};

TEST(Fencing, I1_I4_RefusalsAndUnplannedReplaysNeverMislabelARecord) {
  std::uint64_t delivered = 0, missing = 0, rogue = 0;
  std::map<std::pair<Call, FaultMode>, std::uint64_t> injected;
  // Virtual time, in which a few operations run, or real time, in which a few steps do.
  const auto space_timeout = testing::patience(
      std::chrono::microseconds(testing::make_engine()->cooperative() ? 100 : 10'000));
  constexpr std::uint64_t kUsual = 400;
  for (std::uint64_t seed = 1; seed <= testing::seeds(kUsual); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RigOptions options;
    options.seed = seed;
    options.twice = random.chance(0.3);
    options.advance = static_cast<double>(random.below(4)) * 0.15;
    options.monitor.ring_bytes = 16 * (260 + random.below(300));
    options.monitor.header_slots = static_cast<std::uint32_t>(1 + random.below(4));
    options.monitor.policy = random.chance(0.5) ? Policy::lossless : Policy::shed;
    options.monitor.space_timeout = space_timeout;
    Rig rig(options);
    const Captured graph = rig.capture(rig.firing_order());
    const auto request = rig.monitor->begin_request("a");
    const auto other = rig.monitor->begin_request("b");
    LeaseSpec window;
    window.hooks = rig.table().all();
    window.requests = {"b"};
    const Lease lease = rig.monitor->watch(window);
    for (const Call call : kFenced) {
      if (random.chance(0.5)) continue;
      rig.engine->faults().set_rate(call, 0.15,
                                    random.chance(0.5) ? FaultMode::before : FaultMode::after);
    }
    for (int i = 0; i < 25; ++i) {
      std::vector<HookId> some;
      for (const Hook& hook : rig.table().hooks()) {
        if (random.chance(0.5)) some.push_back(hook.id);
      }
      (void)rig.monitor->enable(HookSet::of(rig.table().size(), some));
      const auto rows = static_cast<std::uint32_t>(1 + random.below(12));
      const auto more = static_cast<std::uint32_t>(random.below(4));
      const std::vector<RowSpan> spans{{request, i * 100, rows}, {other, i * 100, more}};
      if (random.chance(0.2)) {
        rig.eager_step(rig.firing_order(), spans);
      } else {
        Step step = rig.begin(StepKind::graph, spans);
        if (!random.chance(0.1)) (void)step.launch(*graph.bound);
        step.end();
      }
      if (random.chance(0.3)) {  // nobody planned this: it writes nothing, or into a frame that is
                                 // kept for it
        // Its kernels say another step, so that rows of it in a record would be seen.
        (void)rig.engine->compute(rig.stream, [&rig] { rig.running_step = 1'000'000; });
        (void)rig.device->launch(graph.exec, rig.stream);
        ++rogue;
      }
      if (random.chance(0.3)) (void)rig.monitor->pump();
    }
    for (const Call call : kFenced) {
      for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
        injected[{call, mode}] += rig.engine->faults().injected(call, mode);
      }
    }
    rig.engine->faults().clear();
    rig.settle();
    rig.verify();
    // Two more good steps: the fences open, and all memory is back.
    for (int i = 0; i < 2; ++i) {
      (void)rig.monitor->enable("");
      ASSERT_TRUE(rig.graph_step(graph, {{request, 10'000 + i * 4, 4}}).ok());
      rig.settle();
    }
    rig.verify();
    EXPECT_EQ(rig.monitor->stats().ring_used, 0u) << "memory is held back for ever";
    EXPECT_EQ(rig.monitor->stats().staging_used, 0u);
    EXPECT_EQ(rig.rows_delivered(rig.next_step - 1, 0).size(), 4u) << "the lane works again";
    const Stats stats = rig.monitor->stats();
    delivered += stats.total.delivered;
    missing += stats.total.missing();
    if (HasFailure()) return;
  }
  if (testing::seeds(kUsual) < kUsual) return;
  EXPECT_GT(delivered, 10'000u);
  EXPECT_GT(missing, 2'000u);
  EXPECT_GT(rogue, 2'000u);
  for (const auto& [kind, count] : injected) EXPECT_GE(count, 100u) << to_string(kind.first);
}

TEST(Fencing, I4_AFrameWhoseHeaderMayBeOnIsKeptUntilALaterCloseHasRun) {
  GRAPHTAP_NEEDS_A_SCHEDULER("it looks between a close's launch and its end");
  for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
    SCOPED_TRACE(to_string(mode));
    RigOptions options;
    options.advance = 0;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    rig.engine->faults().fail_next(Call::close_step, 1, mode);
    ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 4}}).ok());
    rig.settle();
    EXPECT_EQ(rig.sink->gaps(GapReason::device_error), 4u) << "something may still write to it";
    EXPECT_GT(rig.monitor->stats().ring_used, 0u);
    // Replays that nobody planned may write there as long as they like.
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.device->launch(graph.exec, rig.stream).ok());
    rig.settle();
    EXPECT_GT(rig.monitor->stats().ring_used, 0u);
    // The next step, though it captures nothing, closes the header first.
    ASSERT_TRUE(rig.monitor->enable("none").ok());
    const std::uint64_t closes = rig.engine->calls(Call::close_step);
    ASSERT_TRUE(rig.graph_step(graph, {{request, 4, 4}}).ok());
    EXPECT_EQ(rig.engine->calls(Call::close_step), closes + 1);
    EXPECT_GT(rig.monitor->stats().ring_used, 0u) << "that close has not run yet";
    rig.settle();
    EXPECT_EQ(rig.monitor->stats().ring_used, 0u);
    rig.verify();
  }
}

// An earlier close failed, and then the engine captures a graph through the lane: nothing of ours
// may end up in it.
TEST(Fencing, B5_AHeaderInDoubtIsNotClosedIntoSomeonesGraph) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  rig.engine->faults().fail_next(Call::close_step, 1, FaultMode::before);
  ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 4}}).ok());
  const std::vector<RowSpan> spans{{request, 4, 4}};
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = spans;
  ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
  Step step = rig.lane->begin(shape, rig.stream);
  ++rig.next_step;
  ASSERT_TRUE(rig.compute(0, 0, rig.stream).ok());
  rig.lane->produce(0, rig.source(0, 0), rig.stream);
  step.end();
  const Graph captured = rig.engine->end_capture(rig.stream).value();
  EXPECT_EQ(rig.engine->producers(captured).size(), 1u);
  EXPECT_EQ(rig.engine->nodes(captured).size(), 2u)
      << "the kernel, its producer, and no close of ours";
  ASSERT_TRUE(rig.graph_step(graph, {{request, 4, 4}}).ok());
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.monitor->stats().ring_used, 0u);
  EXPECT_EQ(rig.rows_delivered(2, 3).size(), 4u);
}

// A split step gathers by the row list in the header, part after part. If the list did not get
// there, none of its parts may deliver what some other list says.
TEST(Fencing, I1_ARowListThatWasNotUploadedGathersNothingInAnyPart) {
  for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
    RigOptions options;
    options.capacity = 900;
    options.monitor.ring_bytes = 8192;
    options.monitor.selection = "resid_pre:0";
    Rig rig(options);
    const auto a = rig.monitor->begin_request("a"), b = rig.monitor->begin_request("b");
    LeaseSpec spec;
    spec.hooks = rig.set({1, 2});
    spec.requests = {"b"};
    const Lease lease = rig.monitor->watch(spec);
    const auto spans = [&](std::uint32_t before, std::int64_t token) {
      return std::vector<RowSpan>{{a, token, before}, {b, token, 400}};
    };
    rig.eager_step({0, 1, 2}, spans(10, 0));  // leaves a list in the header
    rig.settle();
    rig.engine->faults().fail_next(Call::upload, 1, mode);
    rig.eager_step({0, 1, 2}, spans(300, 1000));
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.rows_delivered(0, 1).size(), 400u);
    EXPECT_EQ(rig.rows_delivered(0, 2).size(), 400u);
    EXPECT_EQ(rig.rows_delivered(1, 0).size(), 700u) << "what is not gathered needs no list";
    EXPECT_TRUE(rig.rows_delivered(1, 1).empty());
    EXPECT_TRUE(rig.rows_delivered(1, 2).empty());
    EXPECT_GE(rig.sink->gaps(GapReason::device_error), 2u) << "every part of both";
  }
}

TEST(Fencing, ALaneThatEndsInDoubtLeavesItsFramesToTheDevice) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  rig.engine->faults().set_rate(Call::close_step, 1.0, FaultMode::before);
  ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 4}}).ok());
  rig.settle();
  (void)rig.monitor->close(std::chrono::milliseconds(10));
  rig.lane.reset();
  rig.monitor.reset();
  // The header is still ON; its frame must outlive all of us.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.device->launch(graph.exec, rig.stream).ok());
  rig.engine->run_until_idle();
  EXPECT_EQ(rig.engine->violations(), std::vector<std::string>{});
}

}  // namespace
}  // namespace graphtap
