#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fake_sink.hpp"
#include "sinks/sink_runner.hpp"

namespace graphtap {
namespace {

using namespace std::chrono_literals;
using test::FakeSink;
using test::Log;
using test::make_request;
using test::make_step;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kRoomy = 1 << 20;
constexpr auto kLong = 60s;  // never reached by a test that passes

std::uint64_t steady_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(SteadyClock::now().time_since_epoch()).count());
}

std::unique_ptr<SinkRunner> start(const std::shared_ptr<FakeSink>& sink, std::uint32_t attempts = 3,
                                  std::uint64_t limit = kRoomy, SinkRunner::OnLost on_lost = {},
                                  SinkRunner::OnProgress on_progress = {}) {
  return std::make_unique<SinkRunner>(sink, RetryPolicy{attempts, 1ms, 2ms}, limit, false,
                                      steady_ns, std::move(on_lost), std::move(on_progress));
}

TEST(SinkRunnerThreaded, D3_WaitFlushedIsABarrier) {
  auto sink = std::make_shared<FakeSink>();
  auto runner = start(sink);
  for (std::uint64_t i = 1; i <= 100; ++i) ASSERT_TRUE(runner->offer(make_step(i)));
  const Status status = runner->wait_flushed(runner->request_flush(), kLong);
  EXPECT_TRUE(status.ok()) << status.message();
  const Log log = sink->log();
  ASSERT_EQ(log.size(), 101u);
  EXPECT_EQ(log[99], "write 100");
  EXPECT_EQ(log[100], "flush");
  EXPECT_FALSE(runner->pump());  // the thread works, nobody else
}

TEST(SinkRunnerThreaded, D2_RetriesUntilItWorks) {
  auto sink = std::make_shared<FakeSink>();
  sink->fail_next(2, FakeSink::Fault::exception);
  auto runner = start(sink);
  ASSERT_TRUE(runner->offer(make_step(1)));
  ASSERT_TRUE(runner->wait_flushed(runner->request_flush(), kLong).ok());
  EXPECT_EQ(sink->log(), (Log{"write 1!", "write 1!", "write 1", "flush"}));
}

TEST(SinkRunnerThreaded, D2_ASinkThatFailsForeverLosesItsStepsAndOnlyItsOwn) {
  auto bad = std::make_shared<FakeSink>("bad");
  auto good = std::make_shared<FakeSink>("good");
  bad->only("write");
  bad->fail_next(~0ull);
  std::atomic<int> lost{0};
  auto bad_runner = start(bad, 2, kRoomy, [&](const DeliveredStep&) { ++lost; });
  auto good_runner = start(good);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const auto step = make_step(i);
    ASSERT_TRUE(bad_runner->offer(step));
    ASSERT_TRUE(good_runner->offer(step));
  }
  EXPECT_TRUE(good_runner->wait_flushed(good_runner->request_flush(), kLong).ok());
  EXPECT_EQ(good_runner->stats().steps, 5u);
  EXPECT_TRUE(bad_runner->wait_flushed(bad_runner->request_flush(), kLong).ok());
  EXPECT_EQ(bad_runner->stats().lost_steps, 5u);
  EXPECT_EQ(bad_runner->stats().failures, 10u);
  EXPECT_EQ(lost, 5);
}

TEST(SinkRunnerThreaded, D2_AHangingSinkBlocksNeitherOthersNorItsCallers) {
  auto hanging = std::make_shared<FakeSink>("hanging");
  auto good = std::make_shared<FakeSink>("good");
  hanging->hang();
  auto hanging_runner = start(hanging);
  auto good_runner = start(good);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto step = make_step(i);
    ASSERT_TRUE(hanging_runner->offer(step));
    ASSERT_TRUE(good_runner->offer(step));
  }
  hanging->wait_hanging();
  EXPECT_TRUE(good_runner->wait_flushed(good_runner->request_flush(), kLong).ok());
  const Status status = hanging_runner->wait_flushed(hanging_runner->request_flush(), 1ms);
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("3 of 3 items left (3 steps)"), std::string::npos)
      << status.message();
  hanging->release();
  EXPECT_TRUE(hanging_runner->wait_flushed(hanging_runner->enqueued(), kLong).ok());
  EXPECT_EQ(hanging_runner->stats().lost_steps, 0u);
}

TEST(SinkRunnerThreaded, D5_StopLeavesAHangingCallBehindAndCountsWhatItHeld) {
  auto sink = std::make_shared<FakeSink>();
  sink->hang();
  std::atomic<int> lost{0};
  auto runner = start(sink, 3, kRoomy, [&](const DeliveredStep&) { ++lost; });
  auto step = make_step(1);
  const std::weak_ptr<const DeliveredStep> in_the_call = step;
  auto next = make_step(2);
  const std::weak_ptr<const DeliveredStep> behind_it = next;
  ASSERT_TRUE(runner->offer(std::move(step)));
  ASSERT_TRUE(runner->offer(std::move(next)));
  sink->wait_hanging();
  const auto begin = SteadyClock::now();
  runner->stop(5ms);
  EXPECT_LT(SteadyClock::now() - begin, kLong);
  EXPECT_EQ(lost, 2);
  EXPECT_EQ(runner->stats().lost_steps, 2u);
  EXPECT_EQ(runner->stats().queued_steps, 0u);
  EXPECT_TRUE(runner->reached(2));
  EXPECT_EQ(runner->stop_status().code(), Code::timeout);
  EXPECT_NE(runner->stop_status().message().find("hangs"), std::string::npos);
  EXPECT_FALSE(in_the_call.expired());  // the sink still reads it
  EXPECT_TRUE(behind_it.expired());
  runner.reset();
  sink->release();
  sink->wait_calls(2);  // the thread closes the sink once its call returns
  EXPECT_EQ(sink->log(), (Log{"write 1", "close"}));
  EXPECT_EQ(lost, 2);
}

TEST(SinkRunnerThreaded, D5_StopCutsABackoffShort) {
  auto sink = std::make_shared<FakeSink>();
  sink->only("write");
  sink->fail_next(~0ull);
  SinkRunner runner(sink, RetryPolicy{100, 1h, 1h}, kRoomy, false, steady_ns);
  ASSERT_TRUE(runner.offer(make_step(1)));
  sink->wait_calls(1);
  runner.stop(1ms);
  EXPECT_EQ(runner.stats().lost_steps, 1u);
  EXPECT_EQ(sink->log(), (Log{"write 1!", "close"}));
}

TEST(SinkRunnerThreaded, D5_StopFinishesWhatFitsTheDeadline) {
  auto sink = std::make_shared<FakeSink>();
  auto runner = start(sink);
  for (std::uint64_t i = 1; i <= 50; ++i) ASSERT_TRUE(runner->offer(make_step(i)));
  runner->stop(kLong);
  EXPECT_EQ(runner->stats().steps, 50u);
  EXPECT_EQ(sink->log().back(), "close");
  EXPECT_EQ(sink->log().size(), 51u);
  runner->stop(kLong);
  EXPECT_EQ(sink->log().size(), 51u);
}

TEST(SinkRunnerThreaded, D5_SeveralSinksAreStoppedInTheSameTime) {
  auto hanging = std::make_shared<FakeSink>("hanging");
  auto good = std::make_shared<FakeSink>("good");
  hanging->hang();
  auto hanging_runner = start(hanging);
  auto good_runner = start(good);
  ASSERT_TRUE(hanging_runner->offer(make_step(1)));
  ASSERT_TRUE(good_runner->offer(make_step(1)));
  hanging->wait_hanging();
  hanging_runner->begin_stop(0s);
  good_runner->begin_stop(kLong);
  hanging_runner->stop(0s);  // the hanging one first: the other has closed meanwhile or does so now
  good_runner->stop(0s);
  EXPECT_TRUE(good_runner->stop_status().ok()) << good_runner->stop_status().message();
  EXPECT_EQ(good->log(), (Log{"write 1", "close"}));
  hanging->release();
  hanging->wait_calls(2);
}

TEST(SinkRunnerThreaded, D5_ASinkMayStopItsOwnRunner) {
  std::unique_ptr<SinkRunner> runner;
  std::atomic<bool> returned{false};
  Callbacks callbacks;
  callbacks.on_event = [&](const RequestEvent&) {
    runner->stop(kLong);
    returned = true;
    returned.notify_all();
  };
  runner = std::make_unique<SinkRunner>(make_callback_sink("self", callbacks), RetryPolicy{},
                                        kRoomy, false, steady_ns);
  runner->offer_event({RequestEvent::Kind::begun, make_request(1)});
  returned.wait(false);
  EXPECT_EQ(runner->stop_status().code(), Code::timeout);
}

TEST(SinkRunnerThreaded, D2_ProgressSaysWhenThereIsRoomAgain) {
  auto sink = std::make_shared<FakeSink>();
  std::atomic<std::uint64_t> progress{0};
  auto runner = start(sink, 3, 1, {}, [&] {
    ++progress;
    progress.notify_all();
  });
  std::uint64_t refused = 0;
  for (std::uint64_t i = 1; i <= 200; ++i) {
    for (;;) {
      const std::uint64_t before = progress;
      if (runner->offer(make_step(i))) break;
      ++refused;
      progress.wait(before);
    }
  }
  runner->stop(kLong);
  EXPECT_EQ(runner->stats().steps, 200u);
  EXPECT_GT(refused, 0u);
}

// For TSan: everything at once from several threads; the sums must agree whatever happens.
TEST(SinkRunnerThreaded, D2_CallsFromManyThreadsKeepTheAccountsStraight) {
  auto sink = std::make_shared<FakeSink>();
  std::atomic<std::uint64_t> lost{0};
  auto runner = start(sink, 2, 20 * SinkRunner::queue_cost(*make_step(1)),
                      [&](const DeliveredStep&) { ++lost; });
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 300; ++i) {
        if (i % 10 == 0) sink->fail_next(3);
        if (runner->offer(make_step(t * 1000 + i))) ++taken;
        if (i % 7 == 0) runner->offer_event({RequestEvent::Kind::begun, make_request(i)});
        if (i % 50 == 0) static_cast<void>(runner->wait_flushed(runner->request_flush(), 20ms));
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 500; ++i) {
      const SinkStats stats = runner->stats();
      EXPECT_LE(stats.steps + stats.lost_steps, 900u);
      EXPECT_LE(stats.queued_steps, 900u);
      static_cast<void>(runner->reached(10));
      static_cast<void>(runner->next_attempt_ns());
    }
  });
  for (std::thread& thread : threads) thread.join();
  std::thread other([&] { runner->stop(kLong); });
  runner->stop(kLong);
  other.join();
  const SinkStats stats = runner->stats();
  EXPECT_EQ(stats.steps + stats.lost_steps, taken);
  EXPECT_EQ(stats.lost_steps, lost);
  EXPECT_FALSE(sink->overlapped());
}

}  // namespace
}  // namespace graphtap
