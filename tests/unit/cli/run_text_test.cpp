#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/graph/decoder.hpp"
#include "cli/run/run_result.hpp"
#include "unit/cli/support.hpp"

namespace graphtap::cli {
namespace {

struct Sample {
  HookTable table = decoder_table({2, 4, 4});
  Schedule schedule{
      std::nullopt, {"4:none", "99:resid_pre"}, table, [this](const Selection& selection) {
        return selection.resolve(table);
      }};
  RunResult result;

  Sample() {
    result.model = "a model";
    result.steps = 10;
    result.generated = 20;
    result.seconds = 2;
    result.store = "my store";
    result.run_number = 3;
    RunRequest request;
    request.id = "it's";
    request.prompt = "Hello\x1b[31m";
    request.response = "line\nline";
    request.serial = 1;
    request.finish = "length";
    result.requests.push_back(request);
    std::vector<HookTotals> hooks;
    for (const Hook& hook : table.hooks()) {
      HookTotals totals;
      totals.hook = &hook;
      totals.records = 4;
      totals.tokens = hook.layer == 1 ? 3 : 4;
      totals.bytes = 64;
      if (hook.layer == 1) totals.gaps[static_cast<std::size_t>(GapReason::shed_ring)] = 1;
      hooks.push_back(totals);
    }
    result.totals = group_totals(hooks);
  }
};

TEST(RunText, TheTableGroupsLayersWithOneFate) {
  const Sample sample;
  const std::string text = run_text(sample.result, sample.schedule, true);
  EXPECT_NE(text.find("resid_pre     0            4        4   64 B        0     0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("resid_pre     1            3        4   64 B        0     1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("all"), std::string::npos);
}

TEST(RunText, AnswersSwitchesAndWhatToDoNext) {
  const Sample sample;
  const std::string text = run_text(sample.result, sample.schedule, false);
  EXPECT_NE(text.find("> Hello\\x1b[31m"), std::string::npos) << text;
  EXPECT_NE(text.find("line\\nline"), std::string::npos);
  EXPECT_NE(text.find("never reached"), std::string::npos);
  EXPECT_NE(text.find("10 tokens/s"), std::string::npos);
  EXPECT_NE(text.find("graphtap verify 'my store' --deep"), std::string::npos) << text;
  EXPECT_NE(text.find("--request 'it'\\''s'"), std::string::npos) << text;
}

TEST(RunText, JsonHasTheSameAndIsAlwaysUtf8) {
  Sample sample;
  sample.result.requests[0].response = "\xff";
  const nlohmann::json json = run_json(sample.result, sample.schedule);
  EXPECT_NO_THROW((void)json.dump());
  EXPECT_EQ(json["schedule"][1]["step"], 4);
  EXPECT_EQ(json["captured"][1]["hook"], "embed");
  EXPECT_EQ(json["run"], 3);
}

TEST(RunText, ShellWordsSurviveAShell) {
  EXPECT_EQ(shell_word("a/b-c.d"), "a/b-c.d");
  EXPECT_EQ(shell_word("-x"), "'-x'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b'c"), "'a b'\\''c'");
}

TEST(RunOptions, E_NothingToRunIsUsage) {
  const CommandResult result = call({"run"});
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("--prompt TEXT or --prompt-file FILE"), std::string::npos)
      << result.err;
  EXPECT_NE(call({"run", "--prompt-file", "-"}, "\n \n").err.find("holds no prompt"),
            std::string::npos);
}

}  // namespace
}  // namespace graphtap::cli
