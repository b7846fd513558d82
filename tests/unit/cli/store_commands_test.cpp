#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graphtap/store_reader.hpp"
#include "unit/cli/sample_store.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

Json json_of(const CommandResult& result) {
  EXPECT_EQ(result.err, "");
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.out;
  return json;
}

// Flips one bit in the payload of the last record of the store's last segment.
void damage(const std::string& store) {
  const std::string segment = store + "/segments/000001.gts";
  const auto reader = StoreReader::open(store);
  ASSERT_TRUE(reader.ok());
  std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  // token_ids of step 7 are 2 and 107.
  const std::int32_t tokens[2] = {2, 107};
  const std::size_t at =
      bytes.rfind(std::string(reinterpret_cast<const char*>(tokens), sizeof(tokens)));
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(bytes[at] ^ 1));
}

TEST(Ls, ListsRunsRequestsAndHooks) {
  SampleStore store;
  store.close();
  const CommandResult result = call({"ls", store.path});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  for (const char* words : {"1 run", "nobody is writing", "sample & run", "closed", "alpha",
                            "1 gap", "beta", "unfinished", "resid_pre", "0,3"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  }
  const Json json = json_of(call({"ls", store.path, "--json"}));
  ASSERT_EQ(json["runs"].size(), 1u);
  const Json& run = json["runs"][0];
  EXPECT_EQ(run["shed"], 7);
  ASSERT_EQ(run["requests"].size(), 2u);
  EXPECT_EQ(run["requests"][0]["id"], "alpha");
  EXPECT_EQ(run["requests"][0]["tokens"], (Json{0, 12}));
  EXPECT_EQ(run["requests"][1]["not_computed"], (Json::array({Json{8, 10}})));
}

TEST(Ls, SaysWhoWrites) {
  SampleStore store;
  const CommandResult result = call({"ls", store.path});
  EXPECT_NE(result.out.find("being written by"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("open"), std::string::npos) << result.out;
}

TEST(Ls, E_UnknownRunsAndRequestsAreNotFound) {
  SampleStore store;
  store.close();
  EXPECT_EQ(call({"ls", store.path, "--run", "7"}).exit, Exit::not_found);
  EXPECT_NE(call({"ls", store.path, "--run", "7"}).err.find("there are 1"), std::string::npos);
  EXPECT_EQ(call({"ls", store.path, "--request", "gamma"}).exit, Exit::not_found);
  EXPECT_EQ(call({"ls", store.path, "--run", "zero"}).exit, Exit::usage);
}

TEST(Show, PrintsStatisticsOfTheRightRows) {
  SampleStore store;
  store.close();
  const Json json = json_of(call({"show", store.path, "--request", "beta", "--hooks", "resid_pre:2",
                                  "--tokens", "1-3", "--json"}));
  ASSERT_EQ(json["rows"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Json& row = json["rows"][static_cast<std::size_t>(i)];
    const double norm = SampleStore::norm(1, 2, i + 1);
    EXPECT_EQ(row["token"], i + 1);
    EXPECT_EQ(row["hook"], "blocks.2.resid_pre");
    EXPECT_NEAR(row["norm"].get<double>(), norm, 1e-3);
    EXPECT_NEAR(row["min"].get<double>(), -0.8 * norm, 1e-3);
    EXPECT_NEAR(row["max"].get<double>(), 0.6 * norm, 1e-3);
    EXPECT_NEAR(row["mean"].get<double>(), -0.1 * norm, 1e-3);
    ASSERT_EQ(row["values"].size(), 2u);
    EXPECT_NEAR(row["values"][0].get<double>(), 0.6 * norm, 1e-3);
  }
}

TEST(Show, SaysWhichRowsWereRecomputedAndWhatIsMissing) {
  SampleStore store;
  store.close();
  const CommandResult result =
      call({"show", store.path, "--request", "alpha", "--hooks", "resid_pre:2", "--values", "1"});
  EXPECT_EQ(result.exit, Exit::ok);
  EXPECT_NE(result.out.find("recomputed"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("gap: resid_pre:2, tokens 3-6, 2 records: shed_ring"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("0e"), std::string::npos) << "step 0 was eager\n" << result.out;
}

TEST(Show, RowsOfOneRecordAreTokensInOrder) {
  SampleStore store;
  store.close();
  const Json json = json_of(call({"show", store.path, "--request", "alpha", "--hooks",
                                  "resid_pre:1", "--tokens", "9-", "--json"}));
  ASSERT_EQ(json["rows"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Json& row = json["rows"][static_cast<std::size_t>(i)];
    EXPECT_EQ(row["token"], 9 + i);
    EXPECT_NEAR(row["norm"].get<double>(), SampleStore::norm(0, 1, 9 + i), 1e-3);
    EXPECT_EQ(row["notes"], i < 2 ? "speculative" : "rejected");
  }
}

TEST(Show, StopsAtItsLimitAndSaysSo) {
  SampleStore store;
  store.close();
  const CommandResult result = call({"show", store.path, "--limit", "3"});
  EXPECT_NE(result.out.find("rows more"), std::string::npos) << result.out;
  const Json json = json_of(call({"show", store.path, "--limit", "3", "--json"}));
  EXPECT_EQ(json["rows"].size(), 3u);
  const Json all = json_of(call({"show", store.path, "--limit", "1000", "--json"}));
  EXPECT_EQ(json["further_rows"].get<std::size_t>() + 3, all["rows"].size());
  EXPECT_EQ(all["further_rows"], 0);
}

TEST(Show, E_NothingThatMatchesIsNotFound) {
  SampleStore store;
  store.close();
  const CommandResult result = call({"show", store.path, "--tokens", "5"});
  EXPECT_EQ(result.exit, Exit::not_found);
  EXPECT_NE(result.out.find("nothing stored matches"), std::string::npos);
}

TEST(Verify, AWholeStoreIsIntactAndSaysWhatItLacks) {
  SampleStore store;
  store.close();
  const CommandResult result = call({"verify", store.path, "--deep", "--explain"});
  EXPECT_EQ(result.exit, Exit::ok) << result.out;
  EXPECT_NE(result.out.find("gap: 7 shed_ring"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("larger --ring helps"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("1 request without completion"), std::string::npos) << result.out;
  EXPECT_EQ(call({"verify", store.path, "--complete"}).exit, Exit::damaged);
}

TEST(Verify, C2_ExplainsWhatIsNotAPlainRow) {
  SampleStore store;
  store.close();
  const std::string text = call({"verify", store.path, "--explain"}).out;
  EXPECT_NE(text.find("request alpha (serial 1): "), std::string::npos) << text;
  EXPECT_NE(text.find("computed again"), std::string::npos) << text;
  EXPECT_NE(text.find("not accepted"), std::string::npos) << text;
  EXPECT_NE(text.find("request beta (serial 2): 2 tokens from a prefix cache"), std::string::npos)
      << text;
  EXPECT_EQ(call({"verify", store.path}).out.find("prefix cache"), std::string::npos);
  const Json json = Json::parse(call({"verify", store.path, "--explain", "--json"}).out);
  EXPECT_EQ(json["explained"][0]["requests"][1]["not_computed_tokens"], 2);
}

TEST(Ls, C2_RowsOfNoRequestAreCounted) {
  SampleStore store;
  EXPECT_EQ(call({"ls", store.path}).out.find("unattributed"), std::string::npos);
  const Hook& hook = store.table[1];
  const std::vector<std::byte> rows(3 * hook.row_bytes());
  DeliveredStep step;
  step.table = &store.table;
  step.ticket = step.step = 1000;
  step.wanted = store.table.all();
  step.records.push_back({&hook, 0, 3, hook.row_bytes(), 0, rows, {}});
  ASSERT_TRUE(store.sink->write(step).ok());
  store.close();
  const CommandResult result = call({"ls", store.path});
  EXPECT_NE(result.out.find("unattributed rows"), std::string::npos) << result.out;
  EXPECT_NE(call({"verify", store.path, "--explain"}).out.find("3 rows in 1 record belong to no"),
            std::string::npos);
}

TEST(Show, B4_RanksChooseSteps) {
  SampleStore store;
  store.close();
  EXPECT_EQ(call({"show", store.path, "--ranks", "tensor=0"}).exit, Exit::ok);
  EXPECT_EQ(call({"show", store.path, "--ranks", "tensor=1"}).exit, Exit::not_found);
  for (const char* bad : {"", "1", "tensor", "tensor=", "tensor=-1", "tensor=1,", "tensors=1",
                          "tensor=1,tensor=2", "tensor=99999999999"}) {
    const CommandResult result = call({"show", store.path, std::string("--ranks=") + bad});
    EXPECT_EQ(result.exit, Exit::usage) << bad;
    EXPECT_NE(result.err.find("tensor=0,pipeline=2"), std::string::npos) << result.err;
  }
}

TEST(Verify, D6_DamageIsFoundAndEndsWithOne) {
  SampleStore store;
  store.close();
  damage(store.path);
  EXPECT_EQ(call({"verify", store.path}).exit, Exit::ok)
      << "payloads are only looked at with --deep";
  const CommandResult deep = call({"verify", store.path, "--deep"});
  EXPECT_EQ(deep.exit, Exit::damaged);
  EXPECT_NE(deep.out.find("segments/000001.gts"), std::string::npos) << deep.out;
  EXPECT_NE(deep.out.find("DAMAGED"), std::string::npos) << deep.out;
  const CommandResult json = call({"verify", store.path, "--deep", "--json"});
  EXPECT_EQ(json.exit, Exit::damaged);
  EXPECT_EQ(Json::parse(json.out)["ok"], false);
}

TEST(Index, RebuildsFromTheSegments) {
  SampleStore store;
  store.close();
  std::filesystem::remove(store.path + "/index.sqlite");
  const CommandResult result = call({"index", store.path});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  EXPECT_NE(result.out.find("8 steps, 2 requests"), std::string::npos) << result.out;
  EXPECT_TRUE(std::filesystem::exists(store.path + "/index.sqlite"));
}

TEST(Index, E_AStoreThatIsBeingWrittenIsUnavailable) {
  SampleStore store;
  const CommandResult result = call({"index", store.path});
  EXPECT_EQ(result.exit, Exit::unavailable);
  EXPECT_NE(result.err, "");
}

TEST(Report, WritesOneFileAndNoHalfOne) {
  SampleStore store;
  store.close();
  const std::string out = store.dir / "page.html";
  const CommandResult result = call({"report", store.path, "--out", out});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  EXPECT_TRUE(std::filesystem::exists(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".new"));
  EXPECT_EQ(call({"report", store.path, "--out", store.dir / "no/such/dir.html"}).exit,
            Exit::io_error);
  EXPECT_EQ(call({"report", store.path, "--out", store.path}).exit, Exit::usage);
  EXPECT_EQ(call({"report", store.path, "--hooks", "resid_pre:3"}).exit, Exit::usage);
  const CommandResult piped = call({"report", store.path, "--out", "-"});
  EXPECT_EQ(piped.out.substr(0, 15), "<!DOCTYPE html>");
}

TEST(Report, D6_JsonIsTheSameDataAndWritesNoPage) {
  SampleStore store;
  const CommandResult result = call({"report", store.path, "--json"});
  ASSERT_EQ(result.exit, Exit::ok) << result.err;
  const auto data = nlohmann::json::parse(result.out);
  const auto& map = data["maps"][1]["maps"][0];
  EXPECT_EQ(map["hook"], "resid_pre");
  for (std::size_t layer = 0; layer < 4; ++layer) {
    EXPECT_NEAR(map["norms"][layer][3].get<double>(),
                SampleStore::norm(1, static_cast<int>(layer), 3), 1e-3);
  }
  EXPECT_EQ(map["norms"][2][6], "gap:shed_ring");
  EXPECT_TRUE(map["norms"][0][5].is_null());
  EXPECT_EQ(map["norms"][0][9], "not_computed");
  EXPECT_EQ(data["maps"][0]["rejected"][0], (std::vector<int>{11, 12}));
  EXPECT_EQ(data["requests"][0]["id"], "alpha");
  EXPECT_EQ(data["history"]["lost"]["shed_ring"][0], 7);
  const CommandResult part = call({"report", store.path, "--json", "--tokens", "2-3"});
  EXPECT_EQ(nlohmann::json::parse(part.out)["maps"][0]["maps"][0]["tokens"], 2);
  EXPECT_EQ(call({"report", store.path, "--json", "--out", "-"}).exit, Exit::usage);
  EXPECT_EQ(call({"report", store.path, "--tokens", "9-2"}).exit, Exit::usage);
}

TEST(Report, ADamagedStoreIsStillDrawnWithAWarning) {
  SampleStore store;
  store.close();
  std::filesystem::resize_file(
      store.path + "/segments/000001.gts",
      std::filesystem::file_size(store.path + "/segments/000001.gts") - 100);
  const CommandResult result = call({"report", store.path, "--out", "-"});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  EXPECT_NE(result.err.find("warning: segments/000001.gts"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace graphtap::cli
