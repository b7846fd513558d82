#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "graphtap/store_reader.hpp"
#include "unit/cli/support.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

// Four layers: 4·4 + 4 = 20 producers, 4·4 + 2 = 18 nodes that compute.
const std::vector<std::string> kSmall{"graph", "--layers",   "4", "--hidden",
                                      "16",    "--requests", "12"};

Json graph(const std::vector<std::string>& more, Exit expected = Exit::ok) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.emplace_back("--json");
  const CommandResult result = call(arguments);
  EXPECT_EQ(result.exit, expected) << result.err << result.out;
  return Json::parse(result.out, nullptr, false);
}

TEST(GraphCommand, A1_EveryTierDeliversTheSameAndNothingWrong) {
  const Json json = graph({"--at", "20:none", "--at", "50:resid_pre:2-3", "--at", "80:"});
  EXPECT_EQ(json["wrong"], 0);
  ASSERT_EQ(json["tiers"].size(), 3u);
  for (std::size_t phase = 0; phase < 4; ++phase) {
    const Json& soft = json["tiers"][0]["phases"][phase];
    EXPECT_EQ(soft["missing"], 0);
    for (const Json& tier : json["tiers"]) {
      EXPECT_EQ(tier["phases"][phase]["records"], soft["records"]) << tier["tier"];
      EXPECT_EQ(tier["phases"][phase]["rows_checked"], soft["rows_checked"]) << tier["tier"];
      EXPECT_EQ(tier["phases"][phase]["hooks"], soft["hooks"]);
    }
  }
  EXPECT_EQ(json["tiers"][0]["phases"][1]["records"], 0);
  EXPECT_GT(json["tiers"][0]["phases"][3]["records"], 0);
}

TEST(GraphCommand, A1_TheNodesThatRunAreThoseOfTheTier) {
  const Json json = graph({"--at", "20:none", "--at", "60:resid_pre:2-3"});
  std::map<std::string, Json> none, few;
  for (const Json& tier : json["tiers"]) {
    none[tier["tier"]] = tier["phases"][1];
    few[tier["tier"]] = tier["phases"][2];
    EXPECT_EQ(tier["graph_nodes"], 38);
  }
  EXPECT_EQ(none["soft"]["least_nodes"], 38);
  EXPECT_EQ(none["soft"]["most_nodes"], 38);
  EXPECT_EQ(none["node"]["least_nodes"], 18);
  EXPECT_EQ(none["node"]["most_nodes"], 18);
  EXPECT_EQ(few["node"]["most_nodes"], 20);
  const Json& specialised = none["specialised"];
  EXPECT_EQ(
      specialised["owner_launches"].get<int>() + specialised["specialised_launches"].get<int>(),
      specialised["graph_steps"].get<int>());
  // When the helper thread gets there is its own affair; what it makes is not.
  EXPECT_EQ(specialised["least_nodes"], specialised["specialised_launches"] > 0 ? 18 : 38);
}

TEST(GraphCommand, A11_EagerStepsFollowTheirPolicy) {
  const auto eager_records = [](const Json& json) {
    return json["tiers"][0]["phases"][0]["records"].get<int>();
  };
  const std::vector<std::string> base{"--tier", "soft", "--hooks", "none", "--eager"};
  std::vector<std::string> same = base, all = base;
  same.emplace_back("same");
  all.emplace_back("all");
  EXPECT_EQ(eager_records(graph(same)), 0);
  const Json everything = graph(all);
  EXPECT_EQ(eager_records(everything),
            20 * everything["tiers"][0]["phases"][0]["eager_steps"].get<int>());
  const Json nothing = graph({"--tier", "soft", "--eager", "none"});
  EXPECT_EQ(eager_records(nothing),
            20 * nothing["tiers"][0]["phases"][0]["graph_steps"].get<int>());
}

TEST(GraphCommand, A4_SwitchingNowGivesTheSameRecords) {
  const std::vector<std::string> schedule{"--tier",  "node", "--at",
                                          "20:none", "--at", "50:mlp_out"};
  std::vector<std::string> now = schedule;
  now.insert(now.end(), {"--apply", "now"});
  const Json later = graph(schedule), at_once = graph(now);
  for (std::size_t phase = 0; phase < 3; ++phase) {
    EXPECT_EQ(at_once["tiers"][0]["phases"][phase]["records"],
              later["tiers"][0]["phases"][phase]["records"]);
  }
  EXPECT_GT(at_once["tiers"][0]["nodes_changed"], 0);
}

TEST(GraphCommand, I3_ShedRecordsAreCountedAndNothingIsMislabelled) {
  const Json json = graph({"--policy", "shed", "--ring", "12KiB", "--tier", "soft"});
  const Json& phase = json["tiers"][0]["phases"][0];
  EXPECT_GT(phase["shed"], 0);
  EXPECT_EQ(phase["wrong"], 0);
  EXPECT_EQ(phase["unaccounted"], 0);
  EXPECT_EQ(phase["missing"], 0);
}

TEST(GraphCommand, B2_SampledSelectionsAreChecked) {
  const Json json = graph({"--hooks", "resid_pre @decode @every=3", "--tier", "soft"});
  const Json& phase = json["tiers"][0]["phases"][0];
  EXPECT_GT(phase["records"], 0);
  EXPECT_LT(phase["records"], 4 * phase["graph_steps"].get<int>());
  EXPECT_EQ(phase["wrong"], 0);
}

TEST(GraphCommand, C1_TheStoreGetsWhatTheCheckerGets) {
  const TempDir dir;
  const Json json = graph({"--store", dir / "store", "--at", "30:none", "--steps", "60"});
  const auto reader = StoreReader::open(dir / "store");
  ASSERT_TRUE(reader.ok());
  const StoreSummary store = reader.value()->summary();
  ASSERT_EQ(store.runs.size(), 3u);
  for (std::size_t run = 0; run < 3; ++run) {
    std::uint64_t records = 0;
    for (const Json& phase : json["tiers"][run]["phases"]) {
      records += phase["records"].get<std::uint64_t>();
    }
    EXPECT_EQ(store.runs[run].records, records);
    EXPECT_EQ(store.runs[run].state, RunSummary::State::closed);
  }
}

TEST(GraphCommand, TheTextSaysWhatHappened) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), {"--at", "20:none", "--at", "9000:logits", "--tier", "node"});
  const CommandResult result = call(arguments);
  EXPECT_EQ(result.exit, Exit::ok);
  for (const char* words :
       {"tier node: ", "20 producers", "nodes run", " 0 wrong\n", "how to read it"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  }
  EXPECT_NE(result.err.find("--at 9000: was never reached"), std::string::npos) << result.err;
}

TEST(GraphCommand, E_ARingSmallerThanAStepIsRefusedWithTheSizeNeeded) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), {"--ring", "4KiB"});
  const CommandResult result = call(arguments);
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("give it at least"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace graphtap::cli
