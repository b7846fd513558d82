// What happens when there is no room: in the ring, in staging, among the header slots; and another
// ring.
#include <gtest/gtest.h>

#include <thread>

#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::Captured;
using testing::KeepingSink;
using testing::layered_table;
using testing::Rig;
using testing::RigOptions;
using testing::small_options;

constexpr std::uint64_t kSmallestRing =
    4112;  // for four hooks; steps of sixteen rows take 1168 bytes each

RigOptions tight(Policy policy) {
  RigOptions options;
  options.advance = 0;  // the engine runs ahead until the planner waits
  options.monitor.policy = policy;
  options.monitor.ring_bytes = kSmallestRing;  // three steps
  options.monitor.space_timeout = std::chrono::microseconds(500);
  return options;
}

std::vector<RowSpan> sixteen(const Request& request, int step) {
  return {{request, step * 16, 16}};
}

TEST(Space, LosslessWaitsUntilTheDrainHasMadeRoom) {
  GRAPHTAP_NEEDS_A_SCHEDULER("how far the engine runs ahead decides whether the planner waits");
  Rig rig(tight(Policy::lossless));
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(rig.graph_step(graph, sixteen(request, i)).ok());
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.sink->records(), 80u);
  EXPECT_GT(rig.monitor->stats().stalls, 0u);
  EXPECT_GT(rig.monitor->stats().stalled_ns, 0u);
  EXPECT_LE(rig.monitor->stats().ring_high_water, kSmallestRing);
  EXPECT_EQ(rig.monitor->stats().ring_used, 0u);
}

// The engine's stream is stuck: a lossless step waits as long as it may, then it is shed with a gap
// and the model goes on.
TEST(Space, LosslessTimeoutIsAShedStepAndNeverAFailedOne) {
  GRAPHTAP_NEEDS_A_SCHEDULER("it compares times to the microsecond");
  Rig rig(tight(Policy::lossless));
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  const Event stuck = rig.device->create_event().value();
  const Stream blocker = rig.device->create_stream().value();
  bool open = false;
  ASSERT_TRUE(rig.engine->compute(blocker, [&] { open = true; }).ok());
  ASSERT_TRUE(rig.device->record(stuck, blocker).ok());
  ASSERT_TRUE(rig.device->wait(rig.stream, stuck).ok());
  rig.engine->faults().set_rate(Call::query, 1.0,
                                FaultMode::before);  // and nobody hears of its end
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.graph_step(graph, sixteen(request, i)).ok());
  const std::uint64_t before = rig.device->now_ns();
  ASSERT_TRUE(rig.graph_step(graph, sixteen(request, 3)).ok()) << "the model's own launch";
  const std::uint64_t waited = rig.device->now_ns() - before;
  EXPECT_GE(waited, 500'000u);
  EXPECT_LT(waited, 1'500'000u) << "the timeout is honoured";
  EXPECT_GE(rig.monitor->stats().stalled_ns, 500'000u);
  rig.engine->faults().clear();
  rig.settle();
  rig.verify();
  EXPECT_TRUE(open);
  EXPECT_EQ(rig.monitor->stats().total.gap(GapReason::shed_timeout), 4u);
  EXPECT_EQ(rig.sink->gaps(GapReason::shed_timeout), 4u);
  EXPECT_EQ(rig.running_step, 3u) << "the model ran";
}

TEST(Space, ShedKeepsWhatRanksHighestAndTellsTheRest) {
  GRAPHTAP_NEEDS_A_SCHEDULER("how far the engine runs ahead decides whether the planner waits");
  RigOptions options = tight(Policy::shed);
  options.monitor.selection = "none";
  Rig rig(options);
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  LeaseSpec cheap, dear;
  cheap.hooks = rig.table().all();
  dear.hooks = rig.set({2});
  dear.priority = 5;
  const Lease one = rig.monitor->watch(cheap), two = rig.monitor->watch(dear);
  for (int i = 0; i < 8; ++i) {
    Step step = rig.begin(StepKind::graph, sixteen(request, i));
    EXPECT_TRUE(step.captures(0) || !step.captures(3)) << "the later in firing order goes first";
    ASSERT_TRUE(step.launch(*graph.bound).ok());
    step.end();
  }
  rig.settle();
  rig.verify();
  const Stats stats = rig.monitor->stats();
  EXPECT_GT(stats.total.gap(GapReason::shed_ring), 0u);
  EXPECT_EQ(stats.stalls, 0u) << "this policy never waits";
  for (const std::size_t other : {0u, 1u, 3u}) {
    EXPECT_GE(stats.hooks[2].delivered, stats.hooks[other].delivered);
  }
  EXPECT_GE(stats.hooks[0].delivered, stats.hooks[3].delivered);
  EXPECT_EQ(stats.total.delivered + stats.total.shed(), 32u);
}

TEST(Space, AStepThatCanNeverFitIsShedAtOnce) {
  RigOptions options = tight(Policy::lossless);
  options.layers = 8;
  options.monitor.ring_bytes = 4128;
  options.capacity = 64;
  Rig rig(options);
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  ASSERT_TRUE(rig.graph_step(graph, {{request, 0, 64}}).ok());
  EXPECT_EQ(rig.monitor->stats().stalls, 0u);
  rig.settle();
  rig.verify();
  const Stats stats = rig.monitor->stats();
  EXPECT_GT(stats.total.gap(GapReason::shed_too_large), 0u);
  EXPECT_GT(stats.total.delivered, 0u) << "what fits is captured";
  EXPECT_EQ(stats.total.delivered + stats.total.shed(), 8u);
}

TEST(Space, HeaderSlotsAreAPoolOfTheirOwn) {
  GRAPHTAP_NEEDS_A_SCHEDULER("how far the engine runs ahead decides whether the planner waits");
  for (const Policy policy : {Policy::lossless, Policy::shed}) {
    RigOptions options;
    options.advance = 0;
    options.monitor.policy = policy;
    options.monitor.header_slots = 2;
    options.monitor.max_gather_rows = 0;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(rig.graph_step(graph, sixteen(request, i)).ok());
    rig.settle();
    rig.verify();
    const std::uint64_t shed = rig.monitor->stats().total.gap(GapReason::shed_headers);
    if (policy == Policy::lossless) {
      EXPECT_EQ(shed, 0u) << "it waits for a slot";
      EXPECT_EQ(rig.sink->records(), 24u);
    } else {
      EXPECT_EQ(shed, 16u) << "two steps have a slot, the others are shed";
    }
  }
}

// A pinned image is read by the device when the upload runs, long after begin() has returned.
TEST(Space, I1_AHeaderSlotIsNotWrittenAgainBeforeItsUploadHasRun) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RigOptions options;
    options.seed = seed;
    options.advance = seed % 2 == 0 ? 0 : 0.1;
    Rig rig(options);
    Random random(seed);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    std::uint64_t wanted = 0;
    for (int i = 0; i < 8; ++i) {
      const auto rows = static_cast<std::uint32_t>(1 + random.below(16));
      const HookId hook = static_cast<HookId>(random.below(4));
      ASSERT_TRUE(rig.monitor->enable(rig.set({hook, 3})).ok());
      wanted += hook == 3 ? 1 : 2;
      ASSERT_TRUE(rig.graph_step(graph, {{request, i * 16, rows}}).ok());
    }
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.sink->records(), wanted);
  }
}

TEST(Space, TheRingIsReplacedWhileGraphsKeepReplaying) {
  RigOptions options;
  options.advance = 0.05;
  Rig rig(options);
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  const std::size_t allocations = rig.engine->live_allocations();
  const std::uint64_t sizes[] = {kSmallestRing, 32 << 10, 8192, 64 << 10};
  for (int i = 0; i < 40; ++i) {
    const bool another = i % 5 == 4;
    ASSERT_TRUE(!another || rig.monitor->resize_ring(sizes[i / 5 % 4]).ok());
    ASSERT_TRUE(rig.graph_step(graph, sixteen(request, i)).ok());
  }
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.sink->records() + rig.monitor->stats().total.shed(), 160u);
  EXPECT_EQ(rig.engine->live_allocations(), allocations)
      << "old rings are freed behind their frames";
}

// Threads: a planner waits for room in a ring that is replaced, and its last frame given back,
// meanwhile.
TEST(Space, APlannerThatWaitsOutlivesTheRingItWaitsOn) {
  testing::EngineOptions threaded;
  threaded.threaded = true;
  const auto engine = testing::make_engine(threaded);
  const std::shared_ptr<Device>& device = engine->device();
  MonitorOptions options = small_options();
  options.manual = false;
  options.ring_bytes = 4304;
  options.space_timeout = std::chrono::seconds(20);
  Monitor monitor(device, layered_table(4), options, {make_null_sink()});
  const auto lane = monitor.make_lane();
  const Stream stream = device->create_stream().value();
  const std::vector<RowSpan> spans{
      {nullptr, 0, 64}};  // 4 hooks, 1056 bytes each: one step fills the ring
  StepShape shape;
  shape.tokens = spans;
  Step full = lane->begin(shape, stream);
  EXPECT_GT(monitor.stats().ring_used, 0u);
  const auto second = monitor.make_lane();
  std::thread planner([&] {
    Step waits = second->begin(shape, stream);
    waits.end();
  });
  while (monitor.stats().steps_in_flight < 2) std::this_thread::yield();
  EXPECT_TRUE(monitor.resize_ring(8448).ok());
  full.end();  // the old ring goes with this frame
  planner.join();
  EXPECT_TRUE(monitor.flush(std::chrono::seconds(20)).ok());
  EXPECT_EQ(monitor.stats().total.shed(), 0u);
}

}  // namespace
}  // namespace graphtap
