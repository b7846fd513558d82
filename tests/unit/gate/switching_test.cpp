#include <gtest/gtest.h>

#include <stdexcept>

#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

RigOptions with_tier(GateTier tier) {
  RigOptions options;
  options.tier = tier;
  return options;
}

class EachTier : public ::testing::TestWithParam<GateTier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, EachTier,
                         ::testing::Values(GateTier::soft, GateTier::node, GateTier::specialised),
                         [](const auto& param) {
                           return std::string(param.param == GateTier::soft   ? "soft"
                                              : param.param == GateTier::node ? "node"
                                                                              : "specialised");
                         });

// The eight-step sequence of the original's reconfiguration gate, and sets that come back.
TEST_P(EachTier, A1_A6_EverySetOfASequenceIsDeliveredExactly) {
  Rig rig(with_tier(GetParam()));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  const std::vector<HookSet> sequence{
      rig.all(),  rig.none(),      rig.set({0, 2}),    rig.set({1}), rig.all(),  rig.set({3}),
      rig.none(), rig.set({0, 2}), rig.set({1, 2, 3}), rig.set({1}), rig.none(), rig.all()};
  for (const HookSet& set : sequence) {
    for (int launch = 0; launch < 4; ++launch) {
      EXPECT_NE(rig.step(*graph, set), Exec{});
      if (launch % 2 == 1) rig.pump_all();
    }
  }
  EXPECT_EQ(rig.verify(), 0u);
  EXPECT_EQ(rig.totals().launches_short, 0u);
  EXPECT_EQ(rig.totals().switch_errors, 0u);
}

TEST_P(EachTier, A6_GraphsThatSkipChangesCatchUpAtTheirOwnReplay) {
  Rig rig(with_tier(GetParam()));
  std::vector<std::shared_ptr<BoundGraph>> graphs;
  for (int i = 0; i < 3; ++i) graphs.push_back(rig.bind(rig.capture_all()));
  const std::vector<HookSet> sets{rig.all(), rig.none(), rig.set({0, 3}), rig.set({1}), rig.all()};
  for (std::size_t round = 0; round < 40; ++round) {
    const HookSet& set = sets[round % sets.size()];
    rig.step(*graphs[0], set);                      // never stale
    if (round % 2 == 0) rig.step(*graphs[1], set);  // stale: misses every other change
    if (round % 3 == 0) rig.step(*graphs[2], set);  // doubly stale
    if (round % 4 == 0) rig.pump_all();
  }
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A4_AtNextLaunchTouchesAGraphOnlyWhenItIsLaunched) {
  Rig rig(with_tier(GateTier::node));
  const Captured a = rig.capture_all();
  const Captured b = rig.capture_all();
  const auto graph_a = rig.bind(a);
  const auto graph_b = rig.bind(b);
  rig.step(*graph_a, rig.set({1}));
  EXPECT_EQ(rig.disabled(a), 3u);
  EXPECT_EQ(rig.disabled(b), 0u) << "it was not launched";
  EXPECT_EQ(rig.totals().nodes_changed_last, 3u);
  rig.step(*graph_a, rig.set({2}));
  EXPECT_EQ(rig.totals().nodes_changed_last, 2u) << "only nodes that differ";
  EXPECT_EQ(rig.totals().nodes_changed, 5u);
  rig.step(*graph_b, rig.set({2}));
  EXPECT_EQ(rig.disabled(b), 3u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A4_NowFlipsEveryBoundExecBeforeItReturns) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    RigOptions options = with_tier(tier);
    options.engine.advance = 0.1;
    Rig rig(options);
    const Captured a = rig.capture_all();
    const Captured b = rig.capture({0, 2});
    const auto graph_a = rig.bind(a);
    const auto graph_b = rig.bind(b);
    for (int i = 0; i < 6; ++i) rig.step(*graph_a, rig.all());  // in flight while it is flipped
    rig.registry->begin_change();
    for (const auto& graph : rig.registry->graphs(0)) {
      EXPECT_TRUE(graph->apply_now(rig.set({0})).ok());
    }
    EXPECT_EQ(rig.disabled(a), 3u);
    EXPECT_EQ(rig.disabled(b), 1u);
    EXPECT_EQ(rig.totals().nodes_changed_last, 4u);
    EXPECT_TRUE(graph_a->apply_now(rig.set({0})).ok());
    EXPECT_EQ(rig.totals().nodes_changed, 4u) << "the same set again changes nothing";
    // A step that was planned before the flip gets its nodes back before it is launched.
    rig.step(*graph_a, rig.all());
    EXPECT_EQ(rig.disabled(a), 0u);
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(Switching, A4_TheSoftTierNeverTouchesAGraphObject) {
  Rig rig(with_tier(GateTier::soft));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  EXPECT_TRUE(graph->apply_now(rig.none()).ok());
  for (int i = 0; i < 20; ++i) rig.step(*graph, i % 2 ? rig.none() : rig.set({1}));
  EXPECT_FALSE(rig.registry->pump());
  EXPECT_TRUE(graph->restore().ok());
  EXPECT_EQ(rig.engine->calls(Call::set_enabled), 0u);
  EXPECT_EQ(rig.engine->calls(Call::clone), 0u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A4_TheAutomaticPathLeavesNodesAlone) {
  Rig rig(with_tier(GateTier::specialised));
  const auto graph = rig.bind(rig.capture_all());
  for (int i = 0; i < 30; ++i) rig.step(*graph, i % 3 ? rig.none() : rig.set({1}));
  EXPECT_EQ(rig.engine->calls(Call::set_enabled), 0u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A5_IdsSwappedInNodesSinceAreFoundAtBinding) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const std::vector<Node> nodes = rig.producers(captured.graph);
  ASSERT_TRUE(rig.engine->rewrite_producer(captured.graph, nodes[1], rig.call({2, 0, 2})).ok());
  ASSERT_TRUE(rig.engine->rewrite_producer(captured.graph, nodes[2], rig.call({1, 0, 1})).ok());
  const auto graph = rig.bind(captured);
  EXPECT_EQ(graph->hooks(), rig.all());
  EXPECT_EQ(graph->managed(), rig.set({0, 3}));
  const auto unmanaged = rig.totals().unmanaged;
  ASSERT_EQ(unmanaged.size(), 2u);
  EXPECT_EQ(unmanaged[0].graph, "decode");
  EXPECT_EQ(unmanaged[0].hook, "h1");
  EXPECT_NE(unmanaged[0].reason.find("belongs to hook 2"), std::string::npos);
  EXPECT_EQ(unmanaged[1].hook, "h2");
  ASSERT_TRUE(graph->apply_now(rig.none()).ok());
  EXPECT_EQ(rig.disabled(captured), 2u) << "unmanaged nodes are not touched";
}

TEST(Switching, A8_OneDoubtfulProducerMakesItsHookUnmanagedButCaptured) {
  Rig rig(with_tier(GateTier::node));
  rig.engine->faults().fail_next(Call::inspect, 1, FaultMode::before, 2);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  EXPECT_EQ(graph->hooks(), rig.all());
  EXPECT_EQ(graph->managed(), rig.set({0, 1, 3}));
  ASSERT_EQ(rig.totals().unmanaged.size(), 1u);
  EXPECT_EQ(rig.totals().unmanaged[0].hook, "h2");
  EXPECT_EQ(rig.totals().nodes_bound, 3u);
  for (const auto& set : {rig.none(), rig.set({2}), rig.all(), rig.set({1})}) rig.step(*graph, set);
  EXPECT_EQ(rig.disabled(captured), 2u);
  EXPECT_EQ(rig.verify(), 0u) << "hook 2 is captured all the same";
}

TEST(Switching, A8_AHookWithOneVerifiedAndOneDoubtfulProducerIsUnmanagedAsAWhole) {
  Rig rig(with_tier(GateTier::node));
  rig.engine->faults().fail_next(Call::captured_tail, 1, FaultMode::before, 1);
  const Captured captured = rig.capture({0, 0, 1});
  const auto graph = rig.bind(captured);
  EXPECT_EQ(graph->managed(), rig.set({1}));
  ASSERT_TRUE(graph->apply_now(rig.none()).ok());
  EXPECT_EQ(rig.disabled(captured), 1u);
}

TEST(Switching, A9_AGraphCapturedAfterTheOthersWereBoundWorks) {
  Rig rig;
  const auto first = rig.bind(rig.capture_all());
  for (int i = 0; i < 5; ++i) rig.step(*first, rig.none());
  rig.pump_all();
  const std::uint64_t version = rig.registry->version();
  const auto late = rig.bind(rig.capture({3, 1}));
  EXPECT_NE(rig.registry->version(), version);
  for (int i = 0; i < 5; ++i) {
    rig.step(*late, rig.set({1}));
    rig.step(*first, rig.set({1}));
    rig.pump_all();
  }
  EXPECT_EQ(rig.verify(), 0u);
  EXPECT_EQ(rig.totals().graphs_bound, 2u);
}

TEST(Switching, A10_GraphsWithDifferentHooksAreSwitchedEachByItsOwn) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    Rig rig(with_tier(tier));
    const std::vector<std::vector<HookId>> pieces{{0, 1}, {2}, {}, {1, 3}};
    std::vector<std::shared_ptr<BoundGraph>> graphs;
    for (const auto& hooks : pieces) graphs.push_back(rig.bind(rig.capture(hooks)));
    EXPECT_EQ(graphs[3]->hooks(), rig.set({1, 3}));
    EXPECT_TRUE(graphs[2]->hooks().empty());
    EXPECT_EQ(rig.totals().nodes_bound, 5u);
    for (const auto& set : {rig.all(), rig.none(), rig.set({1}), rig.set({0, 3}), rig.all()}) {
      for (int i = 0; i < 4; ++i) {
        for (const auto& graph : graphs) rig.step(*graph, set);
        rig.pump_all();
      }
    }
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(Switching, A13_RestoreEnablesEveryNodeAndTheGraphKeepsReplaying) {
  for (const GateTier tier : {GateTier::node, GateTier::specialised}) {
    Rig rig(with_tier(tier));
    const Captured captured = rig.capture_all();
    const auto graph = rig.bind(captured);
    const std::size_t graphs_before = rig.engine->live_graphs();
    for (int i = 0; i < 4; ++i) rig.step(*graph, rig.none());
    rig.pump_all();
    ASSERT_TRUE(graph->apply_now(rig.set({1})).ok());
    ASSERT_EQ(rig.disabled(captured), 3u);
    EXPECT_TRUE(graph->restore().ok());
    EXPECT_EQ(rig.disabled(captured), 0u);
    EXPECT_EQ(rig.engine->live_execs(), 1u) << "only the owner's is left";
    EXPECT_EQ(rig.engine->live_graphs(), graphs_before - (tier == GateTier::specialised ? 1 : 0));
    EXPECT_EQ(rig.totals().graphs_bound, 0u);
    EXPECT_EQ(rig.totals().nodes_bound, 0u);
    EXPECT_EQ(rig.totals().specialised_bytes, 0u);
    EXPECT_TRUE(rig.registry->graphs(0).empty());
    // Its owner goes on replaying it, with and without the handle; nothing is switched any more.
    EXPECT_EQ(rig.step(*graph, rig.set({0, 2})), captured.exec);
    rig.launch(captured.exec, graph->hooks(), rig.all());
    EXPECT_TRUE(graph->apply_now(rig.none()).ok());
    EXPECT_TRUE(graph->restore().ok());
    EXPECT_EQ(rig.disabled(captured), 0u);
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(Switching, A13_AHandleThatIsDroppedRestoresItsNodesAndVanishes) {
  Rig rig(with_tier(GateTier::node));
  const Captured captured = rig.capture_all();
  auto graph = rig.bind(captured);
  const auto other = rig.bind(rig.capture_all(), {}, 1);
  rig.step(*graph, rig.none());
  ASSERT_EQ(rig.disabled(captured), 4u);
  const std::uint64_t version = rig.registry->version();
  graph.reset();
  EXPECT_EQ(rig.disabled(captured), 0u);
  EXPECT_NE(rig.registry->version(), version);
  EXPECT_EQ(rig.totals().graphs_bound, 1u);
  EXPECT_TRUE(rig.registry->graphs(0).empty());
  EXPECT_EQ(rig.registry->graphs(1).size(), 1u);
  rig.launch(captured.exec, rig.all(), rig.all());
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A15_AReconfigurationMakesNoCallAndDoesNotGrowWithTheGraphs) {
  Rig rig(with_tier(GateTier::node));
  std::vector<std::shared_ptr<BoundGraph>> graphs;
  for (int i = 0; i < 64; ++i) graphs.push_back(rig.bind(rig.capture_all()));
  for (const auto& graph : graphs) (void)graph->prepare(rig.set({1}));
  const std::uint64_t version = rig.registry->version();
  const std::uint64_t calls = rig.engine->calls();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(rig.registry->version(), version);
    for (const auto& graph : graphs) (void)graph->prepare(rig.set({1}));
  }
  EXPECT_EQ(rig.engine->calls(), calls) << "an unchanged set costs no device call";
  (void)graphs[5]->prepare(rig.set({2}));
  EXPECT_EQ(rig.engine->calls(), calls + 2) << "only the graph that is launched catches up";
}

TEST(Switching, A16_AGraphWhoseOwnerSaysThatItIsGoneIsLeftAlone) {
  Rig rig;
  const Captured captured = rig.capture_all();
  Exec current = captured.exec;
  BindOptions options;
  options.name = "decode[8]";
  options.current_exec = [&] { return current; };
  const auto graph = rig.bind(captured, options);
  for (int i = 0; i < 3; ++i) rig.step(*graph, rig.none());
  rig.pump_all();
  rig.step(*graph, rig.none());
  ASSERT_TRUE(graph->apply_now(rig.set({1})).ok());
  EXPECT_EQ(rig.verify(), 0u);
  current = {};
  rig.device->destroy_exec(captured.exec);
  rig.device->destroy_graph(captured.graph);
  const std::uint64_t switched = rig.engine->calls(Call::set_enabled);
  EXPECT_EQ(graph->prepare(rig.all()), Exec{});
  EXPECT_TRUE(graph->gone());
  EXPECT_EQ(rig.engine->live_execs(), 0u) << "ours went with it";
  EXPECT_EQ(rig.engine->live_graphs(), 0u);
  current = captured.exec;
  EXPECT_EQ(graph->prepare(rig.all()), Exec{}) << "what is gone does not come back";
  EXPECT_TRUE(graph->apply_now(rig.none()).ok());
  EXPECT_TRUE(graph->restore().ok());
  EXPECT_EQ(rig.engine->calls(Call::set_enabled), switched) << "its handles are not used any more";
}

TEST(Switching, A16_TheReasonIsReportedWhileTheHandleIsHeld) {
  Rig rig;
  BindOptions options;
  options.name = "decode[8]";
  options.current_exec = []() -> Exec { throw std::runtime_error("graph was reset"); };
  const auto graph = rig.bind(rig.capture_all(), options);
  EXPECT_EQ(graph->prepare(rig.all()), Exec{});
  const GateTotals totals = rig.totals();
  EXPECT_EQ(totals.graphs_gone, 1u);
  EXPECT_EQ(totals.graphs_bound, 0u);
  ASSERT_EQ(totals.unspecialised.size(), 1u);
  EXPECT_EQ(totals.unspecialised[0].graph, "decode[8]");
  EXPECT_NE(totals.unspecialised[0].reason.find("graph was reset"), std::string::npos);
}

TEST(Switching, A16_AFreedTemplateLeavesTheSoftGate) {
  Rig rig;
  Captured captured = rig.capture_all();
  const auto graph =
      rig.registry->bind({0, Graph{}, captured.exec, {}, rig.recorder.take(captured.graph)});
  rig.device->destroy_graph(captured.graph);
  EXPECT_EQ(graph->hooks(), rig.all());
  EXPECT_TRUE(graph->managed().empty());
  EXPECT_EQ(rig.totals().unmanaged.size(), 4u);
  EXPECT_EQ(rig.totals().unmanaged[0].reason, "its template graph was freed");
  for (const auto& set : {rig.all(), rig.none(), rig.set({2})}) {
    EXPECT_EQ(rig.step(*graph, set), captured.exec);
  }
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, A16_BoundWithoutAnExecIsGone) {
  Rig rig;
  Captured captured = rig.capture_all();
  captured.exec = {};
  const auto graph = rig.bind(captured);
  EXPECT_TRUE(graph->gone());
  EXPECT_EQ(graph->prepare(rig.all()), Exec{});
  EXPECT_EQ(rig.totals().unspecialised[0].reason, "it was bound without an exec");
}

TEST(Switching, A7_AReplacedExecIsNoticedAndBroughtUpToDate) {
  Rig rig(with_tier(GateTier::node));
  const Captured captured = rig.capture_all();
  Exec current = captured.exec;
  BindOptions options;
  options.current_exec = [&] { return current; };
  const auto graph = rig.bind(captured, options);
  rig.step(*graph, rig.set({1}));
  EXPECT_EQ(rig.verify(), 0u);
  current = rig.device->instantiate(captured.graph, 0).value();
  rig.device->destroy_exec(captured.exec);
  EXPECT_EQ(rig.step(*graph, rig.set({1})), current);
  EXPECT_EQ(rig.disabled(captured, current), 3u) << "all its nodes were enabled when it was made";
  EXPECT_EQ(rig.totals().execs_replaced, 1u);
  const Exec second = std::exchange(current, rig.device->instantiate(captured.graph, 0).value());
  rig.device->destroy_exec(second);
  EXPECT_TRUE(graph->restore().ok());
  EXPECT_EQ(rig.totals().switch_errors, 0u) << "the exec that went is not touched";
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Switching, ASetOverAnotherTableLosesNothing) {
  Rig rig(with_tier(GateTier::node));
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  (void)graph->prepare(rig.none());
  EXPECT_EQ(rig.disabled(captured), 4u);
  (void)graph->prepare(HookSet::all(9));
  EXPECT_EQ(rig.disabled(captured), 0u);
  (void)graph->prepare(HookSet{});
  EXPECT_EQ(rig.disabled(captured), 4u) << "the empty set is empty over any table";
}

}  // namespace
}  // namespace graphtap::testing
