// A sticky error at each kind of call: the engine goes on, everything is accounted for, nobody
// calls again.
#include <gtest/gtest.h>

#include "support/seeds.hpp"
#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using std::chrono::milliseconds;
using testing::Captured;
using testing::Rig;
using testing::RigOptions;

constexpr Call kCallsOfAStep[] = {Call::capture_state, Call::upload,     Call::launch,
                                  Call::close_step,    Call::record,     Call::query,
                                  Call::wait,          Call::produce,    Call::download,
                                  Call::create_event,  Call::set_enabled};

TEST(DeviceLost, NoCallIsMadeAfterItAndEverythingIsAccountedFor) {
  std::map<Call, int> lost_by;
  constexpr std::uint64_t kUsual = 220;
  for (std::uint64_t seed = 1; seed <= testing::seeds(kUsual); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Call call = kCallsOfAStep[seed % std::size(kCallsOfAStep)];
    SCOPED_TRACE(to_string(call));
    RigOptions options;
    options.seed = seed;
    options.advance = random.chance(0.5) ? 0.0 : 0.3;
    options.monitor.tier = static_cast<GateTier>(random.below(3));
    options.monitor.settle_launches = 2;
    options.monitor.ring_bytes = random.chance(0.5) ? 4112 : 64 << 10;
    options.monitor.space_timeout = std::chrono::microseconds(200);
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const Stream other = rig.device->create_stream().value();
    const auto request = rig.monitor->begin_request("a");
    // An engine's own kernels stop too once the device is lost; only our calls are of interest
    // here.
    rig.engine->faults().fail_next(call, 1, FaultMode::sticky,
                                   static_cast<unsigned>(random.below(12)));
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t what = random.below(4);
      const std::vector<RowSpan> spans{{request, i * 8, 8}};
      if (what == 0) {
        rig.eager_step({0, 1, 2, 3}, spans);
      } else {
        if (what == 1)
          (void)rig.monitor->enable(random.chance(0.5) ? "resid_pre:1-2" : "", Apply::now);
        Step step = rig.begin(StepKind::graph, spans, what == 3 ? other : rig.stream);
        (void)step.launch(*graph.bound);
        step.end();
      }
      if (random.chance(0.3)) (void)rig.monitor->pump();
    }
    rig.monitor->finish_request(request);
    if (!rig.engine->faults().lost()) continue;  // fewer calls of that kind than skipped
    ++lost_by[call];
    const Status flushed = rig.monitor->flush(milliseconds(100));
    EXPECT_EQ(flushed.code(), Code::device_lost) << "flush ends: " << flushed.message();
    EXPECT_TRUE(rig.monitor->stats().device_lost);
    EXPECT_NE(rig.monitor->stats().last_device_error.find("cudaError"), std::string::npos);
    rig.verify();
    ASSERT_EQ(rig.sink->events.size(), 2u);
    const std::uint64_t calls_by_engine = rig.engine->calls_after_loss();
    (void)rig.monitor->close(milliseconds(10));
    const std::size_t events = rig.engine->live_events();
    const std::uint64_t memory = rig.engine->allocated_bytes();
    rig.lane.reset();
    rig.monitor.reset();
    EXPECT_EQ(rig.engine->calls_after_loss(), calls_by_engine);
    EXPECT_EQ(calls_by_engine, 0u);
    EXPECT_EQ(rig.engine->live_events(), events) << "no event is destroyed on a lost device";
    EXPECT_EQ(rig.engine->allocated_bytes(), memory)
        << "no device memory is freed on a lost device";
  }
  if (testing::seeds(kUsual) < kUsual) return;
  for (const Call call : kCallsOfAStep) EXPECT_GT(lost_by[call], 1) << to_string(call);
}

TEST(DeviceLost, StepsGoOnAndBecomeGaps) {
  Rig rig;
  const Captured graph = rig.capture_all();
  const auto request = rig.monitor->begin_request("a");
  rig.engine->faults().fail_next(Call::upload, 1, FaultMode::sticky);
  (void)rig.graph_step(graph, {{request, 0, 2}});
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(rig.graph_step(graph, {{request, i * 2, 2}}).code(), Code::device_lost);
  }
  rig.settle();
  rig.verify();
  EXPECT_EQ(rig.sink->gaps(GapReason::device_lost), 16u);
  EXPECT_EQ(rig.engine->calls_after_loss(), 0u);
}

}  // namespace
}  // namespace graphtap
