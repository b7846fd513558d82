#include <gtest/gtest.h>

#include <mutex>

#include "device/host/host_device.hpp"
#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

// Launches `graph` with `set` until its exec has been built, or as often as it takes to settle.
Exec settle(Rig& rig, BoundGraph& graph, const HookSet& set, int launches = 2) {
  for (int i = 0; i < launches; ++i) rig.step(graph, set);
  rig.pump_all();
  return rig.step(graph, set);
}

std::uint64_t bytes_of_one(const HookSet& set) {
  Rig rig;
  const auto graph = rig.bind(rig.capture_all());
  settle(rig, *graph, set);
  EXPECT_EQ(rig.totals().specialised_execs, 1u);
  return rig.totals().specialised_bytes;
}

TEST(Specialise, TheEmptySetAtOnceOthersWhenTheyHaveSettled) {
  RigOptions options;
  options.settle = 5;
  Rig rig(options);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  const std::size_t nodes = rig.engine->node_count(captured.exec);
  EXPECT_EQ(rig.step(*graph, rig.none()), captured.exec) << "nothing waits for the helper";
  EXPECT_TRUE(rig.registry->pump());
  EXPECT_FALSE(rig.registry->pump());
  const Exec bare = rig.step(*graph, rig.none());
  EXPECT_NE(bare, captured.exec);
  EXPECT_EQ(rig.engine->node_count(bare), nodes - 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rig.step(*graph, rig.set({1})), captured.exec);
  EXPECT_FALSE(rig.registry->pump()) << "four launches are not five";
  rig.step(*graph, rig.set({1}));
  EXPECT_TRUE(rig.registry->pump());
  const Exec one = rig.step(*graph, rig.set({1}));
  EXPECT_EQ(rig.engine->node_count(one), nodes - 3);
  EXPECT_EQ(rig.step(*graph, rig.none()), bare) << "both are kept";
  EXPECT_EQ(rig.totals().specialised_execs, 2u);
  EXPECT_EQ(rig.totals().exec_swaps, 4u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, ASetThatAlternatesWithAnotherSettlesToo) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  for (int i = 0; i < 12; ++i) {
    rig.step(*graph, i % 4 == 0 ? rig.set({2}) : rig.none());
    rig.pump_all();
  }
  EXPECT_NE(rig.step(*graph, rig.set({2})), captured.exec);
  EXPECT_EQ(rig.totals().execs_built, 2u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, TheFullSetIsServedByTheOwnersExec) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  EXPECT_EQ(settle(rig, *graph, rig.all(), 20), captured.exec);
  EXPECT_EQ(rig.totals().execs_built, 0u);
}

TEST(Specialise, A5_TheExecIsChosenByThePlansSet) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  const Exec bare = settle(rig, *graph, rig.none());
  const Exec one = settle(rig, *graph, rig.set({1}));
  // The set that is wanted by now may be another; what counts is what the step was planned with.
  EXPECT_EQ(rig.step(*graph, rig.none()), bare);
  EXPECT_EQ(rig.step(*graph, rig.set({1})), one);
  EXPECT_EQ(rig.step(*graph, rig.set({1, 2})), captured.exec) << "neither holds both";
  EXPECT_EQ(rig.step(*graph, rig.set({2})), captured.exec);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, A5_ALargerExecServesUntilTheExactOneIsThere) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  const Exec three = settle(rig, *graph, rig.set({0, 1, 2}));
  const Exec two = settle(rig, *graph, rig.set({0, 1}));
  EXPECT_NE(three, two);
  EXPECT_EQ(rig.step(*graph, rig.set({0})), two) << "the smallest that holds the set";
  EXPECT_EQ(rig.step(*graph, rig.set({2})), three);
  rig.pump_all();
  EXPECT_EQ(rig.step(*graph, rig.set({3})), captured.exec);
  const Exec exact = settle(rig, *graph, rig.set({0}));
  EXPECT_NE(exact, two);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, A8_UnmanagedProducersAreInEveryExec) {
  Rig rig;
  rig.engine->faults().fail_next(Call::inspect, 1, FaultMode::before, 2);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  ASSERT_EQ(graph->managed(), rig.set({0, 1, 3}));
  const Exec bare = settle(rig, *graph, rig.none());
  EXPECT_EQ(rig.engine->node_count(bare), rig.engine->node_count(captured.exec) - 3);
  EXPECT_EQ(rig.step(*graph, rig.set({2})), bare);
  EXPECT_EQ(rig.step(*graph, rig.set({0, 2})), captured.exec);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, AHookThatFiresTwiceLosesBothProducers) {
  Rig rig;
  const Captured captured = rig.capture({0, 1, 0});
  const auto graph = rig.bind(captured);
  const Exec one = settle(rig, *graph, rig.set({1}));
  EXPECT_EQ(rig.engine->node_count(one), rig.engine->node_count(captured.exec) - 2);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, TheOrderOfTheModelIsKept) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RigOptions options;
    options.engine.seed = seed;
    Rig rig(options);
    const Stream side = rig.device->create_stream().value();
    const Event fork = rig.device->create_event().value();
    const Event join = rig.device->create_event().value();
    std::vector<int> order;
    std::mutex mutex;  // of the order: branches may run at the same time
    const auto log = [&](Stream stream, int what) {
      ASSERT_TRUE(rig.engine
                      ->compute(stream,
                                [&order, &mutex, what] {
                                  const std::lock_guard lock(mutex);
                                  order.push_back(what);
                                })
                      .ok());
    };
    // 0 → producers → fork: 1 on the main stream, 2 on the side → join → producer → 3
    ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
    log(rig.stream, 0);
    rig.produce(0);
    rig.produce(1);
    ASSERT_TRUE(rig.device->record(fork, rig.stream).ok());
    ASSERT_TRUE(rig.device->wait(side, fork).ok());
    log(side, 2);
    ASSERT_TRUE(rig.device->record(join, side).ok());
    log(rig.stream, 1);
    ASSERT_TRUE(rig.device->wait(rig.stream, join).ok());
    rig.produce(2);
    log(rig.stream, 3);
    Captured captured;
    captured.graph = rig.engine->end_capture(rig.stream).value();
    captured.exec = rig.device->instantiate(captured.graph, 0).value();
    const auto graph = rig.bind(captured);
    ASSERT_EQ(graph->managed(), rig.set({0, 1, 2}));
    for (const HookSet& set : {rig.none(), rig.set({1}), rig.set({2})}) {
      for (int i = 0; i < 2; ++i) (void)graph->prepare(set);
      rig.pump_all();
      const Exec exec = graph->prepare(set);
      EXPECT_EQ(rig.engine->node_count(exec), 4 + set.count());
      order.clear();
      ASSERT_TRUE(rig.device->launch(exec, rig.stream).ok());
      rig.engine->run_until_idle();
      ASSERT_EQ(order.size(), 4u);
      EXPECT_EQ(order.front(), 0) << "seed " << seed;
      EXPECT_EQ(order.back(), 3) << "seed " << seed;
    }
  }
}

TEST(Specialise, TemplatesThatCannotBeClonedAreLeftToTheSoftGateWithTheReason) {
  GRAPHTAP_NEEDS_THE_HOST_DEVICE("allocation and conditional nodes are added by hand");
  for (const bool allocation : {true, false}) {
    Rig rig;
    const Captured captured = rig.capture({0, 1, 2, 3}, [&] {
      const auto node = allocation ? rig.engine->host()->add_alloc_node(rig.stream)
                                   : rig.engine->host()->add_conditional_node(rig.stream);
      ASSERT_TRUE(node.ok());
    });
    const auto graph = rig.bind(captured);
    EXPECT_NE(graph->unspecialised().find(allocation ? "allocation" : "conditional"),
              std::string::npos);
    ASSERT_EQ(rig.totals().unspecialised.size(), 1u);
    EXPECT_EQ(rig.totals().unspecialised[0].graph, "decode");
    EXPECT_EQ(settle(rig, *graph, rig.none()), captured.exec);
    EXPECT_EQ(settle(rig, *graph, rig.set({3})), captured.exec);
    EXPECT_EQ(rig.engine->calls(Call::set_enabled), 0u);
    EXPECT_EQ(rig.engine->calls(Call::clone), 0u);
    EXPECT_TRUE(graph->apply_now(rig.none()).ok()) << "its nodes can be switched all the same";
    EXPECT_EQ(rig.disabled(captured), 4u);
    rig.step(*graph, rig.all());
    EXPECT_EQ(rig.verify(), 0u);
  }
}

TEST(Specialise, ProducersInAChildGraphStayInEveryExec) {
  GRAPHTAP_NEEDS_THE_HOST_DEVICE(
      "a child graph is added by hand, and it counts the producers that ran");
  Rig rig;
  const Captured child = rig.capture({3});
  const Captured captured = rig.capture({0, 1}, [&] {
    ASSERT_TRUE(rig.engine->host()->add_child_graph(rig.stream, child.graph).ok());
  });
  const auto graph = rig.bind(captured);
  EXPECT_EQ(graph->hooks(), rig.set({0, 1}));
  const Exec bare = settle(rig, *graph, rig.none());
  EXPECT_NE(bare, captured.exec);
  rig.engine->run_until_idle();
  const std::uint64_t before = rig.engine->host()->producers_run();
  EXPECT_EQ(rig.step(*graph, rig.set({3})), bare);
  rig.engine->run_until_idle();
  EXPECT_EQ(rig.engine->host()->producers_run(), before + 1);
}

TEST(Specialise, AnOwnerThatKeepsItsExecIsNeverSpecialised) {
  Rig rig;
  const Captured captured = rig.capture_all();
  BindOptions options;
  options.keep_owner_exec = true;
  const auto graph = rig.bind(captured, options);
  EXPECT_EQ(settle(rig, *graph, rig.none(), 20), captured.exec);
  EXPECT_EQ(rig.engine->calls(Call::clone), 0u);
  EXPECT_NE(graph->unspecialised().find("owner's exec"), std::string::npos);
}

TEST(Specialise, AFailedBuildIsTriedAgainEverMoreRarely) {
  Rig rig;
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  rig.engine->faults().fail_next(Call::instantiate, 1000, FaultMode::before);
  std::vector<int> attempts;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(rig.step(*graph, rig.none()), captured.exec);
    if (rig.registry->pump()) attempts.push_back(i);
  }
  EXPECT_EQ(attempts, (std::vector<int>{0, 2, 6, 14, 30, 62, 126, 254}));
  EXPECT_EQ(rig.totals().specialise_failures, attempts.size());
  EXPECT_NE(rig.totals().last_error.find("cudaError"), std::string::npos);
  rig.engine->faults().clear();
  for (int i = 0; i < 300; ++i) {
    rig.step(*graph, rig.none());
    rig.pump_all();
  }
  EXPECT_EQ(rig.totals().specialised_execs, 1u);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, JobsOfGraphsThatWereClearedOrDroppedAreDropped) {
  Rig rig;
  auto cleared = rig.bind(rig.capture_all());
  auto dropped = rig.bind(rig.capture_all());
  rig.step(*cleared, rig.none());
  rig.step(*dropped, rig.none());
  EXPECT_EQ(rig.verify(), 0u);
  EXPECT_TRUE(cleared->restore().ok());
  dropped.reset();
  const std::uint64_t built = rig.engine->calls(Call::instantiate);
  EXPECT_FALSE(rig.registry->pump());
  EXPECT_EQ(rig.engine->calls(Call::instantiate), built);
  EXPECT_EQ(rig.engine->live_execs(), 2u);
  EXPECT_EQ(rig.engine->live_graphs(), 2u);
}

TEST(Specialise, TheBudgetEvictsWhatWasUsedLongestAgo) {
  RigOptions options;
  options.budget = 4 * bytes_of_one(HookSet::of(4, std::vector<HookId>{0}));
  Rig rig(options);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  const Exec bare = settle(rig, *graph, rig.none());
  for (HookId hook = 0; hook < 3; ++hook) settle(rig, *graph, rig.set({hook}));
  EXPECT_EQ(rig.totals().specialised_execs, 4u);
  rig.step(*graph, rig.set({0}));  // {1} is the oldest now; the empty set's exec is older still
  settle(rig, *graph, rig.set({3}));
  EXPECT_EQ(rig.totals().specialised_execs, 4u);
  EXPECT_EQ(rig.totals().execs_evicted, 1u);
  EXPECT_EQ(rig.step(*graph, rig.none()), bare);
  EXPECT_NE(rig.step(*graph, rig.set({0})), captured.exec);
  EXPECT_NE(rig.step(*graph, rig.set({2})), captured.exec);
  EXPECT_EQ(rig.step(*graph, rig.set({1})), captured.exec) << "evicted";
  EXPECT_LE(rig.totals().specialised_bytes, options.budget);
  EXPECT_EQ(rig.verify(), 0u);
  EXPECT_EQ(rig.engine->live_execs(), 5u);
}

TEST(Specialise, TheBudgetCountsAllGraphsAndKeepsTheirEmptyAndCurrentSets) {
  RigOptions options;
  options.budget =
      4 * bytes_of_one(HookSet::of(4, std::vector<HookId>{0})) + bytes_of_one(HookSet::none(4)) / 2;
  Rig rig(options);
  const auto a = rig.bind(rig.capture_all());
  const auto b = rig.bind(rig.capture_all());
  settle(rig, *a, rig.none());
  settle(rig, *b, rig.none());
  settle(rig, *a, rig.set({0}));
  settle(rig, *b, rig.set({0}));
  settle(rig, *b, rig.set({1}));  // pushes out b's {0}: a's is current
  EXPECT_EQ(rig.totals().execs_evicted, 1u);
  EXPECT_EQ(rig.totals().specialise_refused, 0u);
  const auto c = rig.bind(rig.capture_all());
  settle(rig, *c, rig.none());
  EXPECT_EQ(rig.totals().specialise_refused, 1u) << "all that is kept is in use";
  EXPECT_EQ(rig.totals().specialised_execs, 4u);
  EXPECT_LE(rig.totals().specialised_bytes, options.budget);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, TheOldestOfAllGraphsGoesFirst) {
  RigOptions options;
  options.budget = 4 * bytes_of_one(HookSet::of(4, std::vector<HookId>{0}));
  Rig rig(options);
  const Captured captured_a = rig.capture_all();
  const Captured captured_b = rig.capture_all();
  const auto a = rig.bind(captured_a);
  const auto b = rig.bind(captured_b);
  for (const auto& graph : {a, b}) {
    settle(rig, *graph, rig.set({0}));
    settle(rig, *graph, rig.set({1}));
  }
  settle(rig, *b, rig.set({2}));
  EXPECT_EQ(rig.totals().execs_evicted, 1u);
  EXPECT_EQ(rig.step(*a, rig.set({0})), captured_a.exec) << "a's was older";
  EXPECT_NE(rig.step(*b, rig.set({0})), captured_b.exec);
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, ABudgetTooSmallForOneBuildsOnceAndKeepsNone) {
  RigOptions options;
  options.budget = 1;
  Rig rig(options);
  const Captured captured = rig.capture_all();
  const auto graph = rig.bind(captured);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(rig.step(*graph, rig.none()), captured.exec);
    rig.pump_all();
  }
  EXPECT_EQ(rig.totals().specialised_execs, 0u);
  EXPECT_EQ(rig.engine->live_execs(), 1u);
  EXPECT_EQ(rig.engine->calls(Call::instantiate), 2u) << "the owner's, and one to learn the size";
  EXPECT_GE(rig.totals().specialise_refused, 4u);
}

TEST(Specialise, AnExecThatWasHandedOutIsNotDestroyedBeforeItIsLaunched) {
  const HookSet three = HookSet::of(4, std::vector<HookId>{0, 1, 2});
  RigOptions options;
  options.budget = bytes_of_one(three);
  Rig rig(options);
  const auto graph = rig.bind(rig.capture_all());
  const Exec held = settle(rig, *graph, three);
  // The larger exec serves {0}; the exact one would need its place.
  ASSERT_EQ(graph->prepare(rig.set({0})), held);
  ASSERT_EQ(graph->prepare(rig.set({0})), held);
  rig.pump_all();
  EXPECT_EQ(rig.totals().execs_evicted, 0u);
  rig.launch(held, graph->hooks(), rig.set({0}));
  graph->launched();
  for (int i = 0; i < 8; ++i) {
    rig.step(*graph, rig.set({0}));
    rig.pump_all();
  }
  EXPECT_EQ(rig.totals().execs_evicted, 1u);
  const Exec now = rig.step(*graph, rig.set({0}));
  // CUDA may give a new exec the address of one that went.
  if (rig.engine->cooperative()) {
    EXPECT_NE(now, held);
  }
  EXPECT_EQ(rig.verify(), 0u);
}

TEST(Specialise, A13_AnExecThatWasHandedOutOutlivesRestore) {
  Rig rig;
  const Captured captured = rig.capture_all();
  auto graph = rig.bind(captured);
  settle(rig, *graph, rig.set({1}));
  const Exec held = graph->prepare(rig.set({1}));
  ASSERT_NE(held, captured.exec);
  EXPECT_TRUE(graph->restore().ok());
  rig.launch(held, graph->hooks(), rig.set({1}));
  EXPECT_EQ(rig.verify(), 0u);
  graph.reset();
  EXPECT_EQ(rig.engine->live_execs(), 1u);
  EXPECT_EQ(rig.totals().specialised_execs, 0u);
  EXPECT_EQ(rig.totals().specialised_bytes, 0u);
}

TEST(Specialise, AReplacedOwnerExecLeavesSpecialisedOnesValid) {
  Rig rig;
  const Captured captured = rig.capture_all();
  Exec current = captured.exec;
  BindOptions options;
  options.current_exec = [&] { return current; };
  const auto graph = rig.bind(captured, options);
  const Exec bare = settle(rig, *graph, rig.none());
  EXPECT_EQ(rig.verify(), 0u);
  current = rig.device->instantiate(captured.graph, 0).value();
  rig.device->destroy_exec(captured.exec);
  EXPECT_EQ(rig.step(*graph, rig.none()), bare);
  EXPECT_EQ(rig.step(*graph, rig.all()), current);
  EXPECT_EQ(rig.totals().execs_replaced, 1u);
  EXPECT_EQ(rig.verify(), 0u);
}

}  // namespace
}  // namespace graphtap::testing
