// Hooks switched while the model generates: what arrives is the schedule, token for token, and
// every row has the bits it has in a run with every hook on.
#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "integration/support/llama_support.hpp"

namespace graphtap::llama::test {
namespace {

constexpr std::uint32_t kNewTokens = 10;

const Captured& everything() {
  static const Captured kEverything = [] {
    Watched watched;
    watched.submit(three_prompts(kNewTokens));
    watched.run();
    return watched.captured();
  }();
  return kEverything;
}

using Cell = std::tuple<std::size_t, std::string, std::int64_t>;  // request, hook, token

std::set<Cell> cells(const Captured& captured) {
  std::set<Cell> all;
  for (const auto& [request, hooks] : captured.requests) {
    for (const auto& [hook, rows] : hooks) {
      for (const auto& [token, row] : rows) all.emplace(request, hook, token);
    }
  }
  return all;
}

/// Adds what a step with these spans captures when `set` is enabled.
void add_step(std::set<Cell>& expected, const std::vector<StepSpan>& spans, const HookTable& table,
              const HookSet& set) {
  for (const StepSpan& span : spans) {
    for (const HookId id : set.ids()) {
      const bool last_only = table[id].rows == RowBasis::requests;
      for (std::uint32_t i = last_only ? span.rows - 1 : 0; i < span.rows; ++i) {
        expected.emplace(span.generation, table[id].name, span.first_token + i);
      }
    }
  }
}

struct Change {
  std::uint64_t step;
  std::string selection;
};

void expect_schedule(const std::string& first, const std::vector<Change>& schedule) {
  MonitorOptions options;
  options.selection = first;
  Watched watched({}, options);
  Monitor& monitor = watched.monitor();
  std::vector<HookSet> enabled;
  watched.callbacks.before_step = [&](std::uint64_t step) {
    for (const Change& change : schedule) {
      if (change.step == step) {
        const Status status = monitor.enable(change.selection);
        EXPECT_TRUE(status.ok()) << status.message();
      }
    }
    enabled.push_back(monitor.enabled());
  };
  watched.submit(three_prompts(kNewTokens));
  watched.run();
  const auto& spans = watched.outputs().spans;
  ASSERT_EQ(enabled.size(), spans.size());
  ASSERT_GT(spans.size(), schedule.back().step) << "the schedule outlasts the run";
  std::set<Cell> expected;
  for (std::size_t step = 0; step < spans.size(); ++step) {
    add_step(expected, spans[step], watched.session().table(), enabled[step]);
  }
  const Captured captured = watched.captured();
  EXPECT_EQ(cells(captured), expected);
  EXPECT_EQ(captured.duplicates, 0u);
  EXPECT_TRUE(captured.gaps.empty()) << captured.gaps.front();
  const Verdict verdict = check_same_rows(captured, everything());
  EXPECT_EQ(verdict.checked, expected.size());
  EXPECT_TRUE(verdict.wrong.empty()) << verdict.wrong.front();
  for (const auto& [request, hooks] : captured.steps) {
    for (const auto& [hook, tokens] : hooks) {
      for (const auto& [token, step] : tokens) {
        const HookId id = *watched.session().table().find(hook);
        EXPECT_TRUE(enabled.at(step).contains(id)) << hook << " in step " << step;
      }
    }
  }
}

TEST(LlamaSwitching, A6_AllThenNoneThenAFewIsWhatArrives) {
  expect_schedule("", {{4, "none"}, {8, "resid_pre:20-29"}, {11, "none"}, {12, "full"}});
}

TEST(LlamaSwitching, A6_SetsThatComeBackAndChangeEveryStep) {
  std::vector<Change> schedule;
  const std::vector<std::string> sets = {"q,k,v:0,4,8",    "none",  "final_logits", "*:29",
                                         "full,-mlp_post", "embed", "q,k,v:0,4,8"};
  for (std::uint64_t step = 1; step < 14; ++step) {
    schedule.push_back({step, sets[static_cast<std::size_t>(step) % sets.size()]});
  }
  expect_schedule("none", schedule);
}

TEST(LlamaSwitching, A4_SwitchedFromOtherThreadsNoRowIsEverMislabelled) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Watched watched;
  watched.submit(three_prompts(kNewTokens));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> switches{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      const std::vector<std::string> sets = {"full",         "none", "resid_pre",
                                             "mlp_out:3-17", "*:0",  "final_logits"};
      while (!stop.load()) {
        (void)watched.monitor().enable(sets[random() % sets.size()]);
        ++switches;
        std::this_thread::yield();
      }
    });
  }
  watched.run();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const Captured captured = watched.captured();
  EXPECT_GT(switches.load(), watched.outputs().spans.size());
  EXPECT_EQ(captured.duplicates, 0u);
  EXPECT_TRUE(captured.gaps.empty()) << captured.gaps.front();
  const Verdict verdict = check_same_rows(captured, everything());
  EXPECT_TRUE(verdict.wrong.empty()) << verdict.wrong.front();
  const Stats stats = watched.monitor().stats();
  EXPECT_EQ(stats.total.planned, stats.total.delivered);
}

TEST(LlamaSwitching, A12_StepsLargerThanTheRingArriveWholeAndHonourTheGates) {
  MonitorOptions options;
  options.selection = "full,-mlp_post";
  options.ring_bytes = 4ull << 20;  // the first step captures about 20 MB
  Watched watched({}, options);
  watched.submit(three_prompts(kNewTokens));
  watched.run();
  const Captured captured = watched.captured();
  EXPECT_TRUE(captured.gaps.empty()) << captured.gaps.front();
  EXPECT_EQ(captured.duplicates, 0u);
  std::set<Cell> expected = cells(everything());
  std::erase_if(expected, [](const Cell& cell) {
    return std::get<1>(cell).find("mlp_post") != std::string::npos;
  });
  EXPECT_EQ(cells(captured), expected);
  const Verdict verdict = check_same_rows(captured, everything());
  EXPECT_TRUE(verdict.wrong.empty()) << verdict.wrong.front();
}

TEST(LlamaSwitching, I6_WithNoHookEnabledNoNodeIsLookedAt) {
  MonitorOptions options;
  options.selection = "none";
  Watched watched({}, options);
  watched.submit(three_prompts(4));
  watched.run();
  EXPECT_GT(watched.session().stats().steps, 3u);
  EXPECT_EQ(watched.session().stats().nodes_asked, 0u);
  EXPECT_EQ(watched.session().stats().nodes_read, 0u);
  EXPECT_EQ(watched.captured().row_count(), 0u);
}

TEST(LlamaSwitching, I6_TheEngineStopsOnlyAtNodesThatAreEnabled) {
  MonitorOptions options;
  options.selection = "resid_pre:5;mlp_out:7,9;mlp_in:3;ln2:3";
  Watched watched({}, options);
  watched.submit({ask("one", "Once upon a time", 3)});
  watched.run();
  // mlp_in and ln2 of one layer are one node.
  EXPECT_EQ(watched.session().stats().nodes_read, 4 * watched.session().stats().steps);
}

TEST(LlamaSwitching, A18_ALeaseOnOneRequestAndAWindowSeesThatOnly) {
  MonitorOptions options;
  options.selection = "none";
  Watched watched({}, options);
  LeaseSpec lease;
  lease.name = "window";
  const HookId hook = *watched.session().table().find("resid_pre", 10);
  lease.hooks = HookSet::of(watched.session().table().size(), std::vector<HookId>{hook});
  lease.requests = {"capital"};
  lease.windows = {{2, 5, TokenWindow::From::response}};
  const Lease held = watched.monitor().watch(lease);
  watched.submit(three_prompts(kNewTokens));
  watched.run();
  const Generation& watched_one = watched.session().generations()[1];
  ASSERT_EQ(watched_one.id, "capital");
  std::set<Cell> expected;
  for (std::int64_t i = 2; i < 5; ++i) {
    expected.emplace(1, layer_hook(10, "resid_pre"),
                     static_cast<std::int64_t>(watched_one.prompt_tokens) + i);
  }
  const Captured captured = watched.captured();
  EXPECT_EQ(cells(captured), expected);
  const Verdict verdict = check_same_rows(captured, everything());
  EXPECT_TRUE(verdict.wrong.empty()) << verdict.wrong.front();
}

}  // namespace
}  // namespace graphtap::llama::test
