#include "cli/report/run_history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace graphtap::cli {
namespace {

constexpr std::size_t kHooks = 4;
constexpr std::int64_t kMs = 1'000'000, kBegan = 1'700'000'000'000'000'000;

/// A run of `steps` stored steps whose first and last end are given.
class KnownRun {
 public:
  KnownRun(std::uint64_t steps, std::int64_t last) {
    info_.hooks.resize(kHooks);
    summary_.run = &info_;
    summary_.steps = steps;
    summary_.first_end_unix_ns = kBegan;
    summary_.last_end_unix_ns = kBegan + last;
  }
  [[nodiscard]] const RunSummary& summary() const { return summary_; }

  static StepView step(std::uint64_t number, std::int64_t end, std::vector<HookId> wanted,
                       std::uint32_t lane = 0, std::uint64_t version = 1) {
    StepView step;
    step.info.step = number;
    step.info.end_unix_ns = kBegan + end;
    step.info.lane = lane;
    step.info.set_version = version;
    step.wanted = HookSet::of(kHooks, wanted);
    return step;
  }

 private:
  RunInfo info_;
  RunSummary summary_;
};

std::string states(const RunHistory& history, HookId hook) {
  std::string text;
  for (std::size_t i = 0; i < history.buckets(); ++i) {
    const RunHistory::On on = history.on(hook, i);
    text += on == RunHistory::On::all ? '#' : on == RunHistory::On::some ? '+' : '.';
  }
  return text;
}

TEST(RunHistory, AStepStandsForTheTimeSinceTheOneBeforeUnlessStepsBetweenAreNotStored) {
  const KnownRun run(10, 9 * kMs);
  RunHistory history(run.summary());
  ASSERT_EQ(history.buckets(), 10u);
  history.take(KnownRun::step(0, 0, {0}));
  history.take(KnownRun::step(1, 4 * kMs, {0, 1}));  // a slow step
  history.take(KnownRun::step(5, 9 * kMs, {2}));     // steps 2 to 4 captured nothing
  EXPECT_EQ(states(history, 0), "#####.....");
  EXPECT_EQ(states(history, 1), ".####.....");
  EXPECT_EQ(states(history, 2), ".........#");
  EXPECT_FALSE(history.ever_on(3));
  EXPECT_EQ(history.intervals().count(), 1u);  // not the one across the hole
  EXPECT_EQ(history.intervals().most(), 4 * kMs);
}

TEST(RunHistory, WhatWasOnInSomeStepsOfABucketIsNotDrawnAsOnInAll) {
  const KnownRun run(RunHistory::kMostBuckets * 2, 479 * kMs);
  RunHistory history(run.summary());
  ASSERT_EQ(history.buckets(), RunHistory::kMostBuckets);
  for (std::uint64_t i = 0; i < 480; ++i) {
    history.take(KnownRun::step(i, static_cast<std::int64_t>(i) * kMs,
                                i % 2 == 0 ? std::vector<HookId>{0, 1} : std::vector<HookId>{0}));
  }
  EXPECT_EQ(states(history, 0).find_first_not_of('#'), std::string::npos);
  EXPECT_GT(std::ranges::count(states(history, 1), '+'), 230);
}

TEST(RunHistory, PartsOfOneStepAreOneStep) {
  const KnownRun run(3, 1 * kMs);
  RunHistory history(run.summary());
  history.take(KnownRun::step(0, 0, {0}));
  StepView part = KnownRun::step(0, 0, {1});
  part.info.part = 1;
  history.take(part);
  history.take(KnownRun::step(1, 1 * kMs, {0, 1}));
  EXPECT_EQ(history.lanes().at(0).steps, 2u);
  EXPECT_EQ(history.intervals().count(), 1u);
  EXPECT_EQ(history.on(0, 0), RunHistory::On::all);
  EXPECT_EQ(history.on(1, 0), RunHistory::On::all);
}

TEST(RunHistory, LossesStandAtTheEndOfTheirStepByReason) {
  const KnownRun run(10, 9 * kMs);
  RunHistory history(run.summary());
  const Hook hook;
  history.take(KnownRun::step(0, 0, {0}));
  StepView step = KnownRun::step(1, 5 * kMs, {0, 1});
  step.gaps = {{&hook, 0, GapReason::shed_ring, {}},
               {&hook, 0, GapReason::shed_ring, {}},
               {&hook, 0, GapReason::not_fired, {}}};
  history.take(step);
  ASSERT_EQ(history.lost().size(), 2u);
  EXPECT_EQ(history.lost().at(GapReason::shed_ring)[5], 2u);
  EXPECT_EQ(history.lost().at(GapReason::not_fired)[5], 1u);
  EXPECT_EQ(history.lost().at(GapReason::shed_ring)[4], 0u);
}

TEST(RunHistory, VersionsComeOnceAndAreBounded) {
  const std::uint64_t steps = RunHistory::kMostChanges + 20;
  const KnownRun run(steps, static_cast<std::int64_t>(steps) * kMs);
  RunHistory history(run.summary());
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto end = static_cast<std::int64_t>(i) * kMs;
    history.take(KnownRun::step(i, end, {0}, 0, i + 7));
    history.take(KnownRun::step(i, end, {0}, 1, i + 6));  // a lane that is one version behind
  }
  EXPECT_EQ(history.changes().size(), RunHistory::kMostChanges);
  EXPECT_EQ(history.changes_left_out(), 20u);
  EXPECT_EQ(history.changes().front().version, 7u);
  EXPECT_EQ(history.lanes().size(), 2u);
}

TEST(RunHistory, StepsWithoutATimeAndManyLanesAreCounted) {
  const KnownRun run(2, 0);
  RunHistory history(run.summary());
  StepView step = KnownRun::step(0, 0, {0});
  step.info.end_unix_ns = 0;
  history.take(step);
  EXPECT_EQ(history.steps_without_time(), 1u);
  for (std::uint32_t lane = 0; lane < 40; ++lane) history.take(KnownRun::step(0, 0, {0}, lane));
  EXPECT_EQ(history.lanes().size(), RunHistory::kMostLanes);
  EXPECT_EQ(history.lanes_left_out(), 40 - RunHistory::kMostLanes);
}

TEST(Durations, QuantilesAreThoseOfTheSortedValues) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> spread(12 + static_cast<double>(seed % 5), 2.0);
    Durations durations, half;
    std::vector<std::int64_t> values;
    for (int i = 0; i < 3000; ++i) {
      values.push_back(static_cast<std::int64_t>(spread(random)) + 1);
      (i % 2 == 0 ? durations : half).add(values.back());
    }
    durations.add(half);
    std::sort(values.begin(), values.end());
    for (const double share : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * 3000))) - 1;
      const auto exact = static_cast<double>(values[rank]);
      EXPECT_NEAR(durations.quantile(share), exact, exact * 0.012 + 1) << seed << " " << share;
    }
    std::uint64_t all = 0;
    for (const std::uint64_t count : durations.histogram(64)) all += count;
    EXPECT_EQ(all, values.size());
  }
  EXPECT_EQ(Durations().quantile(0.5), 0);
}

TEST(Durations, AreWrittenInUnitsAPersonReads) {
  EXPECT_EQ(duration_text(850), "850 ns");
  EXPECT_EQ(duration_text(1'250'000), "1.25 ms");
  EXPECT_EQ(duration_text(90e9), "90.0 s");
  EXPECT_EQ(duration_text(7200e9), "2.00 h");
}

}  // namespace
}  // namespace graphtap::cli
