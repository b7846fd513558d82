#include <gtest/gtest.h>

#include <atomic>

#include "device/edges.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::BothModes;
using test::Hold;
using test::must;

class Graphs : public BothModes {
 protected:
  void SetUp() override {
    stream_ = must(device().create_stream());
    end_ = must(device().create_event());
    source_ = must(device().allocate(64));
    header_ = reinterpret_cast<wire::StepHeader*>(must(device().allocate(1024)));
  }
  void finish(Stream stream) {
    must(device().record(end_, stream));
    must(device().synchronize(end_));
  }
  // kernel, producer 0, kernel, producer 1, …, kernel: in a row, counting runs of the kernels.
  Graph chain(std::uint16_t producers) {
    must(device().begin_capture(stream_));
    must(device().compute(stream_, [this] { ++kernels_; }));
    for (std::uint16_t hook = 0; hook < producers; ++hook) {
      must(device().produce(producer(hook), stream_));
      producers_.push_back(must(device().captured_tail(stream_)));
      must(device().compute(stream_, [this] { ++kernels_; }));
    }
    return must(device().end_capture(stream_));
  }
  ProducerCall producer(std::uint16_t hook) {
    ProducerCall call;
    call.id = {hook, 0, hook};
    call.header = header_;
    call.source.data = source_;
    call.source.rows = 1;
    call.source.part_bytes = 16;
    return call;
  }

  Stream stream_{};
  Event end_{};
  std::byte* source_ = nullptr;
  wire::StepHeader* header_ = nullptr;
  std::vector<Node> producers_;
  std::atomic<int> kernels_ = 0;
};

TEST_P(Graphs, A1_ALaunchRunsEveryEnabledNode) {
  const Exec exec = must(device().instantiate(chain(3), 0));
  EXPECT_EQ(device().node_count(exec), 7u);
  EXPECT_EQ(device().exec_bytes(exec), 7u * 2912u);
  must(device().launch(exec, stream_));
  finish(stream_);
  EXPECT_EQ(kernels_, 4);
  EXPECT_EQ(device().producers_run(), 3u);
  must(device().set_enabled(exec, producers_[1], false));
  EXPECT_FALSE(must(device().enabled(exec, producers_[1])));
  must(device().launch(exec, stream_));
  finish(stream_);
  EXPECT_EQ(kernels_, 8);
  EXPECT_EQ(device().producers_run(), 5u);
}

TEST_P(Graphs, A4_AToggleReachesLaterLaunchesOnly) {
  const Exec exec = must(device().instantiate(chain(1), 0));
  Hold hold(device(), GetParam(), stream_);
  for (int i = 0; i < 6; ++i) {  // six launches in flight, every other one with the producer
    must(device().set_enabled(exec, producers_[0], i % 2 == 0));
    must(device().launch(exec, stream_));
  }
  must(device().set_enabled(exec, producers_[0], false));
  hold.release();
  finish(stream_);
  EXPECT_EQ(device().producers_run(), 3u);
}

TEST_P(Graphs, A16_AToggleNamesTheNodeOfALivingTemplate) {
  const Graph graph = chain(2);
  const Graph other = must(device().clone(graph));
  const Exec exec = must(device().instantiate(graph, 0));
  const Node foreign = must(device().find_in_clone(other, producers_[0]));
  EXPECT_EQ(device().set_enabled(exec, foreign, false).code(), Code::invalid_argument);
  must(device().set_enabled(exec, producers_[0], false));
  device().destroy_graph(graph);
  const Status gone = device().set_enabled(exec, producers_[0], true);
  EXPECT_EQ(gone.code(), Code::invalid_argument);
  EXPECT_NE(gone.message().find("was destroyed"), std::string::npos);
  must(device().launch(exec, stream_));  // the exec itself lives on
  finish(stream_);
  EXPECT_EQ(device().producers_run(), 1u);
  device().destroy_exec(exec);
  EXPECT_EQ(device().set_enabled(exec, producers_[0], true).code(), Code::invalid_argument);
  EXPECT_EQ(device().launch(exec, stream_).code(), Code::invalid_argument);
}

TEST_P(Graphs, A10_OnlyKernelsCopiesAndFillsCanBeDisabled) {
  must(device().begin_capture(stream_));
  must(device().fill(stream_, source_, std::byte{1}, 4));
  (void)must(device().add_conditional_node(stream_));
  const Graph graph = must(device().end_capture(stream_));
  const auto nodes = device().nodes(graph);
  const Exec exec = must(device().instantiate(graph, 0));
  must(device().set_enabled(exec, nodes[0], false));
  EXPECT_EQ(device().set_enabled(exec, nodes[1], false).code(), Code::unsupported);
}

TEST_P(Graphs, A1_ASpecialisedExecHasNoUnusedProducers) {
  const Graph graph = chain(3);
  const Graph clone = must(device().clone(graph));
  const Node kept = must(device().find_in_clone(clone, producers_[2]));
  for (int i = 0; i < 2; ++i) {
    const Node gone = must(device().find_in_clone(clone, producers_[static_cast<std::size_t>(i)]));
    must(device().remove_node(clone, gone));
    EXPECT_EQ(
        device().find_in_clone(clone, producers_[static_cast<std::size_t>(i)]).status().code(),
        Code::invalid_argument);
    EXPECT_EQ(device().remove_node(clone, gone).code(), Code::invalid_argument);
  }
  EXPECT_EQ(device().nodes(clone).size(), 5u);
  EXPECT_EQ(device().edges(clone).size(), 4u);
  EXPECT_EQ(must(device().inspect(clone, kept)).id.hook, 2);
  EXPECT_EQ(device().nodes(graph).size(), 7u);
  const Exec exec = must(device().instantiate(clone, 0));
  device().destroy_graph(graph);
  device().destroy_graph(clone);
  must(device().launch(exec, stream_));
  finish(stream_);
  EXPECT_EQ(kernels_, 4);
  EXPECT_EQ(device().producers_run(), 1u);
}

TEST_P(Graphs, A13_OnlyProducersOfClonesAreRemoved) {
  const Graph graph = chain(1);
  EXPECT_EQ(device().remove_node(graph, producers_[0]).code(), Code::invalid_argument);
  const Graph clone = must(device().clone(graph));
  EXPECT_EQ(device().remove_node(clone, device().nodes(clone)[0]).code(), Code::invalid_argument);
  EXPECT_EQ(device().nodes(graph).size(), 3u);
}

TEST_P(Graphs, A1_ProgrammaticEdgesAreKeptByCloneAndDemotedByRemoval) {
  const Graph graph = chain(1);
  const auto nodes = device().nodes(graph);
  must(device().make_programmatic(graph, nodes[1], nodes[2]));
  const Graph first = must(device().clone(graph));
  EXPECT_TRUE(device().edges(first)[1].programmatic);
  must(device().remove_node(first, must(device().find_in_clone(first, producers_[0]))));
  ASSERT_EQ(device().edges(first).size(), 1u);
  EXPECT_TRUE(device().edges(first)[0].programmatic);  // default into the producer, early out of it

  must(device().make_programmatic(graph, nodes[0], nodes[1]));
  const Graph second = must(device().clone(graph));
  must(device().remove_node(second, must(device().find_in_clone(second, producers_[0]))));
  ASSERT_EQ(device().edges(second).size(), 1u);
  EXPECT_FALSE(device().edges(second)[0].programmatic);
  EXPECT_EQ(device().make_programmatic(graph, nodes[0], nodes[2]).code(), Code::invalid_argument);
}

TEST_P(Graphs, A1_NodesThatPinTheGraphMakeItUncloneable) {
  must(device().begin_capture(stream_));
  (void)must(device().add_alloc_node(stream_));
  const Graph allocating = must(device().end_capture(stream_));
  EXPECT_EQ(device().cloneable(allocating).code(), Code::unsupported);
  EXPECT_NE(device().cloneable(allocating).message().find("memory allocation"), std::string::npos);
  EXPECT_EQ(device().clone(allocating).status().code(), Code::unsupported);

  must(device().begin_capture(stream_));
  (void)must(device().add_child_graph(stream_, allocating));
  const Graph parent = must(device().end_capture(stream_));
  EXPECT_EQ(device().cloneable(parent).code(), Code::unsupported);

  must(device().begin_capture(stream_));
  (void)must(device().add_conditional_node(stream_));
  EXPECT_EQ(device().cloneable(must(device().capture_state(stream_)).graph).code(),
            Code::invalid_argument);
  const Graph conditional = must(device().end_capture(stream_));
  EXPECT_NE(device().cloneable(conditional).message().find("conditional"), std::string::npos);
  must(device().cloneable(chain(1)));

  const Exec only = must(device().instantiate(allocating, 0));
  EXPECT_EQ(device().instantiate(allocating, 0).status().code(), Code::unsupported);
  device().destroy_exec(only);
  EXPECT_TRUE(device().instantiate(allocating, 0).ok());
}

TEST_P(Graphs, A8_ProducersOfAChildGraphRunButAreNoNodesOfTheParent) {
  const Graph child = chain(2);
  must(device().begin_capture(stream_));
  must(device().compute(stream_, [] {}));
  const Node node = must(device().add_child_graph(stream_, child));
  const Graph parent = must(device().end_capture(stream_));
  device().destroy_graph(child);
  EXPECT_EQ(device().nodes(parent).size(), 2u);
  EXPECT_FALSE(must(device().inspect(parent, node)).is_producer);
  EXPECT_EQ(device().inspect(parent, producers_[0]).status().code(), Code::invalid_argument);
  const Exec exec = must(device().instantiate(must(device().clone(parent)), 0));
  must(device().launch(exec, stream_));
  finish(stream_);
  EXPECT_EQ(kernels_, 3);
  EXPECT_EQ(device().producers_run(), 2u);
  EXPECT_EQ(device().add_child_graph(stream_, child).status().code(), Code::invalid_argument);
}

TEST_P(Graphs, I2_AnExecNeverOverlapsItself) {
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  must(device().begin_capture(stream_));
  must(device().compute(stream_, [&] { overlaps += inside.fetch_add(1) != 0; }));
  must(device().compute(stream_, [&] { inside.fetch_sub(1); }));
  const Exec exec = must(device().instantiate(must(device().end_capture(stream_)), 0));
  const Stream others[] = {must(device().create_stream()), must(device().create_stream()),
                           Stream{0}, inline_stream()};
  for (int i = 0; i < 200; ++i) must(device().launch(exec, others[i % 4]));
  device().run_until_idle();
  EXPECT_EQ(overlaps, 0);
}

TEST_P(Graphs, A1_AnExecMayBeDestroyedInFlight) {
  const Exec exec = must(device().instantiate(chain(1), 0));
  Hold hold(device(), GetParam(), stream_);
  must(device().launch(exec, stream_));
  must(device().launch(exec, stream_));
  device().destroy_exec(exec);
  EXPECT_EQ(device().live_execs(), 0u);
  hold.release();
  finish(stream_);
  EXPECT_EQ(kernels_, 4);
}

TEST_P(Graphs, A5_ARewrittenExecRunsTheNewCallInLaterLaunches) {
  const Exec exec = must(device().instantiate(chain(1), 0));
  header_->slots = 2;
  header_->ticket = 1;
  std::byte* frame = must(device().allocate(256));
  header_->frame = test::address(frame);
  auto* slots = reinterpret_cast<wire::SlotPlan*>(header_ + 1);
  slots[0] = {2, 1, wire::kAllRows, 1};
  slots[1] = {6, 1, wire::kAllRows, 1};
  Hold hold(device(), GetParam(), stream_);
  must(device().launch(exec, stream_));
  must(device().rewrite_producer(exec, producers_[0], producer(1)));
  EXPECT_EQ(device().rewrite_producer(exec, Node{12345}, producer(1)).code(),
            Code::invalid_argument);
  must(device().launch(exec, stream_));
  hold.release();
  finish(stream_);
  EXPECT_EQ(test::head_at(frame + 32).hook, 0);
  EXPECT_EQ(test::head_at(frame + 32).ticket, 1u);
  EXPECT_EQ(test::head_at(frame + 96).hook, 1);
  EXPECT_EQ(test::head_at(frame + 96).ticket, 1u);
}

TEST_P(Graphs, E_ALaunchWhileCapturingInvalidatesTheCapture) {
  const Exec exec = must(device().instantiate(chain(0), 0));
  must(device().begin_capture(stream_));
  EXPECT_NE(device().launch(exec, stream_).message().find("cudaErrorStreamCaptureUnsupported"),
            std::string::npos);
  EXPECT_FALSE(device().end_capture(stream_).ok());
}

TEST_P(Graphs, E_GraphsThatAreGoneAreNamed) {
  const Graph graph = chain(1);
  device().destroy_graph(graph);
  device().destroy_graph(graph);
  EXPECT_EQ(device().clone(graph).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().instantiate(graph, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().cloneable(graph).code(), Code::invalid_argument);
  EXPECT_EQ(device().find_in_clone(graph, producers_[0]).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().remove_node(graph, producers_[0]).code(), Code::invalid_argument);
  EXPECT_TRUE(device().nodes(graph).empty());
  EXPECT_EQ(device().live_graphs(), 0u);
}

GRAPHTAP_IN_BOTH_MODES(Graphs);

}  // namespace
}  // namespace graphtap
