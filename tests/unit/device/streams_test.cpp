#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "device/host/random.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::BothModes;
using test::Hold;
using test::make_device;
using test::must;

using Streams = BothModes;

TEST_P(Streams, I5_AStreamRunsInOrder) {
  const Stream stream = must(device().create_stream());
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) must(device().compute(stream, [&seen, i] { seen.push_back(i); }));
  const Event end = must(device().create_event());
  must(device().record(end, stream));
  must(device().synchronize(end));
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(must(device().query(end)));
}

TEST_P(Streams, I5_TheDefaultStreamIsAStreamLikeAnyOther) {
  int ran = 0;
  const Event end = must(device().create_event());
  must(device().compute(Stream{0}, [&] { ++ran; }));
  must(device().record(end, Stream{0}));
  must(device().synchronize(end));
  EXPECT_EQ(ran, 1);
}

TEST_P(Streams, I5_AnEventNeverRecordedIsComplete) {
  const Event event = must(device().create_event());
  EXPECT_TRUE(must(device().query(event)));
  must(device().synchronize(event));
  const Stream stream = must(device().create_stream());
  must(device().wait(stream, event));
  EXPECT_EQ(device().pending(stream), 0u);
}

TEST_P(Streams, I5_AWaitHoldsBackWhatIsBehindIt) {
  const Stream first = must(device().create_stream());
  const Stream second = must(device().create_stream());
  const Event half = must(device().create_event());
  const Event end = must(device().create_event());
  int value = 0;
  int seen = -1;
  Hold hold(device(), GetParam(), first);
  must(device().compute(first, [&] { value = 7; }));
  must(device().record(half, first));
  must(device().wait(second, half));
  must(device().compute(second, [&] { seen = value; }));
  must(device().record(end, second));
  EXPECT_FALSE(must(device().query(half)));
  EXPECT_FALSE(must(device().query(end)));
  hold.release();
  must(device().synchronize(end));
  EXPECT_EQ(seen, 7);
}

// Whether a stream that waited for an event's first record got past it before the second was
// reached.
bool passes_before_second_record(HostDevice& device, HostMode mode) {
  const Stream done = must(device.create_stream());
  const Stream blocked = must(device.create_stream());
  const Stream waiter = must(device.create_stream());
  const Event event = must(device.create_event());
  const Event end = must(device.create_event());
  Hold hold(device, mode, blocked);
  must(device.record(event, done));
  must(device.wait(waiter, event));  // the first record
  must(device.compute(blocked, [] {}));
  must(device.record(event, blocked));  // moves it: the wait above does not follow
  EXPECT_FALSE(must(device.query(event)));
  must(device.record(end, waiter));
  must(device.synchronize(end));
  const bool before = !must(device.query(event));
  hold.release();
  must(device.synchronize(event));
  return before;
}

TEST(Events, I5_AWaitUsesTheRecordOfItsOwnTime) {
  const auto threaded = make_device(HostMode::threaded);
  EXPECT_TRUE(passes_before_second_record(*threaded, HostMode::threaded));
  int before = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto device = make_device(HostMode::cooperative, seed);
    before += passes_before_second_record(*device, HostMode::cooperative);
  }
  EXPECT_GT(before, 0);
}

TEST_P(Streams, I5_DestroyingAPendingEventIsFine) {
  const Stream first = must(device().create_stream());
  const Stream second = must(device().create_stream());
  const Event event = must(device().create_event());
  const Event end = must(device().create_event());
  int order = 0;
  int behind = 0;
  Hold hold(device(), GetParam(), first);
  must(device().compute(first, [&] { order = 1; }));
  must(device().record(event, first));
  must(device().wait(second, event));
  device().destroy_event(event);
  must(device().compute(second, [&] { behind = order; }));
  must(device().record(end, second));
  hold.release();
  must(device().synchronize(end));
  EXPECT_EQ(behind, 1);
  EXPECT_EQ(device().query(event).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().live_events(), 1u);
}

TEST_P(Streams, I5_ADestroyedStreamFinishesItsWork) {
  const Stream stream = must(device().create_stream());
  std::atomic<int> ran = 0;
  Hold hold(device(), GetParam(), stream);
  for (int i = 0; i < 10; ++i) must(device().compute(stream, [&] { ++ran; }));
  device().destroy_stream(stream);
  hold.release();
  device().run_until_idle();
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(device().compute(stream, [] {}).code(), Code::invalid_argument);
  (void)must(device().create_stream());  // clears up behind the destroyed one
}

TEST_P(Streams, I5_TheInlineStreamRunsInTheCallersThread) {
  std::thread::id where;
  must(device().compute(inline_stream(), [&] { where = std::this_thread::get_id(); }));
  EXPECT_EQ(where, std::this_thread::get_id());
  const Event event = must(device().create_event());
  must(device().record(event, inline_stream()));
  EXPECT_TRUE(must(device().query(event)));
}

TEST_P(Streams, I5_TheInlineStreamWaitsForOthers) {
  const Stream other = must(device().create_stream());
  const Event event = must(device().create_event());
  int value = 0;
  device().set_advance(0);
  must(device().compute(other, [&] { value = 5; }));
  must(device().record(event, other));
  must(device().wait(inline_stream(), event));
  int seen = 0;
  must(device().compute(inline_stream(), [&] { seen = value; }));
  EXPECT_EQ(seen, 5);
}

TEST_P(Streams, I5_AKernelsCapturesAreGoneWhenItsEventIsComplete) {
  const Stream stream = must(device().create_stream());
  const Event event = must(device().create_event());
  const auto held = std::make_shared<int>(1);
  for (const Stream where : {stream, inline_stream()}) {
    must(device().compute(where, [held] {}));
    must(device().record(event, where));
    must(device().synchronize(event));
    EXPECT_EQ(held.use_count(), 1);
  }
}

TEST_P(Streams, I5_AKernelMayCallTheDevice) {
  const Stream stream = must(device().create_stream());
  const Event event = must(device().create_event());
  std::atomic<int> ran = 0;
  for (int i = 0; i < 20; ++i) {
    must(device().compute(stream, [&] {
      must(device().compute(inline_stream(), [&] { ++ran; }));
      (void)must(device().query(event));
    }));
  }
  must(device().record(event, stream));
  must(device().synchronize(event));
  EXPECT_EQ(ran, 20);
}

TEST_P(Streams, D5_TheDeviceGoesWithWorkPending) {
  const auto held = std::make_shared<int>(1);
  const Stream stream = must(device().create_stream());
  device().set_advance(0);
  for (int i = 0; i < 1000; ++i) must(device().compute(stream, [held] {}));
  device_.reset();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(Streams, I5_CopiesGoBothWaysInStreamOrder) {
  const Stream stream = must(device().create_stream());
  std::byte* memory = must(device().allocate(64));
  std::byte* pinned = must(device().allocate_pinned(64));
  std::byte* back = must(device().allocate_pinned(64));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(memory[i], std::byte{0});
  std::memset(pinned, 0x5A, 64);
  must(device().upload(memory, pinned, 63, stream));
  must(device().copy(stream, memory + 63, memory + 1, 1));
  must(device().fill(stream, memory, std::byte{3}, 2));
  must(device().download(back, memory, 64, stream));
  const Event event = must(device().create_event());
  must(device().record(event, stream));
  must(device().synchronize(event));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(back[i], i < 2 ? std::byte{3} : std::byte{0x5A}) << i;
  EXPECT_EQ(device().containment_violations(), 0u);
}

TEST_P(Streams, E_UnknownHandlesAreNamed) {
  const Event event = must(device().create_event());
  const Status status = device().record(event, Stream{99});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("cudaErrorInvalidResourceHandle: stream 99"), std::string::npos);
  EXPECT_NE(device().synchronize(Event{77}).message().find("event 77"), std::string::npos);
  EXPECT_EQ(device().wait(Stream{99}, event).code(), Code::invalid_argument);
  EXPECT_EQ(device().begin_capture(Stream{99}).code(), Code::invalid_argument);
}

TEST_P(Streams, A17_TimeMoves) {
  const std::uint64_t start = device().now_ns();
  for (int i = 0; i < 1000 && device().now_ns() <= start; ++i) device().idle();
  EXPECT_GT(device().now_ns(), start);
}

GRAPHTAP_IN_BOTH_MODES(Streams);

// Two streams that append their name: the order of the names is the schedule.
std::string schedule_of(std::uint64_t seed) {
  const auto device = make_device(HostMode::cooperative, seed);
  std::string order;
  const Stream a = must(device->create_stream());
  const Stream b = must(device->create_stream());
  for (int i = 0; i < 10; ++i) {
    must(device->compute(a, [&] { order += 'a'; }));
    must(device->compute(b, [&] { order += 'b'; }));
  }
  device->run_until_idle();
  return order;
}

TEST(Cooperative, I2_ASeedIsASchedule) {
  std::set<std::string> schedules;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string order = schedule_of(seed);
    EXPECT_EQ(order, schedule_of(seed)) << "seed " << seed;
    schedules.insert(order);
  }
  EXPECT_GT(schedules.size(), 40u);
}

TEST(Cooperative, A5_TheCallerRunsAheadAsFarAsItIsTold) {
  const auto device = make_device(HostMode::cooperative, 1, 0.0);
  const Stream stream = must(device->create_stream());
  for (int i = 0; i < 10; ++i) must(device->compute(stream, [] {}));
  EXPECT_EQ(device->pending(stream), 10u);
  device->idle();
  EXPECT_EQ(device->pending(stream), 9u);
  EXPECT_TRUE(device->run_one());
  EXPECT_EQ(device->pending(stream), 8u);
  device->set_advance(1.0);
  (void)must(device->create_event());
  EXPECT_EQ(device->pending(stream), 0u);
  EXPECT_FALSE(device->run_one());
}

TEST(Cooperative, A5_OthersMayRunInTheMiddleOfACopy) {
  bool torn = false;
  for (std::uint64_t seed = 1; seed <= 100 && !torn; ++seed) {
    const auto device = make_device(HostMode::cooperative, seed);
    std::byte* memory = must(device->allocate(16));
    std::byte* pinned = must(device->allocate_pinned(16));
    const Stream a = must(device->create_stream());
    const Stream b = must(device->create_stream());
    must(device->download(pinned, memory, 16, a));
    must(device->compute(b, [&] { std::memset(memory, 1, 16); }));
    device->run_until_idle();
    torn = pinned[0] != pinned[15];
  }
  EXPECT_TRUE(torn);
}

TEST(Cooperative, E_AKernelThatWaitsForItsOwnStreamIsAnErrorNotAHang) {
  const auto device = make_device(HostMode::cooperative);
  const Stream stream = must(device->create_stream());
  const Event event = must(device->create_event());
  device->set_advance(0);
  Status status;
  must(device->compute(stream, [&] { status = device->synchronize(event); }));
  must(device->record(event, stream));
  device->run_until_idle();
  EXPECT_NE(status.message().find("waits for its own stream"), std::string::npos);
  EXPECT_TRUE(must(device->query(event)));
}

TEST(Cooperative, A17_VirtualTimePassesWhileNothingHappens) {
  const auto device = make_device(HostMode::cooperative);
  const std::uint64_t start = device->now_ns();
  for (int i = 0; i < 1000; ++i) device->idle();
  EXPECT_GE(device->now_ns() - start, 1'000'000u);
  const auto again = make_device(HostMode::cooperative);
  EXPECT_EQ(again->now_ns(), start);
}

TEST(Threaded, I2_ManyThreadsMayUseOneDevice) {
  const auto device = make_device(HostMode::threaded);
  std::atomic<int> total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Stream stream = must(device->create_stream());
      const Event event = must(device->create_event());
      int mine = 0;
      for (int i = 0; i < 50; ++i) {
        must(device->compute(stream, [&] { ++mine; }));
        must(device->compute(inline_stream(), [&] { ++total; }));
        must(device->record(event, stream));
        must(device->wait(Stream{0}, event));
      }
      must(device->synchronize(event));
      EXPECT_EQ(mine, 50);
      device->destroy_stream(stream);
      device->destroy_event(event);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 200);
  device->run_until_idle();
  EXPECT_EQ(device->live_events(), 0u);
}

TEST(Threaded, I2_StreamsRunAtTheSameTime) {
  const auto device = make_device(HostMode::threaded);
  const Stream a = must(device->create_stream());
  const Stream b = must(device->create_stream());
  std::promise<void> from_a;
  std::promise<void> from_b;
  must(device->compute(a, [&] { from_a.set_value(), from_b.get_future().wait(); }));
  must(device->compute(b, [&] { from_b.set_value(), from_a.get_future().wait(); }));
  device->run_until_idle();
}

TEST(HostDevice, D1_TheDefaultOneIsThreaded) {
  EXPECT_EQ(make_host_device()->describe(), "host (threaded)");
  EXPECT_EQ(make_device(HostMode::cooperative, 5)->describe(), "host (cooperative, seed 5)");
}

}  // namespace
}  // namespace graphtap
