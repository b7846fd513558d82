// Graphs of every kind that engines capture: programmatic edges, side streams, foreign nodes,
// children, allocations.
#include <thread>

#include "device/cuda/cuda_device.hpp"
#include "device/edges.hpp"
#include "gpu/support/marked_model.cuh"

namespace graphtap::gpu {
namespace {

MonitorOptions specialised(GateTier tier = GateTier::specialised) {
  MonitorOptions options;
  options.tier = tier;
  options.settle_launches = 2;
  options.ring_bytes = 16 << 20;
  return options;
}

// Through sets long enough for each to be specialised.
void walk_sets(MarkedModel& model, ModelGraph& graph) {
  const std::size_t hooks = model.shape.hooks;
  const std::vector<HookSet> sets{HookSet::all(hooks), HookSet::none(hooks), set_of(hooks, {1}),
                                  HookSet::all(hooks), set_of(hooks, {0, 2})};
  for (const HookSet& set : sets) {
    ASSERT_TRUE(model.monitor->enable(set).ok());
    for (int i = 0; i < 20; ++i) {
      model.step(graph, model.streams[0]);
      if (i == 10)
        std::this_thread::sleep_for(
            std::chrono::milliseconds(5));  // the helper thread builds meanwhile
    }
  }
}

std::vector<GraphEdge> edges_of(cudaGraph_t graph) {
  std::size_t count = 0;
  GT_CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  if (count > 0) GT_CUDA(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count));
  std::vector<GraphEdge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    edges.push_back({Node{bits(from[i])}, Node{bits(to[i])},
                     data[i].type == cudaGraphDependencyTypeProgrammatic});
  }
  return edges;
}

std::vector<Node> producers_of(Device& device, cudaGraph_t graph) {
  std::size_t count = 0;
  GT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  GT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<Node> found;
  for (cudaGraphNode_t node : nodes) {
    const auto info = device.inspect(Graph{bits(graph)}, Node{bits(node)});
    EXPECT_TRUE(info.ok()) << info.status().message();
    if (info.ok() && info.value().is_producer) found.push_back(Node{bits(node)});
  }
  return found;
}

class Pdl : public testing::TestWithParam<GateTier> {};

TEST_P(Pdl, A1_GraphsWithProgrammaticEdges) {
  MarkedModel model({.hooks = 4, .rows = 4}, specialised(GetParam()));
  std::uint64_t* wrong = nullptr;
  GT_CUDA(cudaMalloc(&wrong, 8));
  GT_CUDA(cudaMemset(wrong, 0, 8));
  ModelGraph graph = model.capture(model.all_hooks(), [&](HookId hook, cudaStream_t stream) {
    model.layer(hook, stream);
    // The next kernel of the model may start before the producer has ended.
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(128);
    config.stream = stream;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    GT_CUDA(cudaLaunchKernelEx(&config, count_wrong,
                               static_cast<const std::uint64_t*>(model.tensors[hook]),
                               model.shape.rows, static_cast<std::uint32_t>(hook),
                               static_cast<const std::uint64_t*>(model.step_number), wrong));
  });
  const std::vector<GraphEdge> edges = edges_of(graph.graph);
  EXPECT_GT(std::count_if(edges.begin(), edges.end(),
                          [](const GraphEdge& edge) { return edge.programmatic; }),
            0)
      << "the capture made no programmatic edge: the test proves nothing";
  model.bind(graph, "pdl");
  EXPECT_TRUE(model.monitor->stats().unmanaged.empty());
  walk_sets(model, graph);
  for (int i = 0; i < times(200); ++i) {  // many sets, each for one launch
    std::uint64_t random = static_cast<std::uint64_t>(i);
    ASSERT_TRUE(model.monitor->enable(model.random_set(random), Apply::now).ok());
    model.step(graph, model.streams[0]);
  }
  model.expect_all_right();
  std::uint64_t counted = 1;
  GT_CUDA(cudaMemcpy(&counted, wrong, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(counted, 0u) << "a kernel behind a producer that was taken out started too early";
  if (GetParam() == GateTier::specialised) {
    EXPECT_GT(model.monitor->stats().exec_swaps, 0u);
  }
  (void)cudaFree(wrong);
}
INSTANTIATE_TEST_SUITE_P(Tiers, Pdl,
                         testing::Values(GateTier::soft, GateTier::node, GateTier::specialised),
                         [](const auto& test) {
                           return test.param == GateTier::soft   ? "Soft"
                                  : test.param == GateTier::node ? "Node"
                                                                 : "Specialised";
                         });

TEST(Graphs, SideStreamProducersThatTheGraphJoins) {
  MarkedModel model({.hooks = 4, .rows = 4}, specialised());
  cudaStream_t side{};
  GT_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaEvent_t fork{}, join{};
  GT_CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  GT_CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  ModelGraph graph = model.capture(model.all_hooks(), [&](HookId hook, cudaStream_t stream) {
    fill<<<1, 128, 0, stream>>>(model.tensors[hook], model.shape.rows, hook, model.step_number, 0);
    GT_CUDA(cudaGetLastError());
    GT_CUDA(cudaEventRecord(fork, stream));
    GT_CUDA(cudaStreamWaitEvent(side, fork, 0));
    Source source;
    source.data = model.tensors[hook];
    source.rows = model.shape.rows;
    source.part_bytes = source.row_stride = kWords * 8;
    model.lane->produce(hook, source, Stream{bits(side)});
    GT_CUDA(cudaEventRecord(join, side));
    if (hook + 1u == model.shape.hooks) GT_CUDA(cudaStreamWaitEvent(stream, join, 0));
  });
  model.bind(graph, "side");
  EXPECT_EQ(model.monitor->stats().nodes_bound, 4u);
  walk_sets(model, graph);
  model.expect_all_right();
  EXPECT_GT(model.monitor->stats().exec_swaps, 0u);
  (void)cudaEventDestroy(fork);
  (void)cudaEventDestroy(join);
  (void)cudaStreamDestroy(side);
}

TEST(Graphs, TakenOutNodesLeaveNoEdgeThatAPathImplies) {
  MarkedModel model({.hooks = 6, .rows = 4}, specialised(GateTier::soft));
  cudaStream_t side{};
  GT_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaEvent_t fork{}, join{};
  GT_CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  GT_CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  ModelGraph graph = model.capture(model.all_hooks(), [&](HookId hook, cudaStream_t stream) {
    GT_CUDA(cudaEventRecord(fork, stream));
    GT_CUDA(cudaStreamWaitEvent(side, fork, 0));
    model.layer(hook, side);  // a branch with a producer …
    fill<<<1, 128, 0, stream>>>(model.tensors[hook], model.shape.rows, hook, model.step_number,
                                0);  // … beside the chain
    GT_CUDA(cudaEventRecord(join, side));
    GT_CUDA(cudaStreamWaitEvent(stream, join, 0));
  });
  Device& device = *model.device;
  const Graph clone = device.clone(Graph{bits(graph.graph)}).value_or_throw();
  const auto native = reinterpret_cast<cudaGraph_t>(clone);
  std::vector<GraphEdge> want = edges_of(native);
  for (const Node node : producers_of(device, native)) {
    want = without_node(want, node, [](Node) { return true; });
    ASSERT_TRUE(device.remove_node(clone, node).ok());
  }
  std::vector<GraphEdge> have = edges_of(native);
  const auto order = [](const GraphEdge& a, const GraphEdge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  };
  std::sort(want.begin(), want.end(), order);
  std::sort(have.begin(), have.end(), order);
  EXPECT_EQ(have, want);
  EXPECT_TRUE(producers_of(device, native).empty());
  for (const GraphEdge& edge : have) {
    std::vector<GraphEdge> others;
    for (const GraphEdge& other : have) {
      if (!(other == edge)) others.push_back(other);
    }
    EXPECT_FALSE(reaches(others, edge.from, edge.to)) << "an edge that a path implies";
  }
  device.destroy_graph(clone);
  (void)cudaEventDestroy(fork);
  (void)cudaEventDestroy(join);
  (void)cudaStreamDestroy(side);
}

// engine-traps.md: specialise graphs with such nodes only with a test for each type.
class Foreign : public testing::TestWithParam<const char*> {};

TEST_P(Foreign, NodesOfOtherTypesAreSpecialisedToo) {
  const std::string kind = GetParam();
  MarkedModel model({.hooks = 3, .rows = 4}, specialised());
  cudaEvent_t event{};
  GT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::uint64_t* scratch = nullptr;
  GT_CUDA(cudaMalloc(&scratch, 64));
  static std::atomic<int> called;
  called = 0;
  ModelGraph graph = model.capture(model.all_hooks(), [&](HookId hook, cudaStream_t stream) {
    model.layer(hook, stream);
    if (kind == "Host") {
      GT_CUDA(cudaLaunchHostFunc(
          stream, [](void*) { ++called; }, nullptr));
    } else if (kind == "Memset") {
      GT_CUDA(cudaMemsetAsync(scratch, 1, 64, stream));
    } else if (kind == "Memcpy") {
      GT_CUDA(cudaMemcpyAsync(scratch, model.tensors[hook], 64, cudaMemcpyDeviceToDevice, stream));
    } else if (kind == "EventRecord") {
      GT_CUDA(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    } else {
      GT_CUDA(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
    }
  });
  model.bind(graph, kind);
  walk_sets(model, graph);
  model.expect_all_right();
  EXPECT_GT(model.monitor->stats().exec_swaps, 0u) << "it was not specialised";
  if (kind == "Host") {
    EXPECT_EQ(called, 300);  // 5 sets × 20 launches × 3 hooks: clones keep their host nodes
  }
  (void)cudaFree(scratch);
  (void)cudaEventDestroy(event);
}
INSTANTIATE_TEST_SUITE_P(Types, Foreign,
                         testing::Values("Host", "Memset", "Memcpy", "EventRecord", "EventWait"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Graphs, OneThatAllocatesIsServedByTheSoftGateAndSaysSo) {
  MarkedModel model({.hooks = 3, .rows = 4}, specialised());
  ModelGraph graph = model.capture(model.all_hooks(), [&](HookId hook, cudaStream_t stream) {
    void* memory = nullptr;
    GT_CUDA(cudaMallocAsync(&memory, 256, stream));
    model.layer(hook, stream);
    GT_CUDA(cudaFreeAsync(memory, stream));
  });
  model.bind(graph, "allocates");
  walk_sets(model, graph);
  model.expect_all_right();
  const Stats stats = model.monitor->stats();
  EXPECT_EQ(stats.specialised_execs, 0u);
  ASSERT_EQ(stats.unspecialised.size(), 1u);
  EXPECT_EQ(stats.unspecialised[0].graph, "allocates");
  EXPECT_NE(stats.unspecialised[0].reason.find("allocates"), std::string::npos)
      << stats.unspecialised[0].reason;
}

TEST(Graphs, A8_ProducersInAChildGraphAreServedByTheSoftGate) {
  MarkedModel model({.hooks = 3, .rows = 4}, specialised());
  ModelGraph inner = model.capture(model.all_hooks());
  ModelGraph outer;
  outer.hooks = inner.hooks;
  GT_CUDA(cudaGraphCreate(&outer.graph, 0));
  cudaGraphNode_t child{};
  GT_CUDA(cudaGraphAddChildGraphNode(&child, outer.graph, nullptr, 0, inner.graph));
  model.bind(outer, "outer");
  walk_sets(model, outer);
  model.expect_all_right();
  EXPECT_EQ(model.monitor->stats().nodes_bound, 0u);
}

TEST(Graphs, AnExecThatItsOwnerReplacedIsNoticed) {
  MarkedModel model({.hooks = 4, .rows = 4}, specialised(GateTier::node));
  ModelGraph graph = model.capture(model.all_hooks());
  BindOptions options;
  options.current_exec = [&graph] { return Exec{bits(graph.exec)}; };
  model.bind(graph, "replaced", options);
  std::uint64_t random = 4;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(model.monitor->enable(model.random_set(random), Apply::now).ok());
    model.step(graph, model.streams[0]);
    if (i % 10 == 9) {
      GT_CUDA(cudaStreamSynchronize(model.streams[0]));
      GT_CUDA(cudaGraphExecDestroy(graph.exec));
      GT_CUDA(cudaGraphInstantiate(&graph.exec, graph.graph, 0));
    }
  }
  model.expect_all_right();
}

// A9, and nobody's capture is broken by our threads: they query events, allocate and instantiate
// all the while.
TEST(Graphs, A9_CaptureWhileOthersReplay) {
  MarkedModel model({.hooks = 8, .rows = 4, .spin_ns = 1000}, specialised());
  ModelGraph first = model.capture(model.all_hooks());
  model.bind(first, "first");
  MarkedModel other({.hooks = 8, .rows = 4, .spin_ns = 1000}, specialised());
  ModelGraph its = other.capture(other.all_hooks());
  other.bind(its, "other");
  std::atomic<bool> stop{false};
  std::thread replaying([&] {
    std::uint64_t random = 1;
    while (!stop) {
      ASSERT_TRUE(other.monitor->enable(other.random_set(random)).ok());
      for (int i = 0; i < 8; ++i) other.step(its, other.streams[0]);
    }
  });
  std::vector<ModelGraph> late;
  for (int i = 0; i < 30; ++i) {
    late.push_back(model.capture(model.all_hooks(), {}, cudaStreamCaptureModeGlobal));
    model.bind(late.back(), "late");
    model.step(first, model.streams[0]);
    model.step(late.back(), model.streams[0]);
  }
  stop = true;
  replaying.join();
  model.expect_all_right();
  other.expect_all_right();
}

TEST(Graphs, B5_AStepWhileItsStreamCapturesDeliversNothing) {
  MarkedModel model({.hooks = 2, .rows = 4}, specialised());
  ModelGraph graph = model.capture(model.all_hooks());
  model.bind(graph, "decode");
  const std::vector<RowSpan> spans{{model.request, 4, 4}};
  cudaStream_t stream = model.streams[0];
  GT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = spans;
  {
    Step step = model.lane->begin(shape, Stream{bits(stream)});
    model.layer(0, stream);
    step.end();
  }
  cudaGraph_t captured{};
  GT_CUDA(cudaStreamEndCapture(stream, &captured));
  GT_CUDA(cudaGraphDestroy(captured));
  for (int i = 0; i < 3; ++i) model.step(graph, stream);
  model.expect_all_right();
  EXPECT_EQ(model.sink->gaps[GapReason::capture], 2u);
}

}  // namespace
}  // namespace graphtap::gpu
