#include "cli/graph/traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace graphtap::cli {
namespace {

struct Seen {
  std::int64_t cached = 0, most = 0;
  bool joined = false, finished = false;
};

// Every step of `seed`'s traffic, checked against what continuous batching may do. Returns what
// happened.
struct Tally {
  std::uint64_t steps = 0, prefills = 0, preemptions = 0, recomputed = 0, widest = 0;
};
Tally follow(std::uint64_t seed) {
  Traffic::Options options;
  options.seed = seed;
  options.preempt = 0.1;
  Traffic traffic(options);
  std::map<std::uint64_t, Seen> requests;
  Tally tally;
  while (const auto step = traffic.next()) {
    if (++tally.steps > 100'000) {
      ADD_FAILURE() << "seed " << seed << " never ends";
      break;
    }
    for (const std::uint64_t number : step->preempted) {
      requests[number].cached = 0;
      ++tally.preemptions;
    }
    std::set<std::uint64_t> in_step;
    for (const TrafficSpan& span : step->spans) {
      Seen& seen = requests[span.request];
      EXPECT_TRUE(in_step.insert(span.request).second) << "seed " << seed;
      EXPECT_FALSE(seen.finished) << "seed " << seed;
      EXPECT_EQ(span.first, seen.cached) << "seed " << seed << ": tokens come in order";
      tally.recomputed += span.first < seen.most ? 1u : 0u;
      seen.cached += span.rows;
      seen.most = std::max(seen.most, seen.cached);
      EXPECT_LE(span.rows, step->prefill ? options.chunk : 1u) << "seed " << seed;
    }
    for (const std::uint64_t number : step->joined) {
      EXPECT_FALSE(std::exchange(requests[number].joined, true)) << "seed " << seed;
      EXPECT_TRUE(in_step.contains(number));
    }
    for (const std::uint64_t number : step->finished) requests[number].finished = true;
    EXPECT_FALSE(step->spans.empty()) << "seed " << seed << ": an empty step";
    EXPECT_LE(step->spans.size(), step->prefill ? 1u : options.most_running);
    tally.prefills += step->prefill ? 1u : 0u;
    tally.widest = std::max<std::uint64_t>(tally.widest, step->spans.size());
  }
  EXPECT_EQ(requests.size(), options.requests) << "seed " << seed;
  for (const TrafficRequest& request : traffic.requests()) {
    const Seen& seen = requests[request.number];
    EXPECT_TRUE(seen.finished && seen.joined) << "seed " << seed;
    EXPECT_EQ(seen.most, request.length) << "seed " << seed;
    EXPECT_GT(request.length, request.prompt) << "seed " << seed;
  }
  return tally;
}

TEST(Traffic, C1_RequestsJoinLeaveAndAreResumedInOrder) {
  Tally all;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Tally tally = follow(seed);
    all.prefills += tally.prefills;
    all.preemptions += tally.preemptions;
    all.recomputed += tally.recomputed;
    all.widest = std::max(all.widest, tally.widest);
  }
  EXPECT_GE(all.preemptions, 200u);
  EXPECT_GE(all.recomputed, 200u);
  EXPECT_GE(all.prefills, 200u);
  EXPECT_EQ(all.widest, 8u);
}

TEST(Traffic, OneSeedIsOneTraffic) {
  Traffic::Options options;
  options.seed = 5;
  Traffic a(options), b(options);
  for (;;) {
    const auto left = a.next(), right = b.next();
    ASSERT_EQ(left.has_value(), right.has_value());
    if (!left) break;
    ASSERT_EQ(left->spans.size(), right->spans.size());
    for (std::size_t i = 0; i < left->spans.size(); ++i) {
      EXPECT_EQ(left->spans[i].request, right->spans[i].request);
      EXPECT_EQ(left->spans[i].first, right->spans[i].first);
    }
  }
}

}  // namespace
}  // namespace graphtap::cli
