#include <gtest/gtest.h>

#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::BothModes;
using test::must;

class Capturing : public BothModes {
 protected:
  void SetUp() override {
    main_ = must(device().create_stream());
    side_ = must(device().create_stream());
    fork_ = must(device().create_event());
    join_ = must(device().create_event());
  }
  Node step(Stream stream) {
    must(device().compute(stream, [] {}));
    return must(device().captured_tail(stream));
  }
  Stream main_{};
  Stream side_{};
  Event fork_{};
  Event join_{};
};

TEST_P(Capturing, B6_NothingRunsAndTheNodesFollowEachOther) {
  int ran = 0;
  must(device().begin_capture(main_));
  const CaptureState state = must(device().capture_state(main_));
  EXPECT_TRUE(state.capturing);
  EXPECT_FALSE(must(device().capture_state(side_)).capturing);
  must(device().compute(main_, [&] { ++ran; }));
  const Node first = must(device().captured_tail(main_));
  const Node second = step(main_);
  const Graph graph = must(device().end_capture(main_));
  EXPECT_EQ(graph, state.graph);
  EXPECT_FALSE(must(device().capture_state(main_)).capturing);
  device().run_until_idle();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(device().nodes(graph), (std::vector<Node>{first, second}));
  EXPECT_EQ(device().edges(graph), (std::vector<GraphEdge>{{first, second, false}}));
}

TEST_P(Capturing, B6_AForkedStreamJoinsByEvents) {
  must(device().begin_capture(main_));
  const Node a = step(main_);
  must(device().record(fork_, main_));
  must(device().wait(side_, fork_));
  const CaptureState state = must(device().capture_state(side_));
  EXPECT_TRUE(state.capturing);
  EXPECT_EQ(state.id, must(device().capture_state(main_)).id);
  const Node b = step(side_);
  const Node c = step(main_);
  must(device().record(join_, side_));
  must(device().wait(main_, join_));
  const auto tail = device().captured_tail(main_);
  EXPECT_EQ(tail.status().code(), Code::unsupported);
  EXPECT_NE(tail.status().message().find("2 tail dependencies"), std::string::npos);
  const Node d = step(main_);
  const Graph graph = must(device().end_capture(main_));
  EXPECT_EQ(device().edges(graph),
            (std::vector<GraphEdge>{{a, b, false}, {a, c, false}, {c, d, false}, {b, d, false}}));
  EXPECT_FALSE(must(device().capture_state(side_)).capturing);
}

TEST_P(Capturing, A8_ThereIsNoTailBeforeTheFirstNode) {
  EXPECT_EQ(device().captured_tail(main_).status().code(), Code::invalid_argument);
  must(device().begin_capture(main_));
  EXPECT_EQ(device().captured_tail(main_).status().code(), Code::unsupported);
}

TEST_P(Capturing, E_UnjoinedWorkIsAnError) {
  must(device().begin_capture(main_));
  step(main_);
  must(device().record(fork_, main_));
  must(device().wait(side_, fork_));
  step(side_);
  const auto graph = device().end_capture(main_);
  EXPECT_EQ(graph.status().code(), Code::device_error);
  EXPECT_NE(graph.status().message().find("cudaErrorStreamCaptureUnjoined"), std::string::npos);
  EXPECT_FALSE(must(device().capture_state(main_)).capturing);
  EXPECT_FALSE(must(device().capture_state(side_)).capturing);
  EXPECT_EQ(device().live_graphs(), 0u);
}

TEST_P(Capturing, E_AWaitForOutsideWorkInvalidatesTheCapture) {
  must(device().record(fork_, side_));
  must(device().begin_capture(main_));
  EXPECT_NE(device().wait(main_, fork_).message().find("cudaErrorStreamCaptureIsolation"),
            std::string::npos);
  EXPECT_EQ(device().compute(main_, [] {}).code(), Code::device_error);
  EXPECT_EQ(device().capture_state(main_).status().code(), Code::device_error);
  const auto graph = device().end_capture(main_);
  EXPECT_NE(graph.status().message().find(
                "cudaErrorStreamCaptureInvalidated: cudaErrorStreamCaptureIsolation"),
            std::string::npos);
  EXPECT_EQ(device().live_graphs(), 0u);
  must(device().compute(main_, [] {}));
}

TEST_P(Capturing, E_AnEventOfACaptureCannotBeAskedAbout) {
  must(device().begin_capture(main_));
  step(main_);
  must(device().record(fork_, main_));
  EXPECT_NE(device().query(fork_).status().message().find("cudaErrorCapturedEvent"),
            std::string::npos);
  EXPECT_EQ(device().synchronize(fork_).code(), Code::device_error);
  (void)must(device().end_capture(main_));
  EXPECT_EQ(device().wait(side_, fork_).code(), Code::device_error);
  must(device().record(fork_, main_));  // a later record makes it ordinary again
  must(device().synchronize(fork_));
}

TEST_P(Capturing, E_MisuseIsNamed) {
  EXPECT_EQ(device().end_capture(main_).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().add_alloc_node(main_).status().code(), Code::invalid_argument);
  must(device().begin_capture(main_));
  EXPECT_EQ(device().begin_capture(main_).code(), Code::invalid_argument);
  step(main_);
  must(device().record(fork_, main_));
  must(device().wait(side_, fork_));
  EXPECT_NE(device().end_capture(side_).status().message().find("cudaErrorStreamCaptureUnmatched"),
            std::string::npos);
  EXPECT_TRUE(device().end_capture(main_).ok());
}

TEST_P(Capturing, E_TwoCapturesDoNotMerge) {
  must(device().begin_capture(main_));
  must(device().begin_capture(side_));
  step(main_);
  must(device().record(fork_, main_));
  EXPECT_NE(device().wait(side_, fork_).message().find("cudaErrorStreamCaptureMerge"),
            std::string::npos);
  EXPECT_FALSE(device().end_capture(side_).ok());
  EXPECT_TRUE(device().end_capture(main_).ok());
}

TEST_P(Capturing, E_ADestroyedStreamEndsItsCapture) {
  must(device().begin_capture(main_));
  step(main_);
  must(device().record(fork_, main_));
  must(device().wait(side_, fork_));
  device().destroy_stream(side_);
  EXPECT_NE(device().end_capture(main_).status().message().find("was destroyed"),
            std::string::npos);
  must(device().begin_capture(main_));
  device().destroy_stream(main_);
  EXPECT_EQ(device().live_graphs(), 0u);
}

TEST_P(Capturing, E_ADestroyedGraphEndsItsCapture) {
  must(device().begin_capture(main_));
  device().destroy_graph(must(device().capture_state(main_)).graph);
  EXPECT_EQ(device().compute(main_, [] {}).code(), Code::device_error);
  EXPECT_FALSE(device().end_capture(main_).ok());
}

TEST_P(Capturing, A8_ProducersCanBeVerified) {
  std::byte* header = must(device().allocate(256));
  std::byte* source = must(device().allocate(64));
  ProducerCall call;
  call.id = {12, 1, 3};
  call.header = reinterpret_cast<wire::StepHeader*>(header);
  call.source.data = source;
  call.source.rows = 1;
  call.source.part_bytes = 16;
  must(device().begin_capture(main_));
  const Graph graph = must(device().capture_state(main_)).graph;
  const Node plain = step(main_);
  must(device().produce(call, main_));
  const Node node = must(device().captured_tail(main_));
  const NodeInfo info = must(device().inspect(graph, node));  // while it is being captured
  EXPECT_TRUE(info.is_producer);
  EXPECT_EQ(info.id, call.id);
  EXPECT_EQ(info.header, call.header);
  EXPECT_FALSE(must(device().inspect(graph, plain)).is_producer);
  (void)must(device().end_capture(main_));

  call.id.hook = 13;
  must(device().rewrite_producer(graph, node, call));
  EXPECT_EQ(must(device().inspect(graph, node)).id.hook, 13);
  EXPECT_EQ(device().rewrite_producer(graph, plain, call).code(), Code::invalid_argument);
  EXPECT_EQ(device().inspect(graph, Node{999}).status().code(), Code::invalid_argument);
  device().destroy_graph(graph);
  EXPECT_EQ(device().inspect(graph, node).status().code(), Code::invalid_argument);
}

TEST_P(Capturing, B5_AnUploadCapturedReplaysWhatThePinnedMemoryHoldsThen) {
  std::byte* memory = must(device().allocate(16));
  std::byte* pinned = must(device().allocate_pinned(16));
  std::memset(pinned, 1, 16);
  must(device().begin_capture(main_));
  must(device().upload(memory, pinned, 16, main_));
  const Graph graph = must(device().end_capture(main_));
  EXPECT_EQ(must(device().kind(graph, device().nodes(graph).at(0))), NodeKind::copy);
  const Exec exec = must(device().instantiate(graph, 0));
  std::memset(pinned, 2, 16);
  must(device().launch(exec, inline_stream()));
  EXPECT_EQ(memory[5], std::byte{2});
  std::memset(pinned, 3, 16);
  must(device().launch(exec, inline_stream()));
  EXPECT_EQ(memory[5], std::byte{3});
}

TEST_P(Capturing, B6_EveryKindOfWorkCanBeCaptured) {
  std::byte* memory = must(device().allocate(256));
  std::byte* pinned = must(device().allocate_pinned(256));
  must(device().begin_capture(inline_stream()));
  must(device().fill(inline_stream(), memory, std::byte{9}, 8));
  must(device().copy(inline_stream(), memory + 8, memory, 8));
  must(device().download(pinned, memory, 16, inline_stream()));
  must(device().close_step(reinterpret_cast<wire::StepHeader*>(memory + 128), inline_stream()));
  (void)must(device().add_alloc_node(inline_stream()));
  (void)must(device().add_conditional_node(inline_stream()));
  const Graph graph = must(device().end_capture(inline_stream()));
  std::vector<NodeKind> kinds;
  for (const Node node : device().nodes(graph)) kinds.push_back(must(device().kind(graph, node)));
  EXPECT_EQ(kinds, (std::vector<NodeKind>{NodeKind::fill, NodeKind::copy, NodeKind::copy,
                                          NodeKind::close_step, NodeKind::allocation,
                                          NodeKind::conditional}));
  must(device().launch(must(device().instantiate(graph, 0)), inline_stream()));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(pinned[i], std::byte{9}) << i;
  EXPECT_EQ(device().containment_violations(), 0u);
}

GRAPHTAP_IN_BOTH_MODES(Capturing);

}  // namespace
}  // namespace graphtap
