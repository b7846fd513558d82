// The scenarios by which the system before this one was accepted, each at least as strict: there,
// values were compared by shape and count; here every row carries its layer, token and step.
#include <gtest/gtest.h>

#include "integration/support/toy_engine.hpp"

namespace graphtap {
namespace {

using Layers = std::set<int>;
using toy::Toy;
using toy::ToyGraph;

struct Setting {
  const char* selection;
  Layers layers;
};
const std::vector<Setting> kSequence = {{"", {0, 1, 2, 3, 4, 5}},
                                        {"none", {}},
                                        {"resid_pre:2-3", {2, 3}},
                                        {"resid_pre:0,5", {0, 5}},
                                        {"resid_pre:5", {5}},
                                        {"none", {}},
                                        {"resid_pre:1-4", {1, 2, 3, 4}},
                                        {"", {0, 1, 2, 3, 4, 5}}};

MonitorOptions with_tier(GateTier tier) {
  MonitorOptions options;
  options.tier = tier;
  options.settle_launches = 3;
  return options;
}

class EveryTier : public ::testing::TestWithParam<GateTier> {};
INSTANTIATE_TEST_SUITE_P(Gates, EveryTier,
                         ::testing::Values(GateTier::soft, GateTier::node, GateTier::specialised));

// smoke: FULL decode, the last 4 of 28 layers; the prefill carries all of them.
TEST_P(EveryTier, A1_A11_LastFourOf28LayersWhilePrefillCarriesAll) {
  MonitorOptions options = with_tier(GetParam());
  options.eager = EagerPolicy::all;
  Toy toy(28, options);
  ToyGraph graph = toy.capture(1);
  (void)toy.monitor->enable("resid_pre:24-27");
  const auto prefill = toy.prefill(13);
  std::vector<std::uint64_t> decodes;
  for (int i = 0; i < 40; ++i) decodes.push_back(toy.decode(graph));
  toy.flush();
  EXPECT_EQ(toy.book->layers[prefill], toy.all_layers());
  for (const auto step : decodes) EXPECT_EQ(toy.book->layers[step], (Layers{24, 25, 26, 27}));
  EXPECT_TRUE(toy.book->gaps.empty());
}

// binding: nodes are recorded in a capture and can be switched on the owner's exec.
TEST(OriginalGates, A1_A8_NodesAreRecordedAndSwitched) {
  Toy toy(6, with_tier(GateTier::node));
  ToyGraph graph = toy.capture(2);
  EXPECT_EQ(toy.monitor->stats().nodes_bound, 6u);
  EXPECT_TRUE(toy.monitor->stats().unmanaged.empty());
  ASSERT_TRUE(toy.monitor->enable("resid_pre:4", Apply::now).ok());
  const auto nodes = toy.producers(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(toy.device->enabled(graph.exec, nodes[i]).value(), i == 4) << i;
  }
  EXPECT_EQ(toy.monitor->stats().nodes_changed_last, 5u);
}

// reconfigure sequence, eager and lazy: each set is delivered exactly, on one graph.
TEST_P(EveryTier, A4_A6_EachSetOfASequenceExactly) {
  for (const Apply apply : {Apply::now, Apply::at_next_launch}) {
    Toy toy(6, with_tier(GetParam()));
    ToyGraph graph = toy.capture(4);
    std::map<std::uint64_t, Layers> want;
    for (int round = 0; round < 3; ++round) {
      for (const Setting& setting : kSequence) {
        ASSERT_TRUE(toy.monitor->enable(setting.selection, apply).ok());
        for (std::uint32_t i = 0; i < 7; ++i) want[toy.decode(graph, 1 + i % 4)] = setting.layers;
      }
    }
    toy.flush();
    for (const auto& [step, layers] : want) EXPECT_EQ(toy.book->layers[step], layers) << step;
    EXPECT_TRUE(toy.book->gaps.empty());
    EXPECT_EQ(toy.monitor->stats().ring_used, 0u);
  }
}

// multigraph: replays of one graph and the other; a graph that skipped one change, and several.
TEST_P(EveryTier, A6_StaleAndDoublyStaleGraphsCatchUp) {
  for (const Apply apply : {Apply::now, Apply::at_next_launch}) {
    Toy toy(6, with_tier(GetParam()));
    ToyGraph small = toy.capture(1), large = toy.capture(8);
    std::map<std::uint64_t, Layers> want;
    const auto run = [&](ToyGraph& graph, const Setting& setting) {
      want[toy.decode(graph)] = setting.layers;
    };
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 0; i < kSequence.size(); ++i) {
        ASSERT_TRUE(toy.monitor->enable(kSequence[i].selection, apply).ok());
        run(small, kSequence[i]);
        if (i % 3 == 2) run(large, kSequence[i]);  // large misses two changes in a row
        run(small, kSequence[i]);
      }
    }
    toy.flush();
    for (const auto& [step, layers] : want) EXPECT_EQ(toy.book->layers[step], layers) << step;
    EXPECT_TRUE(toy.book->gaps.empty());
  }
}

// reserve invariant: what is planned is what is enabled, and the ring is empty after every round.
TEST_P(EveryTier, A5_A6_PlannedEqualsEnabledAndTheRingDrains) {
  Toy toy(6, with_tier(GetParam()));
  ToyGraph graph = toy.capture(4);
  std::uint64_t planned = 0;
  for (const Setting& setting : kSequence) {
    ASSERT_TRUE(toy.monitor->enable(setting.selection).ok());
    for (int i = 0; i < 5; ++i) toy.decode(graph, 3);
    planned += 5 * setting.layers.size();
    toy.flush();
    const Stats stats = toy.monitor->stats();
    EXPECT_EQ(stats.total.planned, planned);
    EXPECT_EQ(stats.total.delivered, planned);
    EXPECT_EQ(stats.ring_used, 0u);
    EXPECT_EQ(stats.steps_in_flight, 0u);
  }
}

// prefix, and what it reserves: padding is stripped while the row count varies, bytes are exact.
TEST_P(EveryTier, A14_PaddingIsStrippedAtAnyRowCount) {
  Toy toy(6, with_tier(GetParam()));
  ToyGraph graph = toy.capture(8);
  (void)toy.monitor->enable("resid_pre:1,3");
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::uint32_t rows = 1 + (i * 5) % 8;
    const auto step = toy.decode(graph, rows);
    bytes += 2 * rows * toy::kWidth * sizeof(float);
    toy.flush();
    EXPECT_EQ(toy.book->rows[step], rows);
    EXPECT_EQ(toy.book->layers[step], (Layers{1, 3}));
  }
  EXPECT_EQ(toy.book->bytes, bytes);
  EXPECT_EQ(toy.monitor->stats().total.bytes, bytes);
}

// chunked: the original refused to switch graphs that hold one; here it is switched like any other.
TEST_P(EveryTier, A14_ChunkedProducersAreSwitchedToo) {
  Toy toy(1, with_tier(GetParam()));
  HostDevice& device = *toy.device;
  std::byte* data = device.allocate(64).value();
  auto* counts = reinterpret_cast<std::int64_t*>(device.allocate(16).value());
  counts[0] = 8;
  counts[1] = 4;
  ASSERT_TRUE(device.begin_capture(toy.stream).ok());
  ASSERT_TRUE(device.compute(toy.stream, [data] { std::memset(data, 7, 64); }).ok());
  Source source;
  source.data = data;
  source.rows = 2;
  source.part_bytes = toy::kWidth * sizeof(float);
  source.row_stride = toy::kWidth * sizeof(float);
  source.chunk_bytes = counts;
  source.chunks = 2;
  source.chunk_stride = 32;
  toy.lane->produce(0, source, toy.stream);
  const Graph graph = device.end_capture(toy.stream).value();
  const Exec exec = device.instantiate(graph, 0).value();
  const auto bound = toy.lane->bind(graph, exec);
  const auto run = [&] {
    const RowSpan span{toy.request, toy.token, 2, RowFlags::none};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = {&span, 1};
    Step step = toy.lane->begin(shape, toy.stream);
    EXPECT_TRUE(step.launch(*bound).ok());
    step.end();
    ++toy.steps;
  };
  for (int i = 0; i < 10; ++i) {
    (void)toy.monitor->enable(i % 2 == 0 ? "" : "none");
    run();
  }
  toy.flush();
  EXPECT_EQ(toy.book->records, 5u);
  EXPECT_EQ(toy.book->bytes, 5u * 12u);
}

// prefill passthrough: an eager step uses the full set, the decode step the subset, nothing is left
// over.
TEST_P(EveryTier, A11_PrefillPassthroughLeavesNothingBehind) {
  MonitorOptions options = with_tier(GetParam());
  options.eager = EagerPolicy::all;
  Toy toy(6, options);
  ToyGraph graph = toy.capture(2);
  (void)toy.monitor->enable("resid_pre:2");
  for (int i = 0; i < 10; ++i) {
    const auto prefill = toy.prefill(5);
    const auto decode = toy.decode(graph);
    toy.flush();
    EXPECT_EQ(toy.book->layers[prefill], toy.all_layers());
    EXPECT_EQ(toy.book->layers[decode], Layers{2});
  }
  EXPECT_EQ(toy.monitor->stats().ring_used, 0u);
}

// force eager: a step that overflows the ring still honours the gates.
TEST(OriginalGates, A12_AStepLargerThanTheRingHonoursTheGates) {
  MonitorOptions options;
  options.ring_bytes = 8 << 10;
  Toy toy(6, options);
  (void)toy.monitor->enable("resid_pre:1,4");
  const auto step = toy.prefill(300);  // 300 rows × 32 bytes × 2 layers
  toy.flush();
  EXPECT_EQ(toy.book->layers[step], (Layers{1, 4}));
  EXPECT_EQ(toy.book->bytes, 2u * 300u * 32u);
  EXPECT_TRUE(toy.book->gaps.empty());
}

// graph guard: the original died when a graph it had not registered was replayed; the soft gate
// serves it.
TEST_P(EveryTier, A9_AnUnboundGraphIsServedAndCanBeBoundLater) {
  Toy toy(6, with_tier(GetParam()));
  ToyGraph bound = toy.capture(1);
  ToyGraph late = toy.capture(4, false);
  std::map<std::uint64_t, Layers> want;
  for (const Setting& setting : kSequence) {
    (void)toy.monitor->enable(setting.selection, Apply::now);
    want[toy.decode(bound)] = setting.layers;
    want[toy.decode(late)] = setting.layers;
  }
  late.bound = toy.lane->bind(late.graph, late.exec);
  for (const Setting& setting : kSequence) {
    (void)toy.monitor->enable(setting.selection, Apply::now);
    for (int i = 0; i < 5; ++i) want[toy.decode(late)] = setting.layers;
  }
  toy.flush();
  for (const auto& [step, layers] : want) EXPECT_EQ(toy.book->layers[step], layers) << step;
  EXPECT_TRUE(toy.book->gaps.empty());
}

// keep graph: a template that its owner freed. Said so, and still captured.
TEST_P(EveryTier, A16_AFreedTemplateIsReportedAndServedSoftly) {
  Toy toy(6, with_tier(GetParam()));
  ToyGraph graph = toy.capture(2, false);
  graph.bound = toy.lane->bind(Graph{}, graph.exec, {"freed", {}, 0, false});
  std::map<std::uint64_t, Layers> want;
  for (const Setting& setting : kSequence) {
    (void)toy.monitor->enable(setting.selection);
    for (int i = 0; i < 5; ++i) want[toy.decode(graph)] = setting.layers;
  }
  toy.flush();
  for (const auto& [step, layers] : want) EXPECT_EQ(toy.book->layers[step], layers) << step;
  EXPECT_TRUE(toy.book->gaps.empty());
}

// non-uniform graphs: refused there, fine here (piecewise models).
TEST_P(EveryTier, A10_GraphsWithDifferentSubsets) {
  Toy toy(6, with_tier(GetParam()));
  const Layers low{0, 1, 2}, high{3, 4, 5};
  ToyGraph first = toy.capture(2, true, &low), second = toy.capture(2, true, &high);
  for (const Setting& setting : kSequence) {
    (void)toy.monitor->enable(setting.selection);
    for (int i = 0; i < 5; ++i) {
      const RowSpan span{toy.request, toy.token, 1, RowFlags::none};
      StepShape shape;
      shape.kind = StepKind::graph;
      shape.tokens = {&span, 1};
      Step step = toy.lane->begin(shape, toy.stream);
      for (ToyGraph* graph : {&first, &second}) {
        const auto token = toy.token;
        const auto number = toy.steps;
        std::byte* input = graph->input;
        ASSERT_TRUE(toy.device
                        ->compute(toy.stream,
                                  [=] {
                                    std::memcpy(input, &token, 8);
                                    std::memcpy(input + 8, &number, 8);
                                    const std::uint32_t rows = 1;
                                    std::memcpy(input + 16, &rows, 4);
                                  })
                        .ok());
        ASSERT_TRUE(step.launch(*graph->bound).ok());
      }
      step.end();
      toy.flush();
      EXPECT_EQ(toy.book->layers[toy.steps], setting.layers);
      ++toy.token;
      ++toy.steps;
    }
  }
  EXPECT_TRUE(toy.book->gaps.empty());
}

// lazy fail path: an injected error while switching. There the worker had to die.
TEST(OriginalGates, A7_AnErrorWhileSwitchingCostsNoRightRecord) {
  Toy toy(6, with_tier(GateTier::node));
  ToyGraph graph = toy.capture(2);
  (void)toy.monitor->enable("resid_pre:0");
  toy.decode(graph);
  toy.device->faults().fail_next(Call::set_enabled, 3, FaultMode::before);
  const Status status = toy.monitor->enable("resid_pre:3-5", Apply::now);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cuda"), std::string::npos) << status.message();
  EXPECT_EQ(toy.monitor->stats().graphs_stale, 1u);
  const auto step = toy.decode(graph);  // tried again before this launch
  toy.flush();
  EXPECT_EQ(toy.book->layers[step], (Layers{3, 4, 5}));
  EXPECT_EQ(toy.monitor->stats().graphs_stale, 0u);

  toy.device->faults().fail_next(Call::set_enabled, 1000, FaultMode::before);
  (void)toy.monitor->enable("resid_pre:1");
  const auto failed = toy.decode(graph);
  toy.flush();
  EXPECT_TRUE(
      toy.book->layers[failed].empty());  // its node could not be enabled: missing, not wrong
  EXPECT_EQ(toy.book->gaps[failed], Layers{1});
  toy.device->faults().clear();
  const auto after = toy.decode(graph);
  toy.flush();
  EXPECT_EQ(toy.book->layers[after], Layers{1});
}

// negative desync: there, reversed metadata really corrupts. Here two nodes whose ids are swapped
// are found at binding, and whatever they write is a gap.
TEST(OriginalGates, A5_SwappedIdsNeverMislabel) {
  Toy toy(6, with_tier(GateTier::node));
  ToyGraph graph = toy.capture(2, false);
  const auto nodes = toy.producers(graph);
  const auto info = [&](std::size_t i) {
    return toy.device->inspect(graph.graph, nodes[i]).value();
  };
  ProducerCall a, b;
  a.id = info(1).id;
  b.id = info(4).id;
  std::swap(a.id, b.id);
  std::byte* data = toy.device->allocate(1024).value();
  for (ProducerCall* call : {&a, &b}) {
    call->header = const_cast<wire::StepHeader*>(info(1).header);
    call->source.data = data;
    call->source.rows = 2;
    call->source.part_bytes = toy::kWidth * sizeof(float);
    call->source.row_stride = toy::kWidth * sizeof(float);
  }
  a.id.slot = 1;  // each writes where the other hook's rows are planned
  b.id.slot = 4;
  for (const Graph target : {graph.graph}) {
    ASSERT_TRUE(toy.device->rewrite_producer(target, nodes[1], a).ok());
    ASSERT_TRUE(toy.device->rewrite_producer(target, nodes[4], b).ok());
  }
  ASSERT_TRUE(toy.device->rewrite_producer(graph.exec, nodes[1], a).ok());
  ASSERT_TRUE(toy.device->rewrite_producer(graph.exec, nodes[4], b).ok());
  graph.bound = toy.lane->bind(graph.graph, graph.exec);
  EXPECT_EQ(toy.monitor->stats().unmanaged.size(), 2u);
  const auto step = toy.decode(graph);
  toy.flush();
  EXPECT_EQ(toy.book->layers[step], (Layers{0, 2, 3, 5}));
  EXPECT_EQ(toy.book->gaps[step], (Layers{1, 4}));
}

// reconfigure cache: an unchanged registry is not looked at again.
TEST(OriginalGates, A15_SwitchingDoesNotGrowWithTheNumberOfGraphs) {
  Toy toy(6, with_tier(GateTier::node));
  std::vector<ToyGraph> graphs;
  for (int i = 0; i < 16; ++i) graphs.push_back(toy.capture(1));
  const auto version = toy.monitor->stats().registry_version;
  const auto before = toy.device->calls();
  for (const Setting& setting : kSequence) (void)toy.monitor->enable(setting.selection);
  EXPECT_EQ(toy.device->calls(), before);
  EXPECT_EQ(toy.monitor->stats().registry_version, version);
}

// node toggle, C++: 50 random flips with six launches in flight; nothing fires wrongly.
TEST_P(EveryTier, A4_FiftyRandomFlipsInFlight) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Toy toy(12, with_tier(GetParam()), seed);
    ToyGraph graph = toy.capture(2);
    Random random(seed);
    std::map<std::uint64_t, Layers> want;
    for (int flip = 0; flip < 50; ++flip) {
      std::vector<HookId> ids;
      for (HookId id = 0; id < 12; ++id) {
        if (random.chance(0.5)) ids.push_back(id);
      }
      (void)toy.monitor->enable(HookSet::of(12, ids),
                                random.chance(0.5) ? Apply::now : Apply::at_next_launch);
      want[toy.decode(graph, 2)] = Layers(ids.begin(), ids.end());
    }
    toy.flush();
    for (const auto& [step, layers] : want) {
      EXPECT_EQ(toy.book->layers[step], layers) << "seed " << seed << " step " << step;
    }
    EXPECT_TRUE(toy.book->gaps.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace graphtap
