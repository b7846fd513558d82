// What device/device.hpp promises, on whichever device this is linked with.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "support/engine.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::HeaderImage;
using test::must;

class Contract : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = testing::make_engine();
    main_ = must(device().create_stream());
    side_ = must(device().create_stream());
    done_ = must(device().create_event());
    pinned_ = must(device().allocate_pinned(4096));
    header_ = reinterpret_cast<wire::StepHeader*>(must(device().allocate(4096)));
    frame_ = must(device().allocate(4096));
    source_ = must(engine_->tensor(64));
  }
  void TearDown() override {
    engine_->run_until_idle();
    EXPECT_EQ(engine_->violations(), std::vector<std::string>{});
  }
  Device& device() { return *engine_->device(); }
  void finish(Stream stream) {
    must(device().record(done_, stream));
    must(device().synchronize(done_));
  }
  void join(Stream from, Stream to) {
    const Event event = must(device().create_event());
    must(device().record(event, from));
    must(device().wait(to, event));
    device().destroy_event(event);
  }
  Node kernel(Stream stream) {
    must(engine_->compute(stream, [this] { ++kernels_; }));
    return must(device().captured_tail(stream));
  }
  ProducerCall producer(std::uint16_t hook) {
    ProducerCall call;
    call.id = {hook, 1, hook};
    call.header = header_;
    call.source.data = source_;
    call.source.rows = 1;
    call.source.part_bytes = 16;
    call.source.row_stride = 16;
    return call;
  }
  // kernel, producer 0, kernel, producer 1, …, kernel
  Graph chain(std::uint16_t producers) {
    must(engine_->begin_capture(main_));
    (void)kernel(main_);
    for (std::uint16_t hook = 0; hook < producers; ++hook) {
      must(device().produce(producer(hook), main_));
      nodes_.push_back(must(device().captured_tail(main_)));
      (void)kernel(main_);
    }
    return must(engine_->end_capture(main_));
  }
  // Turns the header ON, with `slots` records of one row of 16 bytes.
  void switch_on(std::uint32_t slots, std::uint64_t ticket = 5) {
    HeaderImage image(slots, 0);
    image.head().ticket = ticket;
    image.head().frame = test::address(frame_);
    image.head().magic = wire::kMagic;
    for (std::uint32_t i = 0; i < slots; ++i) {
      image.slot(i) = {2 + 4 * i, 1, wire::kAllRows, 1};
    }
    finish(main_);  // whoever reads the pinned memory has done so
    std::memcpy(pinned_, image.data(), image.size());
    must(device().zero(frame_, wire::census_bytes(slots), main_));
    must(device().upload(reinterpret_cast<std::byte*>(header_), pinned_, image.size(), main_));
    finish(main_);
  }
  template <class T>
  T read(const void* from) {
    must(device().download(pinned_, static_cast<const std::byte*>(from), sizeof(T), main_));
    finish(main_);
    T value;
    std::memcpy(&value, pinned_, sizeof(value));
    return value;
  }
  std::uint32_t fired(std::uint32_t slot) {
    return read<std::uint32_t>(frame_ + slot * sizeof(std::uint32_t));
  }

  std::unique_ptr<testing::Engine> engine_;
  Stream main_{};
  Stream side_{};
  Event done_{};
  std::byte* pinned_ = nullptr;
  wire::StepHeader* header_ = nullptr;
  std::byte* frame_ = nullptr;
  std::byte* source_ = nullptr;
  std::vector<Node> nodes_;
  std::atomic<int> kernels_{0};
};

TEST_F(Contract, B3_MemoryComesZeroedAndAligned) {
  for (const std::size_t bytes : {1u, 100u, 4096u}) {
    std::byte* const memory = must(device().allocate(bytes));
    EXPECT_EQ(test::address(memory) % 256, 0u);
    must(device().download(pinned_, memory, bytes, main_));
    finish(main_);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(pinned_[i], std::byte{0}) << i;
    device().free(memory);
  }
}

TEST_F(Contract, I5_AStreamRunsInOrderAndEventsOrderStreams) {
  std::mutex mutex;
  std::vector<int> seen;
  for (int i = 0; i < 200; ++i) {
    const Stream stream = i % 3 == 0 ? side_ : main_;
    join(stream == side_ ? main_ : side_, stream);
    must(engine_->compute(stream, [&, i] {
      const std::lock_guard lock(mutex);
      seen.push_back(i);
    }));
  }
  finish(main_);
  finish(side_);
  ASSERT_EQ(seen.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(must(device().query(done_)));
}

TEST_F(Contract, I5_AnEventNeverRecordedIsComplete) {
  const Event event = must(device().create_event());
  EXPECT_TRUE(must(device().query(event)));
  must(device().synchronize(event));
  must(device().wait(main_, event));
  device().destroy_event(event);
}

TEST_F(Contract, B6_NothingRunsWhileCapturingAndTheGraphIsTheCapturesOwn) {
  must(engine_->begin_capture(main_));
  const CaptureState state = must(device().capture_state(main_));
  EXPECT_TRUE(state.capturing);
  EXPECT_FALSE(must(device().capture_state(side_)).capturing);
  EXPECT_EQ(device().captured_tail(main_).status().code(), Code::unsupported) << "no node yet";
  const Node first = kernel(main_);
  const Node second = kernel(main_);
  EXPECT_NE(first, second);
  const Graph graph = must(engine_->end_capture(main_));
  EXPECT_EQ(graph, state.graph);
  EXPECT_FALSE(must(device().capture_state(main_)).capturing);
  EXPECT_EQ(engine_->nodes(graph).size(), 2u);
  engine_->run_until_idle();
  EXPECT_EQ(kernels_, 0);
  must(engine_->begin_capture(main_));
  EXPECT_NE(must(device().capture_state(main_)).id, state.id);
  (void)kernel(main_);
  (void)must(engine_->end_capture(main_));
}

TEST_F(Contract, A8_ForksJoinByEventsAndSeveralTailsHaveNoNode) {
  must(engine_->begin_capture(main_));
  (void)kernel(main_);
  join(main_, side_);
  EXPECT_EQ(must(device().capture_state(side_)).id, must(device().capture_state(main_)).id);
  (void)kernel(side_);
  (void)kernel(main_);
  join(side_, main_);
  EXPECT_EQ(device().captured_tail(main_).status().code(), Code::unsupported);
  (void)kernel(main_);
  const Exec exec = must(device().instantiate(must(engine_->end_capture(main_)), 0));
  must(device().launch(exec, main_));
  finish(main_);
  EXPECT_EQ(kernels_, 4);
}

TEST_F(Contract, E_UnjoinedWorkIsAnErrorAndTheStreamLivesOn) {
  must(engine_->begin_capture(main_));
  (void)kernel(main_);
  join(main_, side_);
  (void)kernel(side_);
  const auto graph = engine_->end_capture(main_);
  EXPECT_EQ(graph.status().code(), Code::device_error);
  EXPECT_NE(graph.status().message().find("cudaErrorStreamCaptureUnjoined"), std::string::npos);
  must(engine_->compute(main_, [this] { ++kernels_; }));
  finish(main_);
  EXPECT_EQ(kernels_, 1);
}

TEST_F(Contract, A8_AProducersNodeSaysWhoItIs) {
  must(engine_->begin_capture(main_));
  const Graph graph = must(device().capture_state(main_)).graph;
  const Node plain = kernel(main_);
  must(device().produce(producer(3), main_));
  const Node node = must(device().captured_tail(main_));
  const NodeInfo info = must(device().inspect(graph, node));  // while it is being captured
  EXPECT_TRUE(info.is_producer);
  EXPECT_EQ(info.id, producer(3).id);
  EXPECT_EQ(info.header, header_);
  EXPECT_FALSE(must(device().inspect(graph, plain)).is_producer);
  ASSERT_EQ(must(engine_->end_capture(main_)), graph);
  EXPECT_EQ(engine_->producers(graph), std::vector<Node>{node});

  must(engine_->rewrite_producer(graph, node, producer(4)));
  EXPECT_EQ(must(device().inspect(graph, node)).id, producer(4).id);
  const Graph clone = must(device().clone(graph));
  EXPECT_FALSE(device().inspect(clone, node).ok()) << "a node of another graph";
}

TEST_F(Contract, B3_ALaunchFiresEveryProducerOnceAndTheFrameSaysHowOften) {
  const Exec exec = must(device().instantiate(chain(3), 0));
  EXPECT_GT(device().exec_bytes(exec), 0u);
  must(device().launch(exec, main_));
  EXPECT_EQ(fired(0), 0u) << "the header is OFF";
  switch_on(3);
  must(device().launch(exec, main_));
  must(device().launch(exec, main_));
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(fired(slot), 2u);
    const auto head = read<wire::RecordHead>(frame_ + (2 + 4 * slot) * wire::kAlign);
    EXPECT_EQ(head.ticket, 5u);
    EXPECT_EQ(head.hook, slot);
    EXPECT_EQ(head.bytes, 16u);
  }
  must(device().close_step(header_, main_));
  EXPECT_EQ(read<wire::StepHeader>(header_).ticket, 0u);
  must(device().launch(exec, main_));
  EXPECT_EQ(fired(1), 2u) << "OFF again";
  EXPECT_EQ(kernels_, 16);
}

TEST_F(Contract, A4_AToggleReachesLaterLaunchesOnly) {
  const Exec exec = must(device().instantiate(chain(2), 0));
  switch_on(2);
  for (int i = 0; i < 8; ++i) {
    must(device().set_enabled(exec, nodes_[0], i % 2 == 0));
    must(device().launch(exec, main_));
  }
  EXPECT_FALSE(must(engine_->enabled(exec, nodes_[0])));
  EXPECT_TRUE(must(engine_->enabled(exec, nodes_[1])));
  EXPECT_EQ(fired(0), 4u);
  EXPECT_EQ(fired(1), 8u);
}

TEST_F(Contract, A1_ASpecialisedExecHasTheModelAndNotItsProducers) {
  const Graph graph = chain(3);
  must(device().cloneable(graph));
  const Graph clone = must(device().clone(graph));
  for (const int gone : {0, 2}) {
    const Node original = nodes_[static_cast<std::size_t>(gone)];
    const Node node = must(device().find_in_clone(clone, original));
    must(device().remove_node(clone, node));
    EXPECT_FALSE(device().find_in_clone(clone, original).ok());
  }
  const Node kept = must(device().find_in_clone(clone, nodes_[1]));
  EXPECT_EQ(must(device().inspect(clone, kept)).id, producer(1).id);
  const Exec exec = must(device().instantiate(clone, 0));
  EXPECT_EQ(engine_->node_count(exec), 5u);
  EXPECT_EQ(engine_->nodes(graph).size(), 7u);
  device().destroy_graph(clone);
  switch_on(3);
  must(device().launch(exec, main_));
  EXPECT_EQ(fired(0), 0u);
  EXPECT_EQ(fired(1), 1u);
  EXPECT_EQ(fired(2), 0u);
  EXPECT_EQ(kernels_, 4);
  device().destroy_graph(graph);
  must(device().launch(exec, main_));  // an exec needs neither
  EXPECT_EQ(fired(1), 2u);
}

TEST_F(Contract, A16_AnExecMayBeDestroyedWhileItRuns) {
  const Graph graph = chain(1);
  for (int i = 0; i < 20; ++i) {
    const Exec exec = must(device().instantiate(graph, 0));
    must(device().launch(exec, main_));
    must(device().launch(exec, main_));
    device().destroy_exec(exec);
  }
  finish(main_);
  EXPECT_EQ(kernels_, 80);
}

TEST_F(Contract, B5_AnUploadCapturedIsOfTheCaptureOrOfTheReplay) {
  std::byte* const memory = must(device().allocate(16));
  std::byte* const baked = must(device().allocate_pinned(16));
  std::memset(baked, 1, 16);
  must(engine_->begin_capture(main_));
  must(device().upload(memory, baked, 16, main_));
  const Exec exec = must(device().instantiate(must(engine_->end_capture(main_)), 0));
  for (const std::uint8_t value : {std::uint8_t{2}, std::uint8_t{3}}) {
    std::memset(baked, value, 16);
    must(device().launch(exec, main_));
    const auto held = read<std::array<std::uint8_t, 16>>(memory)[5];
    EXPECT_TRUE(held == 1 || held == value) << int{held};
  }
}

TEST_F(Contract, A17_TimeMoves) {
  const std::uint64_t start = device().now_ns();
  for (int i = 0; i < 1000 && device().now_ns() <= start; ++i) device().idle();
  EXPECT_GT(device().now_ns(), start);
  EXPECT_FALSE(device().describe().empty());
}

}  // namespace
}  // namespace graphtap
