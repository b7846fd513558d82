// flush() as an end-to-end barrier (D3), close() with a deadline (D5), and what comes after.
#include <gtest/gtest.h>

#include <thread>

#include "unit/monitor/monitor_rig.hpp"
#include "unit/sinks/fake_sink.hpp"

namespace graphtap {
namespace {

using std::chrono::milliseconds;
using testing::Captured;
using testing::layered_table;
using testing::Rig;
using testing::RigOptions;
using testing::small_options;

std::vector<RowSpan> rows(const Request& request, int step) { return {{request, step * 4, 4}}; }

TEST(Flush, D3_EverythingBeforeItIsInTheSinkAndTheSinkIsFlushed) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    RigOptions options;
    options.seed = seed;
    options.advance = 0.1;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.graph_step(graph, rows(request, i)).ok());
    rig.monitor->finish_request(request);
    ASSERT_TRUE(rig.monitor->flush(testing::patience(milliseconds(100))).ok());
    EXPECT_EQ(rig.sink->records(), 20u);
    EXPECT_EQ(rig.sink->flushes, 1);
    ASSERT_EQ(rig.sink->events.size(), 2u) << "its completion too";
    EXPECT_TRUE(rig.sink->events[1].valid);
    EXPECT_EQ(rig.sink->events[1].records, 20u);
    rig.verify();
  }
}

TEST(Flush, D3_AnOpenStepMakesItTimeOutAndSayWhatIsLeft) {
  Rig rig;
  const auto request = rig.monitor->begin_request("a");
  Step open = rig.begin(StepKind::graph, rows(request, 0));
  const Status status = rig.monitor->flush(milliseconds(5));
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("1 steps"), std::string::npos) << status.message();
  open.end();
  EXPECT_TRUE(rig.monitor->flush(testing::patience(milliseconds(100))).ok());
}

TEST(Flush, D2_ASinkThatFailsIsNamedWithItsError) {
  RigOptions options;
  options.monitor.retry = {100, milliseconds(1), milliseconds(1)};
  Rig rig(options);
  rig.sink->refuse = true;
  const auto request = rig.monitor->begin_request("a");
  rig.eager_step({0}, rows(request, 0));
  const Status status = rig.monitor->flush(milliseconds(10));
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("keeping"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("disk full"), std::string::npos);
  rig.sink->refuse = false;
  EXPECT_TRUE(rig.monitor->flush(testing::patience(milliseconds(100))).ok());
  EXPECT_EQ(rig.sink->records(), 1u);
}

TEST(Flush, D3_IsRefusedOnceClosed) {
  Rig rig;
  ASSERT_TRUE(rig.monitor->close(testing::patience(milliseconds(10))).ok());
  EXPECT_EQ(rig.monitor->flush(milliseconds(10)).code(), Code::unavailable);
  EXPECT_EQ(rig.monitor->resize_ring(32 << 10).code(), Code::unavailable);
  EXPECT_THROW((void)rig.monitor->make_lane(), Error);
  EXPECT_TRUE(rig.monitor->close(milliseconds(10)).ok()) << "a second close does nothing";
}

TEST(Close, D5_DeliversWhatWasCaptured) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.graph_step(graph, rows(request, i)).ok());
  rig.monitor->finish_request(request);
  ASSERT_TRUE(rig.monitor->close(testing::patience(milliseconds(100))).ok());
  EXPECT_EQ(rig.sink->records(), 20u);
  EXPECT_EQ(rig.sink->events.back().kind, RequestEvent::Kind::finished);
  rig.verify();
}

TEST(Close, D5_SaysWhatItCouldNotDeliverAndCountsIt) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  ASSERT_TRUE(rig.graph_step(graph, rows(request, 0)).ok());
  rig.settle();
  Step open = rig.begin(StepKind::graph, rows(request, 1));
  ASSERT_TRUE(open.launch(*graph.bound).ok());
  rig.monitor->finish_request(request);
  const Status status = rig.monitor->close(milliseconds(2));
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("1 steps"), std::string::npos) << status.message();
  ASSERT_EQ(rig.sink->events.size(), 2u) << "the completion is not lost";
  EXPECT_EQ(rig.sink->events[1].kind, RequestEvent::Kind::finished);
  EXPECT_FALSE(rig.sink->events[1].valid);

  const std::uint64_t closes = rig.engine->calls(Call::close_step);
  open.end();
  EXPECT_EQ(rig.engine->calls(Call::close_step), closes + 1)
      << "the header is turned OFF all the same";
  const Stats stats = rig.monitor->stats();
  EXPECT_EQ(stats.total.gap(GapReason::shutdown), 4u);
  EXPECT_EQ(stats.total.planned, stats.total.delivered + stats.total.missing());
  EXPECT_EQ(stats.steps_in_flight, 0u);
  EXPECT_EQ(rig.sink->records(), 4u);

  // Graphs that keep replaying write nothing, and what the late step may have written is still
  // there.
  ASSERT_TRUE(rig.graph_step(graph, rows(request, 2)).ok());
  ASSERT_TRUE(rig.device->launch(graph.exec, rig.stream).ok());
  rig.engine->run_until_idle();
  EXPECT_EQ(rig.engine->violations(), std::vector<std::string>{});
  EXPECT_EQ(rig.sink->records(), 4u);
}

TEST(Close, D5_FramesTheDeviceDoesNotFinishInTimeAreCounted) {
  GRAPHTAP_NEEDS_A_SCHEDULER("the frames must still be unfinished when the monitor is closed");
  RigOptions options;
  options.advance = 0;
  Rig rig(options);
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.graph_step(graph, rows(request, i)).ok());
  EXPECT_FALSE(rig.monitor->close(std::chrono::nanoseconds(0)).ok());
  const Stats stats = rig.monitor->stats();
  EXPECT_EQ(stats.total.gap(GapReason::shutdown), 12u);
  EXPECT_EQ(stats.total.planned, 12u);
  EXPECT_EQ(stats.sinks[0].lost_steps, 3u) << "there was no time to tell the sink";
  rig.engine->run_until_idle();  // the engine gets there later: the memory is still there
  EXPECT_EQ(rig.engine->violations(), std::vector<std::string>{});
}

TEST(Close, D5_LaterPartsOfASplitStepAreShutdownToo) {
  RigOptions options;
  options.capacity = 900;
  options.monitor.ring_bytes = 8192;
  Rig rig(options);
  const auto request = rig.monitor->begin_request("a");
  Step step = rig.begin(StepKind::eager, {{request, 0, 800}});
  EXPECT_FALSE(rig.monitor->close(milliseconds(1)).ok());
  rig.fire({0, 1, 2, 3}, rig.stream);
  step.end();
  const Stats stats = rig.monitor->stats();
  EXPECT_EQ(stats.total.delivered, 0u);
  EXPECT_EQ(stats.total.gap(GapReason::shutdown), stats.total.planned);
  EXPECT_EQ(rig.engine->violations(), std::vector<std::string>{});
}

TEST(Close, D5_StepsAfterItCaptureNothingAndCostNothing) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  ASSERT_TRUE(rig.graph_step(graph, rows(request, 0)).ok());
  ASSERT_TRUE(rig.monitor->close(testing::patience(milliseconds(100))).ok());
  const std::uint64_t calls = rig.engine->calls(), launches = rig.engine->calls(Call::launch);
  for (int i = 1; i < 10; ++i) ASSERT_TRUE(rig.graph_step(graph, rows(request, i)).ok());
  EXPECT_EQ(rig.engine->calls() - calls, rig.engine->calls(Call::launch) - launches);
  EXPECT_EQ(rig.monitor->stats().total.planned, 4u);
}

TEST(Close, NothingIsLeftBehind) {
  const auto engine = testing::make_engine();
  const std::shared_ptr<Device>& device = engine->device();
  const std::size_t allocations = engine->live_allocations();
  {
    Monitor monitor(device, layered_table(4), small_options(), {make_null_sink()});
    const auto lane = monitor.make_lane();
    const Stream stream = device->create_stream().value();
    const std::vector<RowSpan> spans{{nullptr, 0, 4}};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = spans;
    for (int i = 0; i < 10; ++i) lane->begin(shape, stream).end();
    ASSERT_TRUE(monitor.flush(testing::patience(milliseconds(100))).ok());
  }
  EXPECT_EQ(engine->live_allocations(), allocations);
  EXPECT_EQ(engine->live_events(), 0u);
}

// A sink that hangs is left behind with its thread, and may look at its step long after the monitor
// is gone.
TEST(Close, D2_AHangingSinkMayOutliveTheMonitor) {
  struct Reads final : Sink {
    explicit Reads(std::shared_ptr<test::FakeSink> gate) : inner(std::move(gate)) {}
    [[nodiscard]] std::string name() const override { return "reads"; }
    Status write(const DeliveredStep& step) override {
      const Status status = inner->write(step);  // hangs here
      for (const Record& record : step.records) {
        text += step.table->model() + record.hook->name + std::to_string(record.payload.size());
        text += std::to_string(std::to_integer<int>(record.payload.back()));
      }
      done.store(true);
      return status;
    }
    std::shared_ptr<test::FakeSink> inner;
    std::string text;
    std::atomic<bool> done{false};
  };
  const auto gate = std::make_shared<test::FakeSink>();
  const auto sink = std::make_shared<Reads>(gate);
  gate->hang();
  {
    testing::EngineOptions threaded;
    threaded.threaded = true;
    const auto engine = testing::make_engine(threaded);
    const std::shared_ptr<Device>& device = engine->device();
    MonitorOptions options = small_options();
    options.manual = false;
    Monitor monitor(device, layered_table(1), options, {sink});
    const auto lane = monitor.make_lane();
    const Stream stream = device->create_stream().value();
    std::byte* const tensor = engine->tensor(64).value();
    const std::vector<RowSpan> spans{{monitor.begin_request("a"), 0, 4}};
    StepShape shape;
    shape.tokens = spans;
    gate->only("write");
    Step step = lane->begin(shape, stream);
    lane->produce(0, {.data = tensor, .rows = 4, .part_bytes = 16, .row_stride = 16}, stream);
    step.end();
    gate->wait_hanging();
    EXPECT_EQ(monitor.close(milliseconds(1)).code(), Code::timeout);
  }
  gate->release();
  while (!sink->done.load()) std::this_thread::yield();
  EXPECT_EQ(sink->text.find("smallblocks.0.resid_pre64"), 0u) << sink->text;
}

}  // namespace
}  // namespace graphtap
