// Outstanding, RequestLedger and Accounts against naive models.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "device/host/random.hpp"
#include "drain/accounts.hpp"
#include "drain/outstanding.hpp"
#include "drain/request_ledger.hpp"

namespace graphtap {
namespace {

Request request(std::uint64_t serial) {
  return std::make_shared<RequestInfo>(RequestInfo{serial, "r" + std::to_string(serial), 0});
}

RequestEvent finished(Request of) {
  return {RequestEvent::Kind::finished, std::move(of), 0, 0, true, 0, 0};
}

TEST(Outstanding, D3_SettledThroughMeansEveryStepUpToThere) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Outstanding outstanding;
    std::set<std::uint64_t> open;
    std::uint64_t last = 0;
    for (int step = 0; step < 60; ++step) {
      if (open.empty() || random.chance(0.5)) {
        const std::uint64_t sequence = outstanding.open();
        EXPECT_EQ(sequence, ++last);
        open.insert(sequence);
      } else {
        auto it = open.begin();
        std::advance(it, random.below(open.size()));
        outstanding.settle(*it);
        open.erase(it);
      }
      EXPECT_EQ(outstanding.last(), last);
      EXPECT_EQ(outstanding.count(), open.size());
      for (std::uint64_t upto = 0; upto <= last; ++upto) {
        const bool none_open = open.empty() || *open.begin() > upto;
        ASSERT_EQ(outstanding.settled_through(upto), none_open) << upto;
      }
    }
  }
}

TEST(RequestLedger, D3_EventsComeInOrderBehindEveryStepBegunBeforeThem) {
  int finished_events = 0, invalid = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Outstanding outstanding;
    RequestLedger ledger;
    std::set<std::uint64_t> open;
    struct Truth {
      std::uint64_t records = 0, gaps = 0;
    };
    std::map<std::uint64_t, Truth> truth;
    std::map<std::uint64_t, std::uint64_t> barriers;  // by request
    std::vector<std::uint64_t> expected_order;
    std::size_t taken = 0;
    std::uint64_t next_serial = 1;
    for (int step = 0; step < 80; ++step) {
      const std::uint64_t what = random.below(5);
      if (what == 0) {
        open.insert(outstanding.open());
      } else if (what == 1 && !open.empty()) {
        auto it = open.begin();
        std::advance(it, random.below(open.size()));
        outstanding.settle(*it);
        open.erase(it);
      } else if (what == 2) {
        const std::uint64_t serial = next_serial++;
        ledger.hold(finished(request(serial)), outstanding.last());
        barriers[serial] = outstanding.last();
        expected_order.push_back(serial);
      } else if (what == 3) {  // rows of some requests that are not finished yet
        std::vector<Slice> slices;
        std::set<std::uint64_t> in_it;
        for (std::uint64_t i = 0; i < random.below(4); ++i) {
          const std::uint64_t serial = next_serial + random.below(3);
          slices.push_back({random.chance(0.2) ? nullptr : request(serial), 0, 0, 1});
          if (slices.back().request) in_it.insert(serial);
        }
        const std::uint64_t records = random.below(3), gaps = random.chance(0.1) ? 1 : 0;
        ledger.tally(slices, records, gaps);
        for (const std::uint64_t serial : in_it) {
          truth[serial].records += records;
          truth[serial].gaps += gaps;
        }
      } else {
        for (const RequestEvent& event : ledger.take_ready(outstanding)) {
          ASSERT_LT(taken, expected_order.size());
          const std::uint64_t serial = event.request->serial;
          EXPECT_EQ(serial, expected_order[taken++]) << "order";
          EXPECT_TRUE(open.empty() || *open.begin() > barriers[serial]) << "too early";
          EXPECT_EQ(event.records, truth[serial].records);
          EXPECT_EQ(event.gaps, truth[serial].gaps);
          EXPECT_EQ(event.valid, truth[serial].gaps == 0);
          ++finished_events;
          invalid += !event.valid;
        }
        if (taken < expected_order.size()) {  // none is held back longer than it must
          EXPECT_TRUE(!open.empty() && *open.begin() <= barriers[expected_order[taken]]);
          EXPECT_TRUE(ledger.holds_through(barriers[expected_order[taken]]));
          EXPECT_TRUE(barriers[expected_order[taken]] == 0 ||
                      !ledger.holds_through(barriers[expected_order[taken]] - 1));
        }
      }
    }
  }
  EXPECT_GT(finished_events, 1000);
  EXPECT_GT(invalid, 20);
}

TEST(RequestLedger, D3_ARequestInSeveralSlicesOfARecordIsCountedOnce) {
  Outstanding outstanding;
  RequestLedger ledger;
  const Request a = request(1), b = request(2);
  ledger.tally(std::vector<Slice>{{a, 0, 0, 1}, {b, 0, 1, 1}, {a, 1, 2, 1}}, 5, 1);
  ledger.hold(finished(a), 0);
  ledger.hold(finished(b), 0);
  const auto events = ledger.take_ready(outstanding);
  ASSERT_EQ(events.size(), 2u);
  for (const RequestEvent& event : events) {
    EXPECT_EQ(event.records, 5u);
    EXPECT_EQ(event.gaps, 1u);
  }
}

TEST(RequestLedger, D5_TheRestIsHandedOutAsNotValid) {
  Outstanding outstanding;
  RequestLedger ledger;
  (void)outstanding.open();
  ledger.hold({RequestEvent::Kind::rejected, request(1), 3, 5, true, 0, 0}, outstanding.last());
  ledger.hold(finished(request(1)), outstanding.last());
  EXPECT_TRUE(ledger.take_ready(outstanding).empty());
  const auto rest = ledger.take_rest();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_TRUE(rest[0].valid) << "a rejection is what it is";
  EXPECT_FALSE(rest[1].valid);
  EXPECT_FALSE(ledger.holds_through(outstanding.last()));
}

StepPlan plan_of(const std::vector<std::pair<HookId, int>>& records_and_shed) {
  StepPlan plan;
  plan.frames.resize(2);
  for (const auto& [hook, shed] : records_and_shed) {
    PlannedRecord record;
    record.hook = hook;
    FramePlan& frame = plan.frames[hook % 2];
    (shed != 0 ? frame.shed : frame.records).push_back(record);
  }
  return plan;
}

TEST(Accounts, I3_TotalsAreTheSumOfWhatEveryThreadCounted) {
  constexpr std::size_t kHooks = 5;
  constexpr std::uint64_t kRounds = 500, kThreads = 4;
  Accounts accounts(kHooks);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&accounts] {
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        accounts.planned(plan_of({{0, 0}, {1, 0}, {1, 0}, {4, 1}}));
        accounts.delivered(0, 10);
        accounts.delivered(1, 7);
        accounts.gap(1, GapReason::fired_twice);
        accounts.gap(4, GapReason::shed_ring);
        accounts.step_delivered();
        accounts.step_empty();
        accounts.stalled(3);
        Stats stats;
        accounts.fill(stats);  // while others count
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Stats stats;
  accounts.fill(stats);
  const std::uint64_t n = kRounds * kThreads;
  EXPECT_EQ(stats.steps_planned, n);
  EXPECT_EQ(stats.steps_delivered, n);
  EXPECT_EQ(stats.steps_empty, n);
  EXPECT_EQ(stats.stalls, n);
  EXPECT_EQ(stats.stalled_ns, 3 * n);
  EXPECT_EQ(stats.total.planned, 4 * n);
  EXPECT_EQ(stats.total.delivered, 2 * n);
  EXPECT_EQ(stats.total.bytes, 17 * n);
  EXPECT_EQ(stats.total.missing(), n);
  EXPECT_EQ(stats.total.shed(), n);
  EXPECT_EQ(stats.total.planned,
            stats.total.delivered + stats.total.missing() + stats.total.shed());
  EXPECT_EQ(stats.hooks[1].gap(GapReason::fired_twice), n);
  EXPECT_EQ(stats.hooks[4].gap(GapReason::shed_ring), n);
  EXPECT_EQ(stats.hooks[2].planned, 0u);
}

TEST(Accounts, I3_EveryReasonIsEitherMissingOrShed) {
  for (std::size_t reason = 1; reason < kGapReasons; ++reason) {
    Accounts accounts(1);
    accounts.gap(0, static_cast<GapReason>(reason));
    Stats stats;
    accounts.fill(stats);
    EXPECT_EQ(stats.total.missing() + stats.total.shed(), 1u) << reason;
    EXPECT_EQ(stats.total.shed(), reason >= 32 ? 1u : 0u) << reason;
  }
}

TEST(Accounts, A17_EveryReasonHasItsName) {
  std::set<std::string> names;
  for (const int reason : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32, 33, 34, 35}) {
    names.insert(to_string(static_cast<GapReason>(reason)));
  }
  EXPECT_EQ(names.size(), 14u);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(to_string(static_cast<GapReason>(63)), "unknown");
}

}  // namespace
}  // namespace graphtap
