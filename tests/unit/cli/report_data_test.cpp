#include "cli/report/report_data.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/store_words.hpp"
#include "unit/cli/sample_store.hpp"

namespace graphtap::cli {
namespace {

ReportData collect(const SampleStore& store, const ReportOptions& options = {}) {
  const auto reader = store.keep(open_store(store.path));  // the data points into it
  const StoreSummary summary = reader->summary();
  return collect_report(*reader, summary.runs.front(), options);
}

TEST(ReportData, D6_EveryCellIsWhatWasStored) {
  SampleStore store;
  const ReportData data = collect(store);
  ASSERT_EQ(data.requests.size(), 2u);
  for (int request = 0; request < 2; ++request) {
    const RequestReport& report = data.requests[static_cast<std::size_t>(request)];
    ASSERT_EQ(report.maps.size(), 1u);
    const HeatMap& map = report.maps[0];
    EXPECT_EQ(map.hook, "resid_pre");
    EXPECT_EQ(map.labels, (std::vector<std::string>{"0", "1", "2", "3", "final"}));
    EXPECT_EQ(map.first_token, 0);
    EXPECT_EQ(map.tokens, request == 0 ? 12 : 10);
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::size_t column = 0; column < map.columns; ++column) {
        const Cell& cell = map.at(row, column);
        const auto token = static_cast<std::int64_t>(column);
        const std::string where = "request " + std::to_string(request) + " row " +
                                  std::to_string(row) + " token " + std::to_string(token);
        if (token < 4 || token == (request == 0 ? 9 : 7) || (request == 0 && token == 10) ||
            (token == 6 && row == 1)) {
          EXPECT_EQ(cell.state, CellState::value) << where;
          const bool again = request == 0 && token == 2;
          EXPECT_NEAR(cell.norm, SampleStore::norm(request, static_cast<int>(row), token, again),
                      1e-3)
              << where;
        } else if (token == 6 && row == 2) {
          EXPECT_EQ(cell.state, CellState::gap) << where;
          EXPECT_EQ(cell.reason, GapReason::shed_ring);
        } else if (request == 1 && token >= 8) {
          EXPECT_EQ(cell.state, CellState::not_computed) << where;
        } else {
          EXPECT_EQ(cell.state, CellState::off) << where;
        }
      }
    }
  }
}

TEST(ReportData, BandsSayWhatWasSwitchedOnForWhichTokens) {
  SampleStore store;
  const ReportData data = collect(store);
  const RequestReport& b = data.requests[1];
  ASSERT_EQ(b.bands.size(), 5u);
  const std::vector<std::pair<TokenRange, std::string>> expected{{{0, 4}, "every hook"},
                                                                 {{4, 6}, "none"},
                                                                 {{6, 7}, "resid_pre 1-2"},
                                                                 {{7, 8}, "every hook"},
                                                                 {{8, 10}, "none"}};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(b.bands[i].tokens, expected[i].first);
    EXPECT_EQ(b.sets[b.bands[i].set].brief, expected[i].second);
  }
  EXPECT_EQ(b.sets.size(), 3u);  // sets that come back are the same sets
}

TEST(ReportData, OneScaleForAllRequests) {
  SampleStore store;
  const ReportData data = collect(store);
  const auto [least, most] = data.scales.at("resid_pre");
  EXPECT_NEAR(least, SampleStore::norm(0, 0, 0), 1e-3);
  EXPECT_NEAR(most, SampleStore::norm(0, 4, 2, true), 1e-2);
}

TEST(ReportData, ManyTokensShareColumnsAndTheMeanIsShown) {
  SampleStore store;
  ReportOptions options;
  options.lengths[2] = 1000;  // b computed 1000 tokens, most of them uncaptured
  options.most_cells = 400;   // the fewest columns there are: 40
  const ReportData data = collect(store, options);
  const HeatMap& map = data.requests[1].maps[0];
  EXPECT_EQ(map.tokens, 1000);
  EXPECT_EQ(map.tokens_per_column, 25);
  EXPECT_EQ(map.columns, 40u);
  const Cell& cell = map.at(0, 0);  // tokens 0-3 and 7
  EXPECT_EQ(cell.rows, 5u);
  double mean = 0;
  for (const std::int64_t token : {0, 1, 2, 3, 7}) mean += SampleStore::norm(1, 0, token) / 5;
  EXPECT_NEAR(cell.norm, mean, 1e-3);
  EXPECT_EQ(map.range(0), (TokenRange{0, 25}));
  EXPECT_EQ(map.range(39), (TokenRange{975, 1000}));
  EXPECT_EQ(map.at(0, 39).state, CellState::off);
}

TEST(ReportData, E_WhatIsNotThereIsSaidWithWhatIs) {
  SampleStore store;
  const auto refusal = [&](const ReportOptions& options) {
    try {
      (void)collect(store, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found);
      return std::string(error.what());
    }
    return std::string();
  };
  ReportOptions hooks, request;
  hooks.hooks = {"resid_prw"};
  EXPECT_NE(refusal(hooks).find("did you mean \"resid_pre\"?"), std::string::npos);
  hooks.hooks = {"token_ids"};
  EXPECT_NE(refusal(hooks), "");
  request.request = "gamma";
  EXPECT_NE(refusal(request).find("gamma"), std::string::npos);
}

TEST(ReportData, RequestsBeyondTheLimitAreCounted) {
  SampleStore store;
  ReportOptions options;
  options.most_requests = 1;
  const ReportData data = collect(store, options);
  EXPECT_EQ(data.requests.size(), 1u);
  EXPECT_EQ(data.requests_left_out, 1u);
}

TEST(ReportData, D6_ALossInAColumnOfManyTokensStandsBesideItsValue) {
  SampleStore store;
  ReportOptions options;
  options.lengths[2] = 1000;
  options.most_cells = 400;
  const ReportData data = collect(store, options);
  const HeatMap& map = data.requests[1].maps[0];
  // Layer 2 lost token 6, layer 1 nothing; both have tokens 0-3 and 7 in the first column.
  EXPECT_EQ(map.at(2, 0).state, CellState::value);
  EXPECT_EQ(map.at(2, 0).lost, 1u);
  EXPECT_EQ(map.at(2, 0).reason, GapReason::shed_ring);
  EXPECT_EQ(map.at(1, 0).lost, 0u);
}

TEST(ReportData, TokensComputedAgainAreMarkedAndRejectedOnesStandInTheStrip) {
  SampleStore store;
  const ReportData data = collect(store);
  const RequestReport& a = data.requests[0];
  EXPECT_EQ(a.recomputed, (std::vector<TokenRange>{{2, 3}}));
  EXPECT_EQ(a.summary.rejected, (std::vector<TokenRange>{{11, 12}}));
  EXPECT_EQ(a.sets[a.bands.back().set].brief, "every hook");  // token 11 was captured
  EXPECT_EQ(a.maps[0].at(0, 11).state, CellState::off);       // and is not part of the text
}

TEST(ReportData, D6_TheTableHasTheMostIncompleteRequestsFirst) {
  SampleStore store;
  ReportOptions options;
  options.most_rows = 1;
  const ReportData data = collect(store, options);
  ASSERT_EQ(data.table.size(), 1u);
  EXPECT_EQ(data.rows_left_out, 1u);
  EXPECT_EQ(data.table[0].summary.id, "alpha");  // lost layer 2 of token 6, and all of step 9
  EXPECT_EQ(data.table[0].lost, 7u);
}

TEST(ReportData, TokensChooseAPartOfEachRequest) {
  SampleStore store;
  ReportOptions options;
  options.begin = 2;
  options.end = 4;
  const ReportData data = collect(store, options);
  for (std::size_t request = 0; request < 2; ++request) {
    const HeatMap& map = data.requests[request].maps[0];
    EXPECT_EQ(map.first_token, 2);
    EXPECT_EQ(map.columns, 2u);
    EXPECT_NEAR(map.at(0, 1).norm, SampleStore::norm(static_cast<int>(request), 0, 3), 1e-3);
  }
  options.begin = 5000;
  options.end = 6000;
  EXPECT_THROW((void)collect(store, options), Error);
}

TEST(ReportData, WhatHasNoRoomIsLeftOutAndCounted) {
  SampleStore store;
  ReportOptions options;
  options.most_cells = 200;  // five lines of forty columns: one request
  const ReportData data = collect(store, options);
  EXPECT_EQ(data.requests.size(), 1u);
  EXPECT_EQ(data.requests_left_out, 1u);
  EXPECT_TRUE(data.types_left_out.empty());
}

TEST(ReportData, D6_BytesOfEachTypeAreThoseStored) {
  SampleStore store;
  const ReportData data = collect(store);
  ASSERT_EQ(data.bytes.size(), 3u);
  EXPECT_EQ(data.bytes[0].hook, "resid_pre");
  EXPECT_EQ(data.bytes[0].hooks, 4u);
  // Five steps of two rows and one of three, of four layers; one step more of layer 1.
  EXPECT_EQ(data.bytes[0].bytes, (13u * 4 + 2) * 8);
  EXPECT_EQ(data.bytes[2].hook, "token_ids");
  EXPECT_EQ(data.bytes[2].bytes, 13u * 4);
}

TEST(SetWords, TypesWithTheSameLayersAreNamedTogether) {
  std::vector<Hook> hooks;
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* type : {"q", "k"}) {
      Hook hook;
      hook.id = static_cast<HookId>(hooks.size());
      hook.type = type;
      hook.layer = layer;
      hooks.push_back(hook);
    }
  }
  Hook logits;
  logits.id = 6;
  logits.type = "final_logits";
  hooks.push_back(logits);
  std::vector<bool> countable(7, true);
  countable[6] = false;
  EXPECT_EQ(set_in_words(hooks, {true, true, true, true, true, true, false}, countable).brief,
            "every hook");
  EXPECT_EQ(set_in_words(hooks, {true, true, true, true, false, false, true}, countable).brief,
            "q, k 0-1");
  EXPECT_EQ(set_in_words(hooks, {true, true, false, true, false, false, false}, countable).brief,
            "q 0; k 0-1");
  EXPECT_EQ(set_in_words(hooks, std::vector<bool>(7), countable).brief, "none");
}

}  // namespace
}  // namespace graphtap::cli
