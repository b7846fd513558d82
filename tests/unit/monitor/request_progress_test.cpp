#include "monitor/request_progress.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "device/host/random.hpp"

namespace graphtap {
namespace {

Request request(std::uint64_t serial) {
  return std::make_shared<RequestInfo>(RequestInfo{serial, "r", 0});
}

bool again(const RowSpan& span) { return has(span.flags, RowFlags::recomputed); }

TEST(RequestProgress, C2_TokensComputedBeforeAreMarkedRowByRow) {
  int repeated = 0, split = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RequestProgress progress;
    std::map<std::uint64_t, std::int64_t> until;  // of requests that were begun
    for (std::uint64_t serial = 1; serial <= 3; ++serial) {
      progress.begin(serial);
      until[serial] = 0;
    }
    for (int step = 0; step < 30; ++step) {
      std::vector<RowSpan> spans;
      for (std::uint64_t serial = 1; serial <= 4; ++serial) {  // 4 is unknown
        if (random.chance(0.3)) continue;
        RowSpan span;
        if (!random.chance(0.1)) span.request = request(serial);
        const std::int64_t from = std::max<std::int64_t>(0, until[serial] - 3);
        span.first_token = from + static_cast<std::int64_t>(random.below(5));
        span.rows = static_cast<std::uint32_t>(random.below(6));
        if (random.chance(0.2)) span.flags = RowFlags::speculative;
        spans.push_back(span);
      }
      const std::vector<RowSpan> seen = progress.marked(spans);
      const std::vector<RowSpan> out = progress.advance(spans);
      ASSERT_EQ(seen.size(), out.size()) << "marked() sees what advance() will";
      // Row by row: the same rows in the same order, each with the right flag.
      std::size_t piece = 0, in_piece = 0;
      for (const RowSpan& span : spans) {
        const bool known = span.request && span.request->serial <= 3;
        for (std::uint32_t i = 0; i < span.rows; ++i) {
          while (piece < out.size() && in_piece == out[piece].rows) {
            ++piece;
            in_piece = 0;
          }
          ASSERT_LT(piece, out.size());
          EXPECT_EQ(out[piece].request, span.request);
          EXPECT_EQ(out[piece].first_token + static_cast<std::int64_t>(in_piece),
                    span.first_token + i);
          const bool expected = known && span.first_token + i < until[span.request->serial];
          EXPECT_EQ(again(out[piece]), expected);
          EXPECT_EQ(again(seen[piece]), expected);
          EXPECT_EQ(has(out[piece].flags, RowFlags::speculative),
                    has(span.flags, RowFlags::speculative));
          repeated += expected;
          ++in_piece;
        }
        if (known && !has(span.flags, RowFlags::speculative)) {
          auto& end = until[span.request->serial];
          end = std::max(end, span.first_token + span.rows);
        }
      }
      split += out.size() > spans.size();
      if (random.chance(0.05)) {  // it ends; the next with that serial would be another
        progress.finish(2);
        progress.begin(2);
        until[2] = 0;
      }
    }
  }
  EXPECT_GT(repeated, 2000);
  EXPECT_GT(split, 500);
}

TEST(RequestProgress, C2_ARejectedDraftIsNotARepetition) {
  RequestProgress progress;
  progress.begin(1);
  const Request r = request(1);
  EXPECT_FALSE(again(progress.advance(std::vector<RowSpan>{{r, 0, 3, RowFlags::none}})[0]));
  EXPECT_FALSE(again(progress.advance(std::vector<RowSpan>{{r, 3, 2, RowFlags::speculative}})[0]));
  EXPECT_FALSE(again(progress.advance(std::vector<RowSpan>{{r, 3, 1, RowFlags::none}})[0]));
  EXPECT_TRUE(again(progress.advance(std::vector<RowSpan>{{r, 3, 1, RowFlags::none}})[0]));
}

}  // namespace
}  // namespace graphtap
