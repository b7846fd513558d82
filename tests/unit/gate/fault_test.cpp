#include <gtest/gtest.h>

#include <array>

#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

constexpr std::array kGateCalls{Call::captured_tail, Call::inspect,       Call::cloneable,
                                Call::clone,         Call::find_in_clone, Call::remove_node,
                                Call::instantiate,   Call::set_enabled};

RigOptions options_for(GateTier tier) {
  RigOptions options;
  options.tier = tier;
  return options;
}

// Sets that come and go, flips at once, jobs in between. Returns how many planned records are
// missing.
std::uint64_t run_through(Rig& rig, BoundGraph& graph) {
  const std::vector<HookSet> sets{rig.none(), rig.set({1}), rig.set({1, 2}),
                                  rig.none(), rig.all(),    rig.set({0, 3})};
  for (const HookSet& set : sets) {
    for (int i = 0; i < 3; ++i) {
      rig.step(graph, set);
      rig.pump_all();
    }
    (void)graph.apply_now(set);
  }
  return rig.verify();
}

TEST(GateFaults, A7_AFailureOfAnyCallCostsAtMostRecordsThatWereCountedShort) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    for (const Call call : kGateCalls) {
      for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
        for (const unsigned skip : {0u, 1u, 2u, 5u, 11u}) {
          SCOPED_TRACE(std::string(to_string(call)) + " " + to_string(mode) + " after " +
                       std::to_string(skip));
          Rig rig(options_for(tier));
          rig.engine->faults().fail_next(call, 2, mode, skip);
          // The owner's own instantiation is not the gate's: let it pass.
          if (call == Call::instantiate) {
            rig.engine->faults().clear();
            rig.engine->faults().fail_next(call, 2, mode, skip + 1);
          }
          const Captured captured = rig.capture_all();
          const auto graph = rig.bind(captured);
          EXPECT_EQ(graph->hooks(), rig.all());
          run_through(rig, *graph);  // fails where a record is wrong, or missing and not counted
          rig.engine->faults().clear();
          EXPECT_EQ(run_through(rig, *graph), 0u) << "the fault is over";
          EXPECT_TRUE(graph->restore().ok());
          EXPECT_EQ(rig.disabled(captured), 0u);
          EXPECT_EQ(rig.totals().graphs_stale, 0u);
          rig.launch(captured.exec, graph->hooks(), rig.all());
          EXPECT_EQ(rig.verify(), 0u);
        }
      }
    }
  }
}

TEST(GateFaults, A7_AGraphThatCouldNotBeDisabledIsStaleAndTriedAgain) {
  Rig rig(options_for(GateTier::node));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  rig.engine->faults().fail_next(Call::set_enabled, 1, FaultMode::before, 1);
  rig.step(*graph, rig.none());
  EXPECT_TRUE(graph->stale());
  EXPECT_EQ(rig.disabled(captured), 3u) << "the others were still tried";
  GateTotals totals = rig.totals();
  EXPECT_EQ(totals.graphs_stale, 1u);
  EXPECT_EQ(totals.switch_errors, 1u);
  EXPECT_EQ(totals.launches_short, 0u) << "a node too many costs no record";
  EXPECT_NE(totals.last_error.find("cudaError"), std::string::npos) << totals.last_error;
  rig.step(*graph, rig.none());
  EXPECT_FALSE(graph->stale());
  EXPECT_EQ(rig.disabled(captured), 4u);
  EXPECT_EQ(rig.totals().graphs_stale, 0u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(GateFaults, A7_ANodeThatCouldNotBeEnabledMakesTheLaunchShort) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    Rig rig(options_for(tier));
    const Captured captured = rig.capture_all();
    const auto graph = rig.bind(captured);
    ASSERT_TRUE(graph->apply_now(rig.none()).ok());
    rig.engine->faults().fail_next(Call::set_enabled, 1, FaultMode::before, 1);
    rig.step(*graph, rig.set({0, 2}));
    EXPECT_TRUE(graph->stale());
    EXPECT_EQ(rig.totals().launches_short, 1u);
    EXPECT_EQ(rig.verify(), 1u) << "hook 2 is missing, hook 0 is right";
    rig.step(*graph, rig.set({0, 2}));
    EXPECT_FALSE(graph->stale());
    EXPECT_EQ(rig.totals().launches_short, 1u);
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(GateFaults, A7_ApplyNowReturnsTheFirstErrorAndTheNextLaunchMakesUpForIt) {
  Rig rig(options_for(GateTier::specialised));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  rig.engine->faults().fail_next(Call::set_enabled, 2, FaultMode::before, 1);
  const Status status = graph->apply_now(rig.set({3}));
  EXPECT_EQ(status.code(), Code::device_error);
  EXPECT_NE(status.message().find("cudaError"), std::string::npos);
  EXPECT_EQ(rig.disabled(captured), 1u);
  EXPECT_EQ(rig.totals().switch_errors, 2u);
  EXPECT_TRUE(graph->stale());
  rig.step(*graph, rig.set({3}));
  EXPECT_EQ(rig.disabled(captured), 3u);
  EXPECT_FALSE(graph->stale());
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(GateFaults, A7_ACallThatFailedButWasCarriedOutIsNotTrusted) {
  Rig rig(options_for(GateTier::node));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  rig.engine->faults().fail_next(Call::set_enabled, 4, FaultMode::after);
  EXPECT_FALSE(graph->apply_now(rig.none()).ok());
  EXPECT_EQ(rig.disabled(captured), 4u) << "although the device said that it failed";
  rig.step(*graph, rig.all());
  EXPECT_EQ(rig.disabled(captured), 0u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(GateFaults, A13_ARestoreThatFailedIsFinishedByTheNextLaunch) {
  for (const bool by_launch : {true, false}) {
    Rig rig(options_for(GateTier::node));
    const Captured captured = rig.capture_all();
    auto graph = rig.bind(captured);
    rig.step(*graph, rig.none());
    rig.engine->faults().fail_next(Call::set_enabled, 2, FaultMode::before);
    EXPECT_FALSE(graph->restore().ok());
    EXPECT_EQ(rig.disabled(captured), 2u);
    EXPECT_EQ(rig.totals().graphs_stale, 1u);
    if (by_launch) {
      rig.step(*graph, rig.all());
    } else {
      graph.reset();
    }
    EXPECT_EQ(rig.disabled(captured), 0u);
    EXPECT_EQ(rig.totals().graphs_stale, 0u);
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(GateFaults, A7_NoCallIsMadeAfterTheDeviceWasLost) {
  for (const Call call : kGateCalls) {
    if (call == Call::captured_tail) continue;  // the caller's, not the gate's own
    for (const unsigned skip : {0u, 1u, 3u}) {
      SCOPED_TRACE(std::string(to_string(call)) + " after " + std::to_string(skip));
      Rig rig(options_for(call == Call::set_enabled ? GateTier::node : GateTier::specialised));
      const Captured first = rig.capture_all();
      const Captured second = rig.capture_all();
      auto graph = rig.bind(first);
      if (call == Call::set_enabled) (void)graph->apply_now(rig.set({1}));
      rig.engine->faults().fail_next(call, 1, FaultMode::sticky, skip);
      auto other = rig.bind(second);
      for (int i = 0; i < 8; ++i) {
        EXPECT_NE(graph->prepare(i % 2 ? rig.none() : rig.set({2, 3})), Exec{});
        EXPECT_NE(other->prepare(i % 2 ? rig.all() : rig.set({2})), Exec{});
        rig.pump_all();
        (void)graph->apply_now(rig.set({3}));
      }
      EXPECT_EQ(rig.registry->is_device_lost(), rig.engine->faults().lost());
      (void)graph->restore();
      graph.reset();
      other.reset();
      EXPECT_EQ(rig.engine->calls_after_loss(), 0u);
    }
  }
}

TEST(GateFaults, A7_ALossMetElsewhereSilencesTheGate) {
  Rig rig(options_for(GateTier::node));
  const Captured captured = rig.capture_all();
  auto graph = rig.bind(captured);
  rig.step(*graph, rig.set({1}));
  EXPECT_EQ(rig.verify(), 0u);
  rig.registry->device_lost();
  const std::uint64_t calls = rig.engine->calls();
  EXPECT_EQ(graph->prepare(rig.all()), captured.exec);
  EXPECT_EQ(graph->apply_now(rig.none()).code(), Code::device_lost);
  EXPECT_EQ(graph->restore().code(), Code::device_lost);
  graph.reset();
  EXPECT_EQ(rig.engine->calls(), calls);
}

}  // namespace
}  // namespace graphtap::testing
