#include <gtest/gtest.h>

#include <set>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

/// Two runs: the first of a model with three layers and two requests, the second of one with a
/// single layer.
class Queries : public testing::Test {
 protected:
  void SetUp() override {
    const HookTable three = small_table(3);
    const HookTable one = small_table(1, 4);
    const Request a = make_request(1, "a", 4);
    const Request b = make_request(2, "b");
    {
      const auto sink = open_store(dir_.store(), three, {.run_name = "first"});
      ASSERT_OK(sink->event({RequestEvent::Kind::begun, a, 0, 0, true, 0, 0}));
      for (std::uint64_t ticket = 1; ticket <= 40; ++ticket) {
        const bool of_b = ticket > 20 && ticket % 2 == 0;
        OwnedStep step = make_step(three, ticket, of_b ? b : a, static_cast<std::int64_t>(ticket),
                                   1, {0, 1, 2, 3});
        step.records[1].ordinal = 1;
        ASSERT_OK(sink->write(step.delivered(three)));
      }
      ASSERT_OK(sink->event({RequestEvent::Kind::finished, a, 0, 0, true, 120, 0}));
    }
    const auto sink = open_store(dir_.store(), one, {.run_name = "second"});
    ASSERT_OK(sink->write(make_step(one, 1, make_request(1, "a"), 0, 2, {0}).delivered(one)));
    reader_ = read_store(dir_.store());
  }
  std::size_t count(const Query& query) { return all_of(reader_->read(query)).size(); }
  void says(const Query& query, Code code, std::string_view words) {
    const Status status = reader_->read(query).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  const TempDir dir_;
  std::shared_ptr<StoreReader> reader_;
};

TEST_F(Queries, D6_EveryConditionChoosesItsRowsAndNoOthers) {
  EXPECT_EQ(count({}), 161u);
  EXPECT_EQ(count({.run = 1}), 160u);
  EXPECT_EQ(count({.run = 2}), 1u);
  EXPECT_EQ(count({.request = "b"}), 40u);
  EXPECT_EQ(count({.request = "a"}), 121u) << "C3: one id in two runs, both are meant";
  EXPECT_EQ(count({.run = 2, .request = "a"}), 1u);
  EXPECT_EQ(count({.serial = 2}), 40u);
  EXPECT_EQ(count({.serial = 2, .request = "b"}), 40u);
}

TEST_F(Queries, D6_HooksAreChosenBySelectionTypeLayerAndOrdinal) {
  EXPECT_EQ(count({.run = 1, .hooks = "resid_pre:1-2"}), 80u);
  EXPECT_EQ(count({.run = 1, .hooks = "full,-resid_pre"}), 40u);
  EXPECT_EQ(count({.run = 1, .hooks = "none"}), 0u);
  EXPECT_EQ(count({.run = 1, .type = "resid_pre"}), 120u);
  EXPECT_EQ(count({.run = 1, .type = "hidden_states", .layer = 2}), 40u)
      << "aliases are types as well";
  EXPECT_EQ(count({.run = 1, .layer = 0}), 40u);
  EXPECT_EQ(count({.run = 1, .ordinal = 1}), 40u);
  EXPECT_EQ(count({.type = "resid_pre", .layer = 0}), 41u);
  EXPECT_EQ(count({.type = "resid_pre", .layer = 2}), 40u) << "a run without the hook has none";
}

TEST_F(Queries, D6_TokenRangesCutRecords) {
  EXPECT_EQ(count({.run = 1, .request = "a", .begin = 10, .end = 12}), 8u);
  EXPECT_EQ(count({.run = 1, .begin = 39}), 8u);
  const auto cut = all_of(reader_->read({.run = 2, .begin = 1}));
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].first_token, 1);
  EXPECT_EQ(cut[0].row, 1u);
  EXPECT_EQ(cut[0].data.size(), cut[0].row_bytes);
  EXPECT_EQ(count({.run = 1, .request = "a", .begin = 5, .end = 5}), 0u);
}

TEST_F(Queries, D6_StepsAreChosenByWhatTheyHold) {
  EXPECT_EQ(all_of(reader_->steps()).size(), 41u);
  EXPECT_EQ(all_of(reader_->steps({.request = "b"})).size(), 10u);
  EXPECT_EQ(all_of(reader_->steps({.type = "final_logits"})).size(), 40u);
}

TEST_F(Queries, D6_RequestsSayWhatIsStoredOfThem) {
  const auto requests = reader_->requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].id, "a");
  EXPECT_EQ(requests[0].prompt_tokens, 4);
  EXPECT_TRUE(requests[0].finished);
  EXPECT_TRUE(requests[0].valid);
  EXPECT_EQ(requests[0].records, 120u);
  EXPECT_EQ(requests[0].tokens, (TokenRange{1, 40}));
  EXPECT_EQ(requests[0].steps, 30u);
  EXPECT_EQ(requests[1].tokens, (TokenRange{22, 41}));
  EXPECT_EQ(requests[1].steps, 10u);
  EXPECT_FALSE(requests[1].finished);
  EXPECT_EQ(requests[2].run->number, 2u);
  EXPECT_EQ(reader_->requests({.id = "a"}).size(), 2u);
  EXPECT_EQ(reader_->requests({.run = 1, .serial = 2}).size(), 1u);
}

TEST_F(Queries, D6_TheSummaryCountsEachRun) {
  const StoreSummary summary = reader_->summary();
  ASSERT_EQ(summary.runs.size(), 2u);
  EXPECT_EQ(summary.runs[0].run->name, "first");
  EXPECT_EQ(summary.runs[0].state, RunSummary::State::closed);
  EXPECT_EQ(summary.runs[0].steps, 40u);
  EXPECT_EQ(summary.runs[0].records, 160u);
  EXPECT_EQ(summary.runs[0].payload_bytes, 40u * (3 * 16 + 20));
  EXPECT_EQ(summary.runs[0].first_end_unix_ns, 1'700'000'000'000'000'001);
  EXPECT_EQ(summary.runs[0].last_end_unix_ns, 1'700'000'000'000'000'040);
  EXPECT_EQ(summary.runs[1].requests, 1u);
  EXPECT_TRUE(summary.findings.empty()) << describe(summary.findings);
  EXPECT_TRUE(summary.writer.empty());
}

TEST_F(Queries, E_WrongNamesAreNamedWithWhatIsNear) {
  says({.hooks = "resid_pro"}, Code::invalid_argument, "resid_pre");
  says({.hooks = "resid_pre:9"}, Code::invalid_argument, "9");
  says({.hooks = "resid_pre @decode"}, Code::invalid_argument, "sampling");
  says({.type = "resid_prx"}, Code::invalid_argument, "did you mean \"resid_pre\"");
  says({.type = "resid_pre", .layer = 77}, Code::invalid_argument, "layer 77");
  says({.request = "nobody"}, Code::not_found, "no request \"nobody\"");
  says({.serial = 9}, Code::not_found, "serial 9");
  says({.serial = 1, .request = "b"}, Code::not_found, "no request \"b\" with serial 1");
  says({.run = 3}, Code::not_found, "runs 1 to 2");
  says({.begin = 3, .end = 2}, Code::invalid_argument, "[3, 2)");
  EXPECT_EQ(reader_->totals(5).status().code(), Code::not_found);
}

TEST(QueriesOfOwnTypes, B1_AHookTypeOfTheUsersOwnComesBackAsOne) {
  Catalogue catalogue = Catalogue::builtin();
  ASSERT_OK(
      catalogue.extend(R"({"types": [{"name": "my_probe", "aliases": ["probe"], "scope": "layer",
    "rows": "tokens", "shape": ["k"], "description": "mine"}]})",
                       "test"));
  HookTable table("own", catalogue);
  ASSERT_TRUE(table.add({"my_probe", 4, DType::f32, {2}, 1, 1}).ok());
  ASSERT_TRUE(table.add({"resid_pre", 4, DType::f32, {2}, 1, 1}).ok());
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  ASSERT_OK(sink->write(make_step(table, 1, make_request(1, "a"), 0, 2, {0, 1}).delivered(table)));
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({.hooks = "probe:4"}));
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].hook->name, "blocks.4.my_probe");
}

}  // namespace
}  // namespace graphtap::store_test
