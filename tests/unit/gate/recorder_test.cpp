#include <gtest/gtest.h>

#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

TEST(CaptureRecorder, A8_VerifiedProducersAreManagedInTheOrderOfTheirCalls) {
  Rig rig;
  const Captured captured = rig.capture({2, 0, 3});
  const std::vector<RecordedProducer> producers = rig.recorder.take(captured.graph);
  ASSERT_EQ(producers.size(), 3u);
  const std::vector<Node> nodes = rig.producers(captured.graph);
  for (std::size_t i = 0; i < producers.size(); ++i) {
    EXPECT_TRUE(producers[i].managed) << producers[i].reason;
    EXPECT_TRUE(producers[i].reason.empty());
    EXPECT_EQ(producers[i].id.hook, captured.hooks[i]);
    EXPECT_EQ(producers[i].node, nodes[i]);
    EXPECT_EQ(producers[i].header, rig.header);
  }
  EXPECT_TRUE(rig.recorder.take(captured.graph).empty()) << "handed over once";
}

TEST(CaptureRecorder, A8_OrdinalsCountPerCaptureAndHook) {
  CaptureRecorder recorder;
  const CaptureState first{true, 7, Graph{1}};
  const CaptureState second{true, 8, Graph{2}};
  EXPECT_EQ(recorder.next_ordinal(first, 4), 0);
  EXPECT_EQ(recorder.next_ordinal(first, 4), 1);
  EXPECT_EQ(recorder.next_ordinal(first, 5), 0);
  EXPECT_EQ(recorder.next_ordinal(second, 4), 0);
  EXPECT_EQ(recorder.next_ordinal(first, 4), 2);
  for (unsigned i = 3; i < 65535; ++i) EXPECT_EQ(recorder.next_ordinal(first, 4), i);
  EXPECT_EQ(recorder.next_ordinal(first, 4), 65535);
  EXPECT_EQ(recorder.next_ordinal(first, 4), 65535) << "it does not wrap round to ordinal 0";
}

TEST(CaptureRecorder, A8_ANodeThatIsNoProducerIsUnmanaged) {
  Rig rig;
  ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
  ASSERT_TRUE(rig.engine->compute(rig.stream, [] {}).ok());
  const CaptureState state = rig.device->capture_state(rig.stream).value();
  rig.recorder.record(*rig.device, state, rig.stream, {1, 0, 1}, rig.header);
  const Graph graph = rig.engine->end_capture(rig.stream).value();
  const auto producers = rig.recorder.take(graph);
  ASSERT_EQ(producers.size(), 1u);
  EXPECT_FALSE(producers[0].managed);
  EXPECT_EQ(producers[0].reason, "its node is not a producer");
}

TEST(CaptureRecorder, A8_AnotherIdOrHeaderIsUnmanaged) {
  Rig rig;
  wire::StepHeader other{};
  ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
  const CaptureState state = rig.device->capture_state(rig.stream).value();
  ASSERT_TRUE(rig.device->produce(rig.call({1, 0, 1}), rig.stream).ok());
  rig.recorder.record(*rig.device, state, rig.stream, {1, 1, 1}, rig.header);
  rig.recorder.record(*rig.device, state, rig.stream, {1, 0, 2}, rig.header);
  rig.recorder.record(*rig.device, state, rig.stream, {1, 0, 1}, &other);
  rig.recorder.record(*rig.device, state, rig.stream, {1, 0, 1}, rig.header);
  const auto producers = rig.recorder.take(rig.engine->end_capture(rig.stream).value());
  ASSERT_EQ(producers.size(), 4u);
  EXPECT_NE(producers[0].reason.find("recorded as hook 1 ordinal 1 slot 1"), std::string::npos);
  EXPECT_NE(producers[1].reason.find("hook 1 ordinal 0 slot 1, recorded"), std::string::npos);
  EXPECT_EQ(producers[2].reason, "its node reads another step header");
  EXPECT_FALSE(producers[0].managed || producers[1].managed || producers[2].managed);
  EXPECT_TRUE(producers[3].managed);
}

TEST(CaptureRecorder, A8_SeveralTailsAreUnmanagedWithTheDevicesReason) {
  Rig rig;
  const Stream side = rig.device->create_stream().value();
  const Event fork = rig.device->create_event().value();
  const Event join = rig.device->create_event().value();
  ASSERT_TRUE(rig.engine->begin_capture(rig.stream).ok());
  ASSERT_TRUE(rig.device->record(fork, rig.stream).ok());
  ASSERT_TRUE(rig.device->wait(side, fork).ok());
  ASSERT_TRUE(rig.engine->compute(side, [] {}).ok());
  ASSERT_TRUE(rig.engine->compute(rig.stream, [] {}).ok());
  ASSERT_TRUE(rig.device->record(join, side).ok());
  ASSERT_TRUE(rig.device->wait(rig.stream, join).ok());
  const CaptureState state = rig.device->capture_state(rig.stream).value();
  rig.recorder.record(*rig.device, state, rig.stream, {1, 0, 1}, rig.header);
  const auto producers = rig.recorder.take(rig.engine->end_capture(rig.stream).value());
  ASSERT_EQ(producers.size(), 1u);
  EXPECT_FALSE(producers[0].managed);
  EXPECT_NE(producers[0].reason.find("2 tail"), std::string::npos) << producers[0].reason;
}

TEST(CaptureRecorder, A7_FailedLookUpsLeaveTheHookUnmanaged) {
  for (const Call call : {Call::captured_tail, Call::inspect}) {
    for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
      Rig rig;
      rig.engine->faults().fail_next(call, 1, mode, 1);
      const Captured captured = rig.capture({0, 1, 2});
      const auto producers = rig.recorder.take(captured.graph);
      ASSERT_EQ(producers.size(), 3u);
      EXPECT_TRUE(producers[0].managed);
      EXPECT_FALSE(producers[1].managed) << to_string(call) << " " << to_string(mode);
      EXPECT_NE(producers[1].reason.find("cudaError"), std::string::npos) << producers[1].reason;
      EXPECT_TRUE(producers[2].managed);
    }
  }
}

TEST(CaptureRecorder, CapturesThatAreNeverBoundAreBounded) {
  Rig rig;
  CaptureRecorder recorder(3);
  const auto record = [&](std::uint64_t capture) {
    const CaptureState state{true, capture, Graph{100 + capture}};
    (void)recorder.next_ordinal(state, 0);
    recorder.record(*rig.device, state, rig.stream, {0, 0, 0}, rig.header);
  };
  for (std::uint64_t capture = 1; capture <= 10; ++capture) record(capture);
  EXPECT_EQ(recorder.captures(), 3u);
  EXPECT_EQ(recorder.dropped(), 7u);
  EXPECT_TRUE(recorder.take(Graph{107}).empty());
  for (std::uint64_t capture = 8; capture <= 10; ++capture) {
    EXPECT_EQ(recorder.take(Graph{100 + capture}).size(), 1u) << capture;
  }
  EXPECT_EQ(recorder.captures(), 0u);
  record(11);
  record(12);
  EXPECT_EQ(recorder.captures(), 2u);
  EXPECT_EQ(recorder.dropped(), 7u) << "what was taken makes room";
}

TEST(CaptureRecorder, AGraphHandleThatComesBackDropsTheOlderCapture) {
  Rig rig;
  CaptureRecorder recorder;
  recorder.record(*rig.device, {true, 1, Graph{9}}, rig.stream, {0, 0, 0}, rig.header);
  recorder.record(*rig.device, {true, 1, Graph{9}}, rig.stream, {1, 0, 1}, rig.header);
  recorder.record(*rig.device, {true, 2, Graph{9}}, rig.stream, {3, 0, 3}, rig.header);
  EXPECT_EQ(recorder.captures(), 1u);
  EXPECT_EQ(recorder.dropped(), 1u);
  const auto producers = recorder.take(Graph{9});
  ASSERT_EQ(producers.size(), 1u);
  EXPECT_EQ(producers[0].id.hook, 3);
}

}  // namespace
}  // namespace graphtap::testing
