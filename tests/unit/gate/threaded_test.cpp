// Several lanes, switching from other threads, statistics and the helper thread at once; for TSan.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "device/host/random.hpp"
#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

RigOptions threaded() {
  RigOptions options;
  options.settle = 2;
  options.manual = false;
  options.engine.threaded = true;
  return options;
}

// A lane: its own header and stream, and the lock that serialises it.
struct LaneUnderTest {
  explicit LaneUnderTest(const RigOptions& options) : rig(options) {}
  LaneUnderTest(const RigOptions& options, Rig& other) : rig(options, other) {}
  std::mutex mutex;
  Rig rig;
};

// At least `launches`, and on until the other threads have done their part.
void drive(LaneUnderTest& lane, std::uint32_t index, std::uint64_t seed, int launches,
           const std::function<bool()>& enough) {
  Random random(seed);
  std::vector<Captured> captured;
  std::vector<std::shared_ptr<BoundGraph>> graphs;
  const std::vector<HookSet> sets{lane.rig.none(), lane.rig.all(), lane.rig.set({1}),
                                  lane.rig.set({0, 2}), lane.rig.set({0, 1, 2})};
  const auto add = [&] {
    captured.push_back(lane.rig.capture_all());
    graphs.push_back(lane.rig.bind(captured.back(), {}, index));
  };
  for (int i = 0; i < 3; ++i) {
    const std::lock_guard lock(lane.mutex);
    add();
  }
  std::size_t set = 0;
  for (int i = 0; i < launches || !enough(); ++i) {
    if (random.chance(0.1)) set = random.below(sets.size());
    // Not just a yield: whoever wants the lane's lock must get it, also where a step takes long (a
    // real device).
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const std::lock_guard lock(lane.mutex);
    if (random.chance(0.02)) {
      graphs.erase(graphs.begin());
      add();
    }
    if (random.chance(0.02)) (void)graphs.front()->restore();
    BoundGraph& graph = *graphs[random.below(graphs.size())];
    // Flips from the other thread may fall between two launches; what is planned fires all the
    // same.
    ASSERT_NE(lane.rig.step(graph, sets[set]), Exec{});
  }
  const std::lock_guard lock(lane.mutex);
  graphs.clear();
  for (const Captured& one : captured) EXPECT_EQ(lane.rig.disabled(one), 0u);
}

TEST(GateThreaded, A4_LanesAreSwitchedFromOtherThreadsWhileTheyLaunchAndTheHelperBuilds) {
  constexpr int kLaunches = 600;
  const RigOptions options = threaded();
  LaneUnderTest first(options);
  LaneUnderTest second(options, first.rig);
  std::atomic<int> running{2};
  std::atomic<std::uint64_t> flips{0};
  std::atomic<std::uint64_t> reads{0};
  const auto enough = [&] { return flips.load() >= 200 && reads.load() >= 50; };
  const auto lane_thread = [&](LaneUnderTest& lane, std::uint32_t index) {
    return std::thread([&, index] {
      drive(lane, index, 11 + index, kLaunches, enough);
      running.fetch_sub(1);
    });
  };
  std::thread a = lane_thread(first, 0);
  std::thread b = lane_thread(second, 1);
  std::thread switcher([&] {
    Random random(5);
    while (running.load() > 0) {
      const HookSet desired = random.chance(0.5) ? first.rig.none() : first.rig.set({1, 3});
      first.rig.registry->begin_change();
      for (std::uint32_t index = 0; index < 2; ++index) {
        LaneUnderTest& lane = index == 0 ? first : second;
        const std::lock_guard lock(lane.mutex);
        for (const auto& graph : first.rig.registry->graphs(index)) {
          EXPECT_TRUE(graph->apply_now(desired).ok());
          flips.fetch_add(1);
        }
      }
      std::this_thread::yield();
    }
  });
  std::thread reader([&] {
    while (running.load() > 0) {
      const GateTotals totals = first.rig.totals();
      EXPECT_LE(totals.graphs_bound, 6u);
      EXPECT_EQ(totals.launches_short, 0u);
      reads.fetch_add(1);
      std::this_thread::yield();
    }
  });
  a.join();
  b.join();
  switcher.join();
  reader.join();
  EXPECT_EQ(first.rig.verify(), 0u);
  EXPECT_EQ(second.rig.verify(), 0u);
  first.rig.registry->close();
  const GateTotals totals = first.rig.totals();
  EXPECT_EQ(totals.specialised_execs, 0u);
  EXPECT_EQ(totals.specialised_bytes, 0u);
  EXPECT_EQ(totals.graphs_bound, 0u);
}

TEST(GateThreaded, TheHelperThreadBuildsAndTheLaunchesTakeItUp) {
  const RigOptions options = threaded();
  Rig rig(options);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  Exec exec = captured.exec;
  // As many launches as it takes; the test's time limit is the deadline.
  while (exec == captured.exec) {
    exec = rig.step(*graph, rig.none());
    std::this_thread::yield();
  }
  EXPECT_EQ(rig.engine->node_count(exec), rig.engine->node_count(captured.exec) - 4);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(GateThreaded, ClosingWhileTheHelperBuildsLeavesNothingBehind) {
  for (int round = 0; round < 30; ++round) {
    const RigOptions options = threaded();
    Rig rig(options);
    auto graph = rig.bind(rig.capture_all());
    (void)graph->prepare(rig.none());
    if (round % 3 == 0) {
      graph.reset();
    } else if (round % 3 == 1) {
      EXPECT_TRUE(graph->restore().ok());
    }
    rig.registry->close();
    graph.reset();
    EXPECT_EQ(rig.engine->live_execs(), 1u);
    EXPECT_EQ(rig.engine->live_graphs(), 1u);
    EXPECT_EQ(rig.totals().specialised_bytes, 0u);
  }
}

}  // namespace
}  // namespace graphtap::testing
