#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fake_sink.hpp"
#include "sinks/sink_runner.hpp"

namespace graphtap {
namespace {

using namespace std::chrono_literals;
using test::FakeSink;
using test::Log;
using test::make_request;
using test::make_step;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kRoomy = 1 << 20;

/// A runner without a thread, on a clock that only the test moves.
struct Manual {
  explicit Manual(std::uint32_t attempts = 4, std::uint64_t limit = kRoomy)
      : runner(
            sink, RetryPolicy{attempts, 10ms, 25ms}, limit, true, [this] { return now; },
            [this](const DeliveredStep& step) { lost.push_back(step.ticket); }) {}

  /// Pumps, and moves the clock over each backoff, until nothing is left to do.
  void settle() {
    for (;;) {
      while (runner.pump()) {
      }
      const auto next = runner.next_attempt_ns();
      if (!next) return;
      now = *next;
    }
  }

  std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  std::uint64_t now = 1000 * kMs;
  std::vector<std::uint64_t> lost;
  SinkRunner runner;
};

RequestEvent finished(Request request, std::uint64_t records = 5, std::uint64_t gaps = 1) {
  return {RequestEvent::Kind::finished, std::move(request), 0, 0, true, records, gaps};
}

TEST(SinkRunnerManual, D1_KeepsStepsAndEventsInOrder) {
  Manual m;
  EXPECT_FALSE(m.runner.pump());
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});
  EXPECT_TRUE(m.runner.offer(make_step(2, 3)));
  EXPECT_EQ(m.runner.enqueued(), 3u);
  EXPECT_EQ(m.runner.stats().queued_steps, 2u);
  EXPECT_TRUE(m.runner.reached(0));
  EXPECT_FALSE(m.runner.reached(1));
  EXPECT_TRUE(m.runner.pump());
  EXPECT_TRUE(m.runner.reached(1));
  EXPECT_FALSE(m.runner.reached(2));
  m.settle();
  EXPECT_TRUE(m.runner.reached(3));
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "event 7", "write 2"}));
  const SinkStats stats = m.runner.stats();
  EXPECT_EQ(stats.name, "fake");
  EXPECT_EQ(stats.steps, 2u);
  EXPECT_EQ(stats.records, 4u);
  EXPECT_EQ(stats.bytes, 64u);
  EXPECT_EQ(stats.queued_steps, 0u);
  EXPECT_EQ(stats.failures, 0u);
}

TEST(SinkRunnerManual, D2_RefusesWhatExceedsTheByteLimitAndTakesItLater) {
  const std::uint64_t one = SinkRunner::queue_cost(*make_step(1));
  Manual m(4, 2 * one);
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  EXPECT_FALSE(m.runner.offer(make_step(3)));
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});  // never refused
  EXPECT_EQ(m.runner.enqueued(), 3u);
  EXPECT_TRUE(m.runner.pump());
  EXPECT_TRUE(m.runner.offer(make_step(3)));
  m.settle();
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "write 2", "event 7", "write 3"}));
}

TEST(SinkRunnerManual, D2_TakesAStepLargerThanTheLimitWhenItsQueueIsEmpty) {
  Manual m(4, 1);
  EXPECT_TRUE(m.runner.offer(make_step(1, 100)));
  EXPECT_FALSE(m.runner.offer(make_step(2)));
  EXPECT_TRUE(m.runner.pump());
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  m.settle();
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "write 2"}));
}

TEST(SinkRunnerManual, D2_ReleasesAStepWhenItIsSettled) {
  Manual m;
  auto step = make_step(1);
  const std::weak_ptr<const DeliveredStep> watch = step;
  EXPECT_TRUE(m.runner.offer(std::move(step)));
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(m.runner.pump());
  EXPECT_TRUE(watch.expired());
}

TEST(SinkRunnerManual, D2_RetriesWithExponentialBackoffUpToTheLongest) {
  Manual m(5);
  m.sink->fail_next(4);
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  std::vector<std::uint64_t> waits;
  while (m.runner.pump()) {
    if (const auto next = m.runner.next_attempt_ns()) {
      EXPECT_EQ(m.runner.stats().last_error, "disk full");
      EXPECT_FALSE(m.runner.pump());  // not before its time
      m.now = *next - 1;
      EXPECT_FALSE(m.runner.pump());
      m.now = *next;
      waits.push_back(*next);
    }
  }
  ASSERT_EQ(waits.size(), 4u);
  EXPECT_EQ(waits[0], 1010 * kMs);
  EXPECT_EQ(waits[1] - waits[0], 20 * kMs);
  EXPECT_EQ(waits[2] - waits[1], 25 * kMs);
  EXPECT_EQ(waits[3] - waits[2], 25 * kMs);
  EXPECT_EQ(m.sink->log(), (Log{"write 1!", "write 1!", "write 1!", "write 1!", "write 1"}));
  const SinkStats stats = m.runner.stats();
  EXPECT_EQ(stats.failures, 4u);
  EXPECT_EQ(stats.steps, 1u);
  EXPECT_EQ(stats.lost_steps, 0u);
  EXPECT_EQ(stats.last_error, "");
  EXPECT_TRUE(m.lost.empty());
}

TEST(SinkRunnerManual, D2_ExceptionsCountAsFailures) {
  for (const FakeSink::Fault fault : {FakeSink::Fault::exception, FakeSink::Fault::odd_exception}) {
    Manual m;
    m.sink->fail_next(2, fault, "thrown");
    EXPECT_TRUE(m.runner.offer(make_step(1)));
    EXPECT_TRUE(m.runner.pump());
    EXPECT_NE(m.runner.stats().last_error, "");
    m.settle();
    EXPECT_EQ(m.runner.stats().failures, 2u);
    EXPECT_EQ(m.runner.stats().steps, 1u);
  }
}

TEST(SinkRunnerManual, D2_AfterTheLastAttemptAStepIsCountedLostAndTheQueueGoesOn) {
  Manual m(3);
  m.sink->fail_next(5);  // all three attempts at step 1, two at step 2
  EXPECT_TRUE(m.runner.offer(make_step(1, 2)));
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  m.settle();
  EXPECT_EQ(m.sink->log(),
            (Log{"write 1!", "write 1!", "write 1!", "write 2!", "write 2!", "write 2"}));
  const SinkStats stats = m.runner.stats();
  EXPECT_EQ(stats.lost_steps, 1u);
  EXPECT_EQ(stats.lost_records, 2u);
  EXPECT_EQ(stats.steps, 1u);
  EXPECT_EQ(stats.failures, 5u);
  EXPECT_EQ(m.lost, (std::vector<std::uint64_t>{1}));
  EXPECT_TRUE(m.runner.reached(2));
}

TEST(SinkRunnerManual, D2_AnEventThatCannotBeDeliveredIsCounted) {
  Manual m(2);
  m.sink->fail_next(2);
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});
  m.settle();
  EXPECT_EQ(m.runner.lost_events(), 1u);
  EXPECT_EQ(m.runner.stats().lost_steps, 0u);
  EXPECT_TRUE(m.lost.empty());
}

TEST(SinkRunnerManual, D3_CompletionAfterALossIsInvalid) {
  Manual m(1);
  const Request hit = make_request(1);
  const Request spared = make_request(2);
  m.sink->fail_next(1);
  EXPECT_TRUE(m.runner.offer(make_step(1, 2, hit)));     // lost
  EXPECT_TRUE(m.runner.offer(make_step(2, 1, hit)));     // written
  EXPECT_TRUE(m.runner.offer(make_step(3, 1, spared)));  // written
  m.runner.offer_event(finished(hit));
  m.runner.offer_event(finished(spared));
  m.settle();
  const std::vector<RequestEvent> events = m.sink->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_FALSE(events[0].valid);
  EXPECT_EQ(events[0].records, 3u);
  EXPECT_EQ(events[0].gaps, 3u);
  EXPECT_TRUE(events[1].valid);
  EXPECT_EQ(events[1].records, 5u);
  EXPECT_EQ(events[1].gaps, 1u);
}

TEST(SinkRunnerManual, D3_FlushComesAfterEverythingBeforeItAndBeforeWhatFollows) {
  Manual m;
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  const std::uint64_t position = m.runner.request_flush();
  EXPECT_EQ(position, 2u);
  EXPECT_TRUE(m.runner.offer(make_step(3)));
  for (const char* last : {"write 1", "write 2"}) {
    EXPECT_FALSE(m.runner.flushed(position));
    EXPECT_TRUE(m.runner.pump());
    EXPECT_EQ(m.sink->log().back(), last);
  }
  EXPECT_TRUE(m.runner.reached(position));
  EXPECT_FALSE(m.runner.flushed(position));
  EXPECT_TRUE(m.runner.pump());
  EXPECT_TRUE(m.runner.flushed(position));
  EXPECT_FALSE(m.runner.flushed(position + 1));
  m.settle();
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "write 2", "flush", "write 3"}));
}

TEST(SinkRunnerManual, D3_AsksForOneFlushPerPosition) {
  Manual m;
  EXPECT_EQ(m.runner.request_flush(), 0u);
  EXPECT_TRUE(m.runner.flushed(0));
  EXPECT_FALSE(m.runner.pump());
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  EXPECT_EQ(m.runner.request_flush(), 1u);
  EXPECT_EQ(m.runner.request_flush(), 1u);
  m.settle();
  EXPECT_EQ(m.runner.request_flush(), 1u);
  m.settle();
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "flush"}));
}

TEST(SinkRunnerManual, D3_FlushIsRetriedAndAFailureIsReportedNotClaimed) {
  Manual m(2);
  m.sink->only("flush");
  m.sink->fail_next(3, FakeSink::Fault::status, "no space");
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  const std::uint64_t position = m.runner.request_flush();
  m.settle();
  EXPECT_FALSE(m.runner.flushed(position));
  EXPECT_EQ(m.runner.flush_error(position).code(), Code::io_error);
  EXPECT_NE(m.runner.flush_error(position).message().find("no space"), std::string::npos);
  EXPECT_EQ(m.runner.wait_flushed(position, 0ns).code(), Code::io_error);
  EXPECT_EQ(m.runner.stats().lost_steps, 0u);
  // Asked for again, it gets its full number of attempts.
  EXPECT_EQ(m.runner.request_flush(), position);
  EXPECT_TRUE(m.runner.flush_error(position).ok());
  m.settle();
  EXPECT_TRUE(m.runner.flushed(position));
  EXPECT_EQ(m.sink->log(), (Log{"write 1", "flush!", "flush!", "flush!", "flush"}));
}

TEST(SinkRunnerManual, D3_WaitFlushedPumpsWithoutWaiting) {
  Manual m;
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  EXPECT_TRUE(m.runner.wait_flushed(m.runner.request_flush(), 0ns).ok());
  m.sink->fail_next(1);
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  const Status status = m.runner.wait_flushed(m.runner.request_flush(), 0ns);
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("1 of 2 items left (1 steps)"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("disk full"), std::string::npos) << status.message();
}

TEST(SinkRunnerManual, D5_StopFinishesTheQueueAndCloses) {
  Manual m;
  m.sink->fail_next(2);  // retried without waiting: nobody moves the clock
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});
  m.runner.stop(1s);
  EXPECT_EQ(m.sink->log(), (Log{"write 1!", "write 1!", "write 1", "event 7", "close"}));
  EXPECT_TRUE(m.runner.stop_status().ok());
  EXPECT_TRUE(m.runner.flushed(2));
  m.runner.stop(1s);
  EXPECT_EQ(m.sink->log().size(), 5u);
}

TEST(SinkRunnerManual, D5_PastTheDeadlineTheRestIsCountedLostAndNamed) {
  Manual m;
  EXPECT_TRUE(m.runner.offer(make_step(1, 2)));
  EXPECT_TRUE(m.runner.offer(make_step(2)));
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});
  m.runner.stop(0s);
  EXPECT_EQ(m.sink->log(), (Log{"close"}));
  EXPECT_EQ(m.runner.stats().lost_steps, 2u);
  EXPECT_EQ(m.runner.stats().lost_records, 3u);
  EXPECT_EQ(m.runner.stats().queued_steps, 0u);
  EXPECT_EQ(m.runner.lost_events(), 1u);
  EXPECT_EQ(m.lost, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(m.runner.reached(3));
  EXPECT_EQ(m.runner.stop_status().code(), Code::timeout);
  EXPECT_NE(m.runner.stop_status().message().find("3 of 3 items left (2 steps)"),
            std::string::npos);
}

TEST(SinkRunnerManual, D5_AFailingFlushDoesNotKeepStopFromEnding) {
  Manual m(1000);
  m.sink->fail_next(100000);
  EXPECT_TRUE(m.runner.offer(make_step(1)));
  m.runner.request_flush();
  m.runner.stop(0s);
  EXPECT_EQ(m.sink->log(), (Log{"close!"}));
  EXPECT_FALSE(m.runner.stop_status().ok());
}

TEST(SinkRunnerManual, D5_CloseIsRetriedAndItsErrorKept) {
  Manual m(3);
  m.sink->fail_next(2);
  m.runner.stop(1s);
  EXPECT_EQ(m.sink->log(), (Log{"close!", "close!", "close"}));
  EXPECT_TRUE(m.runner.stop_status().ok());

  Manual n(2);
  n.sink->fail_next(2);
  n.runner.stop(1s);
  EXPECT_EQ(n.sink->log(), (Log{"close!", "close!"}));
  EXPECT_EQ(n.runner.stop_status().code(), Code::io_error);
}

TEST(SinkRunnerManual, D5_WhatIsOfferedAfterStopIsLostAndSaidSo) {
  Manual m;
  m.runner.stop(1s);
  EXPECT_TRUE(m.runner.offer(make_step(4, 2)));
  m.runner.offer_event({RequestEvent::Kind::begun, make_request(7)});
  EXPECT_EQ(m.lost, (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(m.runner.stats().lost_records, 2u);
  EXPECT_EQ(m.runner.lost_events(), 1u);
  EXPECT_TRUE(m.runner.reached(2));
  EXPECT_EQ(m.runner.wait_flushed(m.runner.request_flush(), 0ns).code(), Code::unavailable);
}

// Whatever fails: each step is written exactly once or counted lost, in order, and the sums agree.
TEST(SinkRunnerManual, D2_RandomFaultsKeepTheAccountsStraight) {
  std::uint64_t retried = 0, lost = 0, refused = 0, flushes = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    Manual m(1 + below(4), SinkRunner::queue_cost(*make_step(1)) * (1 + below(6)));
    std::vector<std::uint64_t> taken;
    for (std::uint64_t ticket = 1; ticket <= 60; ++ticket) {
      if (below(4) == 0) {
        m.sink->fail_next(below(7),
                          below(2) == 0 ? FakeSink::Fault::status : FakeSink::Fault::exception);
      }
      if (m.runner.offer(make_step(ticket))) {
        taken.push_back(ticket);
      } else {
        ++refused;
      }
      if (below(8) == 0) flushes += m.runner.request_flush() > 0 ? 1u : 0u;
      for (unsigned i = below(4); i > 0; --i) m.runner.pump();
      if (below(3) == 0) m.now += below(30) * kMs;
    }
    if (seed % 2 == 0) m.settle();
    m.runner.stop(seed % 3 == 0 ? 0s : 10s);

    const SinkStats stats = m.runner.stats();
    EXPECT_EQ(stats.steps + stats.lost_steps, taken.size());
    EXPECT_EQ(stats.lost_steps, m.lost.size());
    EXPECT_EQ(stats.queued_steps, 0u);
    EXPECT_TRUE(m.runner.reached(m.runner.enqueued()));
    std::vector<std::uint64_t> settled = m.lost;
    std::uint64_t failures = 0, before = 0;
    for (const std::string& line : m.sink->log()) {
      if (line.back() == '!') {
        ++failures;
      } else if (line.starts_with("write ")) {
        settled.push_back(std::stoull(line.substr(6)));
        EXPECT_LT(before, settled.back());
        before = settled.back();
      }
    }
    std::sort(settled.begin(), settled.end());
    EXPECT_EQ(settled, taken);
    EXPECT_EQ(stats.failures, failures);
    retried += failures;
    lost += stats.lost_steps;
  }
  EXPECT_GT(retried, 1000u);
  EXPECT_GT(lost, 1000u);
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(flushes, 1000u);
}

}  // namespace
}  // namespace graphtap
