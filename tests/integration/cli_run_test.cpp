// The main job through the real command and a real model: the store holds exactly what the schedule
// enabled, token for token; Ctrl-C delivers what was captured; the demo does what it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "graphtap/store_reader.hpp"
#include "integration/cli_process.hpp"

namespace graphtap {
namespace {

using Json = nlohmann::json;
using testing::Ended;
using testing::Engine;
using testing::Process;
using testing::Scratch;

#define NEEDS_ENGINE()                                                               \
  if (testing::engine() == Engine::none) GTEST_SKIP() << "built without the engine"; \
  if (testing::engine() == Engine::no_model)                                         \
  GTEST_SKIP() << "scripts/fetch_engine.sh fetches a model"

/// (request serial, token) of rows.
using Rows = std::set<std::pair<std::uint64_t, std::int64_t>>;

/// Rows of each hook in each step, as the store has them.
std::map<std::uint64_t, std::map<std::string, Rows>> stored_rows(const StoreReader& reader) {
  std::map<std::uint64_t, std::map<std::string, Rows>> steps;
  RecordCursor records = reader.read({}).value_or_throw();
  for (RecordView record; records.next(record);) {
    for (std::uint32_t i = 0; i < record.rows; ++i) {
      const bool fresh = steps[record.step.step][record.hook->name]
                             .emplace(record.request, record.first_token + i)
                             .second;
      EXPECT_TRUE(fresh) << record.hook->name << " has a token twice in step " << record.step.step;
    }
  }
  return steps;
}

TEST(CliRun, C1_TheStoreHoldsExactlyWhatTheScheduleEnabled) {
  NEEDS_ENGINE();
  const Scratch scratch;
  const std::string store = scratch / "store";
  // token_ids is always on: it says which rows each step had. Two prompts at once, a third joins
  // later.
  const Ended run = testing::run({"run",
                                  "--prompt",
                                  "The sea is",
                                  "--prompt",
                                  "One, two, three,",
                                  "--prompt",
                                  "Red, green,",
                                  "--sequences",
                                  "2",
                                  "--max-tokens",
                                  "12",
                                  "--ignore-end",
                                  "--store",
                                  store,
                                  "--json",
                                  "--hooks",
                                  "token_ids,resid_pre,attn_out",
                                  "--at",
                                  "4:token_ids",
                                  "--at",
                                  "8:token_ids,resid_pre:20-29",
                                  "--at",
                                  "14:token_ids,resid_pre;attn_out:0"});
  ASSERT_EQ(run.exit, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["missing"], 0);
  EXPECT_EQ(json["shed"], 0);
  ASSERT_EQ(json["requests"].size(), 3u);
  EXPECT_GT(json["requests"][2]["first_step"], 0) << "the third prompt had to wait for room";

  const auto reader = StoreReader::open(store);
  ASSERT_TRUE(reader.ok());
  const auto steps = stored_rows(*reader.value());
  EXPECT_EQ(steps.size(), json["steps"].get<std::size_t>());
  const auto enabled = [](std::uint64_t step, const Hook& hook) {
    if (hook.type == "token_ids") return true;
    if (hook.type == "resid_pre") return step < 4 || step >= 14 || (step >= 8 && hook.layer >= 20);
    return hook.type == "attn_out" && (step < 4 || (step >= 14 && hook.layer == 0));
  };
  std::map<std::uint64_t, std::int64_t> next;  // every token of every request, once and in order
  for (const auto& [step, hooks] : steps) {
    const Rows& rows = hooks.at("token_ids");
    for (const auto& [serial, token] : rows) EXPECT_EQ(token, next[serial]++) << "step " << step;
    for (const Hook& hook : reader.value()->runs().front()->hooks) {
      const auto at = hooks.find(hook.name);
      EXPECT_EQ(at != hooks.end(), enabled(step, hook)) << "step " << step << " " << hook.name;
      if (at != hooks.end()) {
        EXPECT_EQ(at->second, rows) << "step " << step << " " << hook.name;
      }
    }
  }
  for (const Json& request : json["requests"]) {
    const auto tokens = request["prompt_tokens"].get<std::int64_t>() + 12 - 1;
    EXPECT_EQ(next[request["serial"].get<std::uint64_t>()], tokens);
    EXPECT_EQ(request["finish"], "length");
  }
}

TEST(CliRun, A2_CapturingChangesNothingInWhatTheModelSays) {
  NEEDS_ENGINE();
  const auto text = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run",
                                       "--prompt",
                                       "The capital of France is",
                                       "--no-store",
                                       "--max-tokens",
                                       "12",
                                       "--threads",
                                       "1",
                                       "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended run = testing::run(arguments);
    EXPECT_EQ(run.exit, 0) << run.err;
    return Json::parse(run.out)["requests"][0]["text"].get<std::string>();
  };
  const std::string quiet = text({"--hooks", "none"});
  EXPECT_EQ(text({}), quiet);
  EXPECT_EQ(text({"--hooks", "none", "--at", "3:", "--at", "6:none"}), quiet);
  EXPECT_NE(quiet, "");
}

TEST(CliRun, D5_CtrlCDeliversWhatWasCaptured) {
  NEEDS_ENGINE();
  const Scratch scratch;
  const std::string store = scratch / "store";
  Process process({"run", "--prompt", "Once upon a time", "--prompt", "Far away", "--ignore-end",
                   "--max-tokens", "900", "--hooks", "resid_pre", "--store", store, "--json"});
  // The signal comes when the store shows that the model is at work.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  std::uint64_t steps = 0;
  while (steps < 5 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    const auto reader = StoreReader::open(store);
    if (!reader.ok()) continue;
    const StoreSummary summary = reader.value()->summary();
    if (!summary.runs.empty()) steps = summary.runs.front().steps;
  }
  ASSERT_GE(steps, 5u) << "nothing was captured";
  process.signal(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit, 130) << ended.err;
  const Json json = Json::parse(ended.out);
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_EQ(json["requests"][0]["finish"], "cancelled");
  EXPECT_EQ(json["planned"], json["delivered"]);
  const Ended verify = testing::run({"verify", store, "--deep", "--complete"});
  EXPECT_EQ(verify.exit, 0) << verify.out;
}

TEST(CliRun, TheSummaryForPeople) {
  NEEDS_ENGINE();
  const Scratch scratch;
  const Ended run = testing::run({"run", "--prompt", "Hello", "--max-tokens", "4", "--hooks",
                                  "resid_pre:0-2,logits", "--at", "2:none", "--at", "50:logits",
                                  "--name", "summary", "--store", scratch / "store"});
  ASSERT_EQ(run.exit, 0) << run.err;
  for (const char* words :
       {"30 layers", "prompt-1 (serial 1", "> Hello", "schedule", "never reached", "final_logits",
        "0-2", "tokens/s", "next:", "graphtap report"}) {
    EXPECT_NE(run.out.find(words), std::string::npos) << words << "\n" << run.out;
  }
  EXPECT_NE(run.err.find("--at 50: was never reached"), std::string::npos) << run.err;
  const Ended ls = testing::run({"ls", scratch / "store"});
  EXPECT_NE(ls.out.find("summary"), std::string::npos) << ls.out;
}

TEST(CliRun, B2_WhatTheModelOffersIsListed) {
  NEEDS_ENGINE();
  const Ended text = testing::run({"run", "--list-hooks", "--sequences", "2"});
  ASSERT_EQ(text.exit, 0) << text.err;
  for (const char* words :
       {"resid_pre", "0-29", "576", "not offered", "pattern: ", "hidden-states"}) {
    EXPECT_NE(text.out.find(words), std::string::npos) << words << "\n" << text.out;
  }
  const Json json = Json::parse(testing::run({"run", "--list-hooks", "--json"}).out);
  EXPECT_GE(json["hooks"].size(), 15u);
}

TEST(CliRun, PromptsComeFromAFileOrFromStandardInput) {
  NEEDS_ENGINE();
  const Scratch scratch;
  const std::string file = scratch / "prompts";
  std::ofstream(file) << "First line\n\n  \r\nSecond line\r\n";
  const Ended run = testing::run(
      {"run", "--prompt-file", "-", "--max-tokens", "1", "--hooks", "none", "--no-store", "--json"},
      file.c_str());
  ASSERT_EQ(run.exit, 0) << run.err;
  const Json json = Json::parse(run.out);
  ASSERT_EQ(json["requests"].size(), 2u);
  EXPECT_EQ(json["requests"][1]["id"], "prompt-2");
  EXPECT_TRUE(json["store"].is_null());
}

}  // namespace
}  // namespace graphtap
