// Requests that join a running batch, are prefilled in chunks, leave early or are cancelled: every
// row is attributed to the request and position that produced it. And what happens when the engine
// would run something else than was planned.
#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>

#include "graphtap/host_device.hpp"
#include "integration/support/llama_support.hpp"
#include "llama_cpp/batch_plan.hpp"
#include "llama_cpp/bindings.hpp"
#include "llama_cpp/engine.hpp"
#include "llama_cpp/graph_tap.hpp"
#include "llama_cpp/hook_map.hpp"

namespace graphtap::llama::test {
namespace {

std::string long_text() {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "The library opened its doors at nine, and rain fell. ";
  return text;
}

TEST(LlamaBatching, C1_RequestsThatJoinAndLeaveKeepTheirRows) {
  SessionOptions options = small_options();
  options.batch_tokens = 16;
  Watched watched(options);
  watched.submit(
      {ask("a", "The sea is", 12), ask("b", long_text(), 5), ask("same id", "One, two,", 3)});
  bool joined = false;
  std::set<std::size_t> widths;
  watched.callbacks.before_step = [&](std::uint64_t step) {
    if (step == 3) {
      watched.submit({ask("same id", "Three, four,", 7), ask("d", "In winter the old mill", 4)});
      joined = true;
    }
    if (step == 5) watched.session().cancel(3);
  };
  watched.callbacks.after_step = [&](const StepReport& report) {
    widths.insert(report.spans.size());
  };
  watched.run();
  ASSERT_TRUE(joined);
  const auto& generations = watched.session().generations();
  ASSERT_EQ(generations.size(), 5u);
  EXPECT_EQ(generations[0].finish, Finish::length);
  EXPECT_EQ(generations[3].finish, Finish::cancelled);
  EXPECT_EQ(generations[4].finish, Finish::length);
  EXPECT_GE(widths.size(), 3u) << "the batch was meant to change its size";

  const Captured captured = watched.captured();
  EXPECT_EQ(captured.duplicates, 0u);
  EXPECT_TRUE(captured.gaps.empty()) << captured.gaps.front();
  std::map<std::uint64_t, std::set<std::int64_t>> computed;
  for (const auto& spans : watched.outputs().spans) {
    for (const StepSpan& span : spans) {
      for (std::uint32_t i = 0; i < span.rows; ++i) {
        EXPECT_TRUE(computed[span.generation].insert(span.first_token + i).second);
      }
    }
  }
  std::vector<std::uint64_t> begun;
  for (const Generation& generation : generations) {
    if (generation.request) begun.push_back(generation.number);
  }
  std::sort(begun.begin(), begun.end(), [&](std::uint64_t a, std::uint64_t b) {
    return generations[a].request->serial < generations[b].request->serial;
  });
  EXPECT_EQ(captured.finished.size(), begun.size());
  for (std::size_t order = 0; order < begun.size(); ++order) {
    const Generation& generation = generations[begun[order]];
    const Rows& ids = captured.rows(order, "token_ids");
    EXPECT_EQ(ids.size(), computed[generation.number].size()) << generation.id;
    for (const auto& [token, row] : ids) {
      EXPECT_EQ(values<std::int32_t>(captured, order, "token_ids", token).at(0),
                generation.tokens.at(static_cast<std::size_t>(token)))
          << generation.id << " token " << token;
    }
  }
  const Verdict sums = check_residual_sums(captured);
  EXPECT_GT(sums.checked, 5000u);
  EXPECT_TRUE(sums.wrong.empty()) << sums.wrong.front();
}

TEST(LlamaBatching, C2_ALongPromptComesInChunksWithOneRangeEach) {
  SessionOptions options = small_options();
  options.batch_tokens = 16;
  MonitorOptions monitor;
  monitor.selection = "token_ids,final_logits,final_ln";
  Watched watched(options, monitor);
  watched.submit({ask("long", long_text(), 2)});
  watched.run();
  const Generation& generation = watched.session().generations()[0];
  ASSERT_GT(generation.prompt_tokens, 3 * 16u);
  const auto& spans = watched.outputs().spans;
  EXPECT_EQ(spans.size(), (generation.prompt_tokens + 15) / 16 + 1);
  std::int64_t next = 0;
  for (const auto& step : spans) {
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].first_token, next);
    next += step[0].rows;
  }
  const Captured captured = watched.captured();
  const Verdict ids = check_token_ids(captured, watched.session().generations());
  EXPECT_TRUE(ids.wrong.empty()) << ids.wrong.front();
  // Logits: the last token of each chunk, the same bits the engine gives there.
  EXPECT_EQ(captured.rows(0, "final_logits").size(), spans.size());
  const Verdict logits = check_logits(captured, watched.outputs());
  EXPECT_EQ(logits.checked, spans.size());
  EXPECT_TRUE(logits.wrong.empty()) << logits.wrong.front();
}

TEST(LlamaBatching, C1_ALaterRunStartsInACleanCache) {
  MonitorOptions monitor;
  monitor.selection = "final_ln";
  Watched watched({}, monitor);
  watched.submit({ask("first", "The moon is", 4)});
  watched.run();
  watched.submit({ask("second", "The moon is", 4)});
  watched.run();
  const Captured captured = watched.captured();
  EXPECT_EQ(watched.session().generations()[0].tokens, watched.session().generations()[1].tokens);
  EXPECT_EQ(captured.rows(0, "final_ln"), captured.rows(1, "final_ln"));
  EXPECT_FALSE(captured.rows(1, "final_ln").empty());
}

TEST(LlamaBatching, C1_MoreRequestsThanPlacesWaitTheirTurn) {
  SessionOptions options = small_options();
  options.max_sequences = 2;
  options.context_tokens = 64;  // two of the requests below fill it
  MonitorOptions monitor;
  monitor.selection = "token_ids";
  Watched watched(options, monitor);
  for (int i = 0; i < 5; ++i)
    watched.submit({ask("r" + std::to_string(i), "Hello there, friend", 28)});
  std::size_t most = 0;
  watched.callbacks.after_step = [&](const StepReport& report) {
    most = std::max(most, report.spans.size());
  };
  watched.run();
  EXPECT_EQ(most, 2u);
  for (const Generation& generation : watched.session().generations()) {
    EXPECT_EQ(generation.finish, Finish::length);
    EXPECT_EQ(generation.tokens.size(), generation.prompt_tokens + 28);
  }
  const Verdict ids = check_token_ids(watched.captured(), watched.session().generations());
  EXPECT_TRUE(ids.wrong.empty()) << ids.wrong.front();
}

TEST(LlamaBatching, C1_ARequestLeavesAtTheEndOfText) {
  Watched watched;
  (void)watched.monitor().enable("token_ids");
  Prompt prompt = ask("chat", "What is the capital of France? One word.", 60);
  prompt.chat = true;
  prompt.stop_at_end = true;
  watched.submit({prompt});
  watched.run();
  const Generation& generation = watched.session().generations()[0];
  EXPECT_EQ(generation.finish, Finish::end_of_text);
  EXPECT_NE(generation.text.find("Paris"), std::string::npos) << generation.text;
  EXPECT_LT(generation.tokens.size(), generation.prompt_tokens + 60);
}

TEST(LlamaBatching, C1_ACallbackThatThrowsLeavesEveryRowInItsPlace) {
  MonitorOptions monitor;
  monitor.selection = "token_ids";
  Watched watched({}, monitor);
  watched.submit(three_prompts(4));
  SessionCallbacks callbacks;
  int thrown = 0;
  callbacks.on_token = [&](const Generation&, std::int32_t, std::string_view) {
    if (++thrown % 2 == 1) throw std::runtime_error("the caller's own trouble");
  };
  for (int steps = 0; steps < 100; ++steps) {
    try {
      if (!watched.session().step(callbacks).value_or_throw()) break;
    } catch (const std::runtime_error&) {  // the next step goes on where this one ended
    }
  }
  watched.flush();
  EXPECT_GE(thrown, 4);
  for (const Generation& generation : watched.session().generations()) {
    EXPECT_EQ(generation.finish, Finish::length);
  }
  const Captured captured = watched.captured();
  EXPECT_EQ(captured.duplicates, 0u);
  EXPECT_EQ(captured.finished.size(), 3u);
  const Verdict ids = check_token_ids(captured, watched.session().generations());
  EXPECT_TRUE(ids.wrong.empty()) << ids.wrong.front();
}

TEST(LlamaBatching, C1_RowsAreSharedOutFairlyAndCompletely) {
  std::vector<SequenceState> sequences = {{0, 40, 41}, {1, 0, 100}, {2, 7, 9}};
  const auto spans = plan_rows(sequences, 32);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].rows, 1u);
  EXPECT_EQ(spans[1].rows, 30u);  // what the others' single rows leave
  EXPECT_EQ(spans[2].rows, 1u);
  EXPECT_EQ(spans[2].first_token, 7);
  const auto roomy = plan_rows(sequences, 1000);
  EXPECT_EQ(roomy[0].rows + roomy[1].rows + roomy[2].rows, 1u + 100u + 2u);
}

/// The callback alone, below the session, so that plan and batch can be made to differ.
class Attribution : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = Engine::open(small_options(), &tap_).value_or_throw();
    std::vector<Engine::Row> probe(5);
    for (std::int32_t i = 0; i < 5; ++i) probe[static_cast<std::size_t>(i)].position = i;
    tap_.record();
    ASSERT_TRUE(engine_->decode(probe).ok());
    const auto graph = tap_.recorded();
    bindings_ = bind_map(*HookMap::builtin("llama"), graph,
                         {"test", engine_->layers(), engine_->heads(), 5, "several sequences"})
                    .value_or_throw();
    tap_.bind(bindings_);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  void SetUp() override {
    engine_->forget_all();
    Callbacks callbacks;
    callbacks.on_slice = [this](const CallbackSlice&) { ++slices_; };
    callbacks.on_gap = [this](const DeliveredStep&, const Gap& gap) { gaps_.insert(gap.reason); };
    MonitorOptions options;
    options.ring_bytes = 16ull << 20;
    monitor_ = std::make_unique<Monitor>(
        make_host_device(), bindings_.table, options,
        std::vector<std::shared_ptr<Sink>>{make_callback_sink("count", std::move(callbacks))});
    lane_ = monitor_->make_lane();
    a_ = monitor_->begin_request("a", 3);
    b_ = monitor_->begin_request("b", 2);
  }

  /// Runs `rows` under a plan of a's three tokens, then b's two, that expects `tokens` and
  /// `positions`.
  std::string run(const std::vector<Engine::Row>& rows, const std::vector<std::int32_t>& tokens,
                  const std::vector<std::int32_t>& positions) {
    const std::vector<RowSpan> spans = {{a_, 0, 3, RowFlags::none}, {b_, 0, 2, RowFlags::none}};
    StepShape shape;
    shape.tokens = spans;
    Step step = lane_->begin(shape, inline_stream());
    const std::vector<std::uint32_t> request_rows = {2, 4};
    tap_.arm({lane_.get(), &step, inline_stream(), tokens, positions, request_rows, 0});
    EXPECT_TRUE(engine_->decode(rows).ok());
    std::string difference = tap_.disarm();
    if (!difference.empty()) step.invalidate(GapReason::mismatch);
    step.end();
    EXPECT_TRUE(monitor_->flush(std::chrono::seconds(30)).ok());
    return difference;
  }

  const std::vector<Engine::Row> rows_ = {
      {504, 0, 0}, {1838, 1, 0}, {13, 2, 0}, {19, 0, 1}, {28, 1, 1}};
  const std::vector<std::int32_t> tokens_ = {504, 1838, 13, 19, 28};
  const std::vector<std::int32_t> positions_ = {0, 1, 2, 0, 1};
  inline static GraphTap tap_;
  inline static std::unique_ptr<Engine> engine_;
  inline static Bindings bindings_;
  std::atomic<std::uint64_t> slices_{0};
  std::set<GapReason> gaps_;
  std::unique_ptr<Monitor> monitor_;
  std::shared_ptr<Lane> lane_;
  Request a_, b_;
};

TEST_F(Attribution, C1_TheSameRowsAsPlannedAreDelivered) {
  EXPECT_EQ(run(rows_, tokens_, positions_), "");
  EXPECT_EQ(slices_.load(), 2 * bindings_.table.size());
  EXPECT_TRUE(gaps_.empty());
}

TEST_F(Attribution, A5_OtherTokenIdsThanPlannedDeliverNothing) {
  std::vector<std::int32_t> swapped = tokens_;
  std::swap(swapped[0], swapped[3]);
  const std::string difference = run(rows_, swapped, positions_);
  EXPECT_NE(difference.find("row 0 of the graph has token id 504, planned was 19"),
            std::string::npos)
      << difference;
  EXPECT_EQ(slices_.load(), 0u);
  EXPECT_EQ(gaps_, std::set{GapReason::mismatch});
}

TEST_F(Attribution, A5_OtherPositionsThanPlannedDeliverNothing) {
  std::vector<std::int32_t> moved = positions_;
  std::swap(moved[3], moved[4]);
  const std::string difference = run(rows_, tokens_, moved);
  EXPECT_NE(difference.find("position"), std::string::npos) << difference;
  EXPECT_EQ(slices_.load(), 0u);
  EXPECT_EQ(gaps_, std::set{GapReason::mismatch});
}

TEST_F(Attribution, A5_OtherRowCountsThanPlannedDeliverNothing) {
  const std::vector<Engine::Row> fewer(rows_.begin(), rows_.end() - 1);
  const std::string difference = run(fewer, tokens_, positions_);
  EXPECT_NE(difference.find("4 token id"), std::string::npos) << difference;
  EXPECT_EQ(slices_.load(), 0u);
}

TEST_F(Attribution, A5_AStepThatTheEngineSplitsDeliversNothing) {
  const std::vector<RowSpan> spans = {{a_, 0, 3, RowFlags::none}, {b_, 0, 2, RowFlags::none}};
  StepShape shape;
  shape.tokens = spans;
  Step step = lane_->begin(shape, inline_stream());
  const std::vector<std::uint32_t> request_rows = {2, 4};
  tap_.arm({lane_.get(), &step, inline_stream(), tokens_, positions_, request_rows, 0});
  EXPECT_TRUE(engine_->decode(rows_).ok());
  engine_->forget_all();
  EXPECT_TRUE(engine_->decode(rows_).ok());
  EXPECT_NE(tap_.disarm().find("split"), std::string::npos);
  step.invalidate(GapReason::mismatch);
  step.end();
  EXPECT_TRUE(monitor_->flush(std::chrono::seconds(30)).ok());
  EXPECT_EQ(slices_.load(), 0u);
}

TEST_F(Attribution, C1_AStepAfterAMismatchIsRightAgain) {
  std::vector<std::int32_t> wrong = tokens_;
  wrong[4] = 0;
  EXPECT_NE(run(rows_, wrong, positions_), "");
  engine_->forget_all();
  EXPECT_EQ(run(rows_, tokens_, positions_), "");
  EXPECT_EQ(slices_.load(), 2 * bindings_.table.size());
}

TEST_F(Attribution, A5_AGraphThatNeverShowsItsInputsDeliversNothing) {
  const std::vector<RowSpan> spans = {{a_, 0, 3, RowFlags::none}, {b_, 0, 2, RowFlags::none}};
  StepShape shape;
  shape.tokens = spans;
  Step step = lane_->begin(shape, inline_stream());
  tap_.arm({lane_.get(), &step, inline_stream(), tokens_, positions_, {}, 0});
  EXPECT_NE(tap_.disarm(), "");
}

}  // namespace
}  // namespace graphtap::llama::test
