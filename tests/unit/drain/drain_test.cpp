// The drain over the cooperative host device: order, chunks, back-pressure, refusals, loss and the
// end.
#include "drain/drain.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "device/host/host_device.hpp"
#include "plan/planner.hpp"
#include "plan/tickets.hpp"
#include "plan/wire.hpp"
#include "unit/sinks/fake_sink.hpp"

namespace graphtap {
namespace {

using test::FakeSink;
using test::Log;

constexpr std::uint64_t kPatienceNs = 1'000'000;

std::shared_ptr<const HookTable> one_hook() {
  HookTable table("m");
  HookSpec spec;
  spec.type = "resid_pre";
  spec.layer = 0;
  spec.row_shape = {4};
  EXPECT_TRUE(table.add(std::move(spec)).ok());
  return std::make_shared<const HookTable>(std::move(table));
}

struct Options {
  std::uint64_t ring = 16 << 20, staging = 16 << 20;
  std::uint64_t queue = 64 << 20;
  std::uint32_t attempts = 1;
  std::uint64_t seed = 1;
};

struct Rig {
  explicit Rig(const Options& options = {})
      : host(std::make_shared<HostDevice>(
            HostOptions{HostMode::cooperative, options.seed, 0.0, true, 0})),
        table(one_hook()),
        events(*host),
        accounts(table->size()),
        fake(std::make_shared<FakeSink>()) {
    engine = host->create_stream().value();
    while (copy_streams.size() < Copier::kStreams) {
      copy_streams.push_back(host->create_stream().value());
    }
    ring = FrameRing::make(
        host->allocate(options.ring).value(), options.ring, 7,
        [device = host](std::byte* m) { device->free(m); },
        [device = host](std::byte* m) { device->retain(m); });
    staging = FrameRing::make(host->allocate_pinned(options.staging).value(), options.staging, 0,
                              [device = host](std::byte* m) { device->free_pinned(m); });
    sinks.push_back(std::make_unique<SinkRunner>(
        fake,
        RetryPolicy{options.attempts, std::chrono::milliseconds(1), std::chrono::milliseconds(1)},
        options.queue, true, [this] { return host->now_ns(); }));
    drain = std::make_unique<Drain>(
        DrainParts{*host, events, table, staging, accounts, ledger, outstanding, lost, sinks},
        Ranks{}, kPatienceNs, copy_streams);
  }

  /// A step whose one record is written by hand, as if its producer had run.
  EndedFrame step(std::uint64_t rows, std::uint32_t lane = 0) {
    auto plan = std::make_shared<StepPlan>();
    plan->lane = lane;
    plan->step = next_step++;
    plan->kind = StepKind::eager;
    plan->sequence = outstanding.open();
    plan->wanted = plan->captured = table->all();
    PlannedRecord record;
    record.rows = static_cast<std::uint32_t>(rows);
    record.row_bytes = 16;
    record.fired = true;
    FramePlan frame;
    frame.records.push_back(record);
    lay_out(frame, plan->kind, 1);
    frame.ticket = next_ticket();
    frame.loan = ring->try_lend(frame.bytes);
    EXPECT_NE(frame.loan, nullptr);
    const wire::RecordHead head{frame.loan->magic(), frame.ticket, 0, 0, record.rows, rows * 16};
    std::memcpy(frame.loan->data() + frame.records[0].offset, &head, sizeof(head));
    plan->frames.push_back(std::move(frame));
    accounts.planned(*plan);
    EndedFrame ended;
    ended.plan = plan;
    ended.lane = lane;
    ended.sequence = plan->sequence;
    return ended;
  }
  /// Its end lies behind what `engine` was given.
  EndedFrame running_step(std::uint64_t rows, std::uint32_t lane = 0) {
    EndedFrame ended = step(rows, lane);
    ended.event = events.record(engine).value();
    return ended;
  }

  void settle() {
    for (int quiet = 0; quiet < 40;) {
      bool moved = drain->pump();
      for (const auto& sink : sinks) moved |= sink->pump();
      moved |= host->run_one();
      quiet = moved ? 0 : quiet + 1;
    }
  }
  [[nodiscard]] Stats stats() const {
    Stats stats;
    accounts.fill(stats);
    return stats;
  }
  [[nodiscard]] std::uint64_t gaps(GapReason reason) const { return stats().total.gap(reason); }
  [[nodiscard]] std::string wrote(const EndedFrame& ended) const {
    return "write " + std::to_string(ended.frame_plan().ticket);
  }

  std::shared_ptr<HostDevice> host;
  std::shared_ptr<const HookTable> table;
  EventPool events;
  Accounts accounts;
  RequestLedger ledger;
  Outstanding outstanding;
  std::shared_ptr<std::atomic<bool>> lost = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<FakeSink> fake;
  std::vector<std::unique_ptr<SinkRunner>> sinks;
  std::shared_ptr<FrameRing> ring, staging;
  Stream engine{};
  std::vector<Stream> copy_streams;
  std::unique_ptr<Drain> drain;
  std::uint64_t next_step = 0;
};

TEST(Drain, CopiesLargeFramesInTurns) {
  Rig rig;
  rig.drain->add(rig.step(9 * (1 << 20) / 16));
  rig.settle();
  EXPECT_EQ(rig.host->calls(Call::download), 3u) << "9 MiB and a bit in turns of at most 4 MiB";
  EXPECT_EQ(rig.stats().total.delivered, 1u);
  EXPECT_EQ(rig.ring->used(), 0u);
  EXPECT_EQ(rig.staging->used(), 0u);
}

// A copy stream that always has something to do keeps the copy engine for itself: the engine's own
// copies would wait for as long as ours go on.
TEST(Drain, NoStreamIsGivenMoreThanOneTurn) {
  Rig rig;
  constexpr std::uint64_t kFrames = 40, kRows = (384 << 10) / 16;  // 10 frames a turn
  std::uint64_t downloads = 0;
  for (std::uint64_t i = 0; i < kFrames; ++i) rig.drain->add(rig.step(kRows));
  for (int i = 0; i < 5; ++i) (void)rig.drain->pump();
  for (const Stream stream : rig.copy_streams) {
    EXPECT_GT(rig.host->pending(stream), 0u);
    // A part of a frame at either end, and the event.
    EXPECT_LE(rig.host->pending(stream), Copier::kTurnBytes / (kRows * 16) + 3);
  }
  downloads = rig.host->calls(Call::download);
  EXPECT_LE(downloads * kRows * 16, Copier::kStreams * (Copier::kTurnBytes + kRows * 16));
  for (int i = 0; i < 5; ++i) (void)rig.drain->pump();
  EXPECT_EQ(rig.host->calls(Call::download), downloads) << "nothing was done meanwhile";
  rig.settle();
  EXPECT_EQ(rig.stats().total.delivered, kFrames);
}

// A download that was refused may have been carried out all the same, while what is tried again
// runs on the other stream: the frame's memory must outlive both.
TEST(Drain, I4_MemoryOutlivesACopyThatWasRefusedAndMadeAfterAll) {
  int waited = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Options options;
    options.seed = seed;
    Rig rig(options);
    rig.drain->add(rig.step(4));
    (void)rig.drain->pump();
    rig.host->faults().fail_next(Call::download, 1, FaultMode::after);
    for (int i = 0; i < 100 && rig.ring->used() > 0; ++i) {
      (void)rig.drain->pump();
      (void)rig.sinks[0]->pump();
      waited += rig.host->pending(rig.copy_streams[0]) != rig.host->pending(rig.copy_streams[1]);
      (void)rig.host->run_one();
    }
    EXPECT_EQ(rig.ring->used(), 0u);
    for (const Stream stream : rig.copy_streams) {
      EXPECT_EQ(rig.host->pending(stream), 0u) << "a copy may still be made from memory given back";
    }
    rig.settle();
    EXPECT_EQ(rig.stats().total.delivered, 1u);
  }
  EXPECT_GT(waited, 50);
}

TEST(Drain, CopiesOnlyAfterTheStepsEnd) {
  Rig rig;
  EndedFrame ended = rig.running_step(4);
  const std::string written = rig.wrote(ended);
  rig.drain->add(std::move(ended));
  for (int i = 0; i < 5; ++i) (void)rig.drain->pump();
  EXPECT_EQ(rig.host->calls(Call::download), 0u);
  EXPECT_FALSE(rig.drain->empty());
  rig.settle();
  EXPECT_EQ(rig.fake->log(), Log{written});
  EXPECT_TRUE(rig.drain->empty());
  EXPECT_EQ(rig.outstanding.count(), 0u);
}

TEST(Drain, I5_StepsOfALaneAreDeliveredInOrderWhicheverCopyIsDoneFirst) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Rig rig;
    Log expected;
    for (int i = 0; i < 6; ++i) {
      // Some end at once, some when the engine gets there; a failed one needs no copy at all.
      EndedFrame ended = random.chance(0.5) ? rig.running_step(1 + random.below(8))
                                            : rig.step(1 + random.below(8));
      if (random.chance(0.3)) ended.frame_plan().fail(GapReason::aborted);
      expected.push_back(rig.wrote(ended));
      rig.drain->add(std::move(ended));
      if (random.chance(0.5)) (void)rig.drain->pump();
      if (random.chance(0.5)) (void)rig.host->run_one();
    }
    rig.settle();
    EXPECT_EQ(rig.fake->log(), expected);
  }
}

TEST(Drain, OneLaneDoesNotWaitForAnother) {
  Rig rig;
  const Event never = rig.host->create_event().value();
  ASSERT_TRUE(
      rig.host->record(never, rig.engine).ok());  // the engine's stream does not move by itself
  EndedFrame stuck = rig.step(4, 0);
  stuck.event = never;
  rig.drain->add(std::move(stuck));
  EndedFrame free = rig.step(4, 1);
  const std::string written = rig.wrote(free);
  rig.drain->add(std::move(free));
  for (int i = 0; i < 10; ++i) {
    (void)rig.drain->pump();
    for (const Stream stream : rig.copy_streams) {
      if (rig.host->pending(stream) == 0 || rig.host->pending(rig.engine) != 1) continue;
      const Event copies = rig.events.record(stream).value();
      ASSERT_TRUE(rig.host->synchronize(copies).ok());
      rig.events.give_back(copies);
    }
    (void)rig.sinks[0]->pump();
  }
  EXPECT_FALSE(rig.fake->log().empty());
  EXPECT_EQ(rig.fake->log()[0], written);
}

TEST(Drain, D2_FullStagingHoldsFramesBackUntilASinkHasTakenWhatIsThere) {
  Options options;
  options.staging = 8192;
  Rig rig(options);
  for (int i = 0; i < 4; ++i) rig.drain->add(rig.step(400));  // 6.4 kB each: one at a time
  for (int i = 0; i < 20; ++i) {
    (void)rig.drain->pump();
    (void)rig.host->run_one();
  }
  EXPECT_EQ(rig.host->calls(Call::download), 1u) << "the sink still holds the first";
  rig.settle();
  EXPECT_EQ(rig.fake->log().size(), 4u);
  EXPECT_EQ(rig.stats().total.delivered, 4u);
}

TEST(Drain, D2_ASinkThatTakesNothingLosesAStepOnceThePatienceIsOver) {
  Options options;
  options.queue = 1;  // one step at a time
  Rig rig(options);
  rig.drain->add(rig.step(4));
  rig.drain->add(rig.step(4));
  for (int i = 0; i < 20; ++i) {
    (void)rig.drain->pump();
    (void)rig.host->run_one();
  }
  EXPECT_FALSE(rig.drain->empty()) << "the second waits for the sink";
  while (!rig.drain->empty()) {
    (void)rig.drain->pump();
    rig.host->idle();  // time passes
    ASSERT_LT(rig.host->now_ns(), 100 * kPatienceNs);
  }
  EXPECT_EQ(rig.sinks[0]->stats().lost_steps, 1u);
  EXPECT_EQ(rig.outstanding.count(), 0u);
}

TEST(Drain, A7_AFewRefusalsDelayAFrameAndLoseNothing) {
  for (const Call call : {Call::query, Call::download, Call::record}) {
    for (const auto& [mode, rows, skip] :
         {std::tuple{FaultMode::before, 4u, 0u}, std::tuple{FaultMode::after, 4u, 0u},
          std::tuple{FaultMode::before, 600'000u, 1u}, std::tuple{FaultMode::after, 600'000u, 1u},
          std::tuple{FaultMode::before, 600'000u, 2u}}) {
      SCOPED_TRACE(to_string(call));
      Rig rig;
      EndedFrame ended = rig.running_step(rows);
      rig.host->faults().fail_next(call, Drain::kAttempts - 1, mode, skip);
      rig.drain->add(std::move(ended));
      rig.settle();
      EXPECT_EQ(rig.stats().total.delivered, 1u);
      EXPECT_EQ(rig.drain->device_errors(), Drain::kAttempts - 1);
      EXPECT_NE(rig.drain->last_device_error().find("cudaError"), std::string::npos);
      EXPECT_EQ(rig.ring->used(), 0u);
      EXPECT_EQ(rig.staging->used(), 0u);
    }
  }
}

// What the device refuses too often is a gap; its memory is held back until the device can be asked
// again, and no longer: a ring that stays blocked would shed every later step.
TEST(Drain, I4_AFrameThatIsGivenUpKeepsItsMemoryUntilTheDeviceAnswers) {
  for (const Call call : {Call::query, Call::download, Call::record}) {
    SCOPED_TRACE(to_string(call));
    Rig rig;
    EndedFrame ended = rig.running_step(4);
    rig.host->faults().set_rate(call, 1.0, FaultMode::before);
    rig.drain->add(std::move(ended));
    for (std::uint32_t i = 0; i < 5 * Drain::kAttempts; ++i) {
      (void)rig.drain->pump();
      (void)rig.sinks[0]->pump();
      (void)rig.host->run_one();
    }
    EXPECT_EQ(rig.gaps(GapReason::device_error), 1u);
    EXPECT_TRUE(rig.drain->empty()) << "the step is settled";
    EXPECT_EQ(rig.outstanding.count(), 0u);
    const bool known_to_be_done =
        call == Call::download;  // what was copied could still be asked for
    EXPECT_EQ(rig.ring->used() == 0, known_to_be_done);
    EXPECT_EQ(rig.drain->resting(), known_to_be_done);
    rig.host->faults().clear();
    rig.settle();
    EXPECT_EQ(rig.ring->used(), 0u);
    EXPECT_EQ(rig.staging->used(), 0u);
    EXPECT_TRUE(rig.drain->resting());
    rig.drain->add(rig.step(4));
    rig.settle();
    EXPECT_EQ(rig.stats().total.delivered, 1u);
    EXPECT_EQ(rig.host->containment_violations(), 0u);
  }
}

// The device answers again, and says that the engine has not got there: its producers may still
// write.
TEST(Drain, I4_AFrameThatIsGivenUpIsNotReusedBeforeItsStepHasEnded) {
  Rig rig;
  ASSERT_TRUE(rig.host->compute(rig.engine, [] {}).ok());
  EndedFrame ended = rig.running_step(4);
  rig.host->faults().fail_next(Call::query, Drain::kAttempts, FaultMode::before);
  rig.drain->add(std::move(ended));
  for (std::uint32_t i = 0; i < 3 * Drain::kAttempts; ++i)
    (void)rig.drain->pump();  // the engine rests
  EXPECT_EQ(rig.gaps(GapReason::device_error), 1u);
  EXPECT_GT(rig.ring->used(), 0u);
  rig.settle();
  EXPECT_EQ(rig.ring->used(), 0u);
}

TEST(Drain, ALostDeviceEndsWhatIsInFlightAndIsNotCalledAgain) {
  for (const Call call : {Call::query, Call::download, Call::record}) {
    SCOPED_TRACE(to_string(call));
    Rig rig;
    EndedFrame first = rig.running_step(4);
    EndedFrame second = rig.running_step(4);
    rig.host->faults().fail_next(call, 1, FaultMode::sticky);
    rig.drain->add(std::move(first));
    rig.drain->add(std::move(second));
    rig.settle();
    EXPECT_TRUE(rig.drain->device_lost());
    EXPECT_TRUE(*rig.lost);
    EXPECT_TRUE(rig.drain->empty());
    EXPECT_EQ(rig.stats().total.delivered + rig.gaps(GapReason::device_lost), 2u);
    EXPECT_GE(rig.gaps(GapReason::device_lost), 1u);
    EXPECT_EQ(rig.host->calls_after_loss(), 0u);
    EXPECT_EQ(rig.fake->log().size(), 2u) << "sinks get the gaps";
  }
}

TEST(Drain, D5_GivenUpFramesBecomeGapsOfThatReason) {
  Rig rig;
  rig.drain->add(rig.running_step(4));
  rig.drain->add(rig.running_step(4));
  rig.drain->give_up(GapReason::shutdown);
  const std::uint64_t calls = rig.host->calls();
  while (rig.drain->pump()) {
  }
  EXPECT_EQ(rig.gaps(GapReason::shutdown), 2u);
  EXPECT_EQ(rig.host->calls(), calls) << "no device call is made for what is given up";
  EXPECT_TRUE(rig.drain->empty());
  EXPECT_GT(rig.ring->used(), 0u) << "the device may still write there";
  std::byte* const memory = rig.ring->try_lend(16)->data();
  const std::size_t live = rig.host->live_allocations();
  rig.drain.reset();
  rig.ring.reset();
  EXPECT_LT(rig.host->live_allocations(), live) << "kept: it counts no more as ours";
  ASSERT_TRUE(rig.host->fill(rig.engine, memory, std::byte{1}, 16).ok());
  rig.host->run_until_idle();
  EXPECT_EQ(rig.host->containment_violations(), 0u) << "and it is still there";
}

TEST(Drain, D5_WhatComesAfterCloseIsCountedAndItsMemoryKept) {
  Rig rig;
  EndedFrame late = rig.running_step(4);
  late.frame_plan().records[0].gap = std::nullopt;
  PlannedRecord shed = late.frame_plan().records[0];
  shed.gap = GapReason::shed_ring;
  late.frame_plan().shed.push_back(shed);
  const std::size_t live_events = rig.host->live_events();
  rig.drain->close();
  rig.drain->add(std::move(late));
  EXPECT_TRUE(rig.drain->empty());
  EXPECT_EQ(rig.gaps(GapReason::shutdown), 1u);
  EXPECT_EQ(rig.gaps(GapReason::shed_ring), 1u);
  EXPECT_EQ(rig.outstanding.count(), 0u);
  EXPECT_EQ(rig.host->live_events(), live_events);
  EXPECT_EQ(rig.events.record(rig.engine).ok(), true);
  EXPECT_EQ(rig.host->live_events(), live_events) << "its event came back to the pool";
}

TEST(Drain, D3_ACompletionFollowsTheLastRecordIntoTheSink) {
  Rig rig;
  EndedFrame ended = rig.running_step(4);
  const std::string written = rig.wrote(ended);
  const auto request = std::make_shared<RequestInfo>(RequestInfo{9, "nine", 0});
  rig.ledger.hold({RequestEvent::Kind::finished, request, 0, 0, true, 0, 0},
                  rig.outstanding.last());
  for (int i = 0; i < 5; ++i) (void)rig.drain->pump();
  EXPECT_EQ(rig.sinks[0]->enqueued(), 0u) << "the step is open";
  rig.drain->add(std::move(ended));
  rig.settle();
  EXPECT_EQ(rig.fake->log(), (Log{written, "event 9"}));
}

TEST(Drain, AFenceReleasesWhatItHoldsAndDeliversNothing) {
  Rig rig;
  EndedFrame fence;
  fence.event = rig.events.record(rig.engine).value();
  fence.held.push_back(rig.ring->try_lend(64));
  rig.drain->add(std::move(fence));
  for (int i = 0; i < 3; ++i) (void)rig.drain->pump();
  EXPECT_EQ(rig.ring->used(), 64u);
  rig.settle();
  EXPECT_EQ(rig.ring->used(), 0u);
  EXPECT_TRUE(rig.fake->log().empty());
  EXPECT_EQ(rig.stats().steps_delivered, 0u);
}

TEST(Drain, A17_CountsStepsNotFrames) {
  Rig rig;
  EndedFrame part = rig.step(4);
  part.last = false;
  EndedFrame rest = part;
  rest.last = true;
  rest.plan = std::make_shared<StepPlan>(*part.plan);
  rig.drain->add(std::move(part));
  rig.settle();
  EXPECT_EQ(rig.stats().steps_delivered, 0u);
  EXPECT_EQ(rig.outstanding.count(), 1u);
  rig.drain->add(std::move(rest));
  rig.settle();
  EXPECT_EQ(rig.stats().steps_delivered, 1u);
  EXPECT_EQ(rig.outstanding.count(), 0u);
}

}  // namespace
}  // namespace graphtap
