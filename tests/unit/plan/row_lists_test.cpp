#include "plan/row_lists.hpp"

#include <gtest/gtest.h>

#include <set>

#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

/// Slices that cover rows [0, n) of a batch in order.
std::vector<Slice> random_slices(Random& random) {
  std::vector<Slice> slices;
  std::uint32_t row = 0;
  for (const RowSpan& span : testing::random_spans(random, testing::random_requests(random))) {
    if (span.rows == 0) continue;
    slices.push_back({span.request, span.first_token, row, span.rows, span.flags});
    row += span.rows;
  }
  return slices;
}

std::uint32_t rows_in(const std::vector<Slice>& slices) {
  return slices.empty() ? 0 : slices.back().row + slices.back().rows;
}

TEST(RowLists, UniteIsTheSortedUnionAndMergesNeighbours) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<RowRange> ranges;
    std::set<std::uint32_t> rows;
    const std::uint64_t count = random.below(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto begin = static_cast<std::uint32_t>(random.below(30));
      const auto end = begin + 1 + static_cast<std::uint32_t>(random.below(6));
      ranges.push_back({begin, end});
      for (std::uint32_t row = begin; row < end; ++row) rows.insert(row);
    }
    std::set<std::uint32_t> united;
    std::uint32_t last_end = 0;
    bool first = true;
    for (const RowRange& range : unite(ranges)) {
      EXPECT_LT(range.begin, range.end);
      EXPECT_TRUE(first || range.begin > last_end) << "ranges that touch are one";
      first = false;
      last_end = range.end;
      for (std::uint32_t row = range.begin; row < range.end; ++row) united.insert(row);
    }
    EXPECT_EQ(united, rows);
  }
}

TEST(RowLists, C1_ClipKeepsEveryRowWithItsToken) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::vector<Slice> slices = random_slices(random);
    const std::uint32_t all = rows_in(slices);
    const auto begin = static_cast<std::uint32_t>(random.below(all + 1));
    const auto rows = static_cast<std::uint32_t>(random.below(all - begin + 1));
    const std::vector<Slice> clipped = clip(slices, begin, rows);
    std::uint32_t covered = 0;
    for (const Slice& part : clipped) {
      EXPECT_EQ(part.row, covered) << "no hole: the whole did not have one";
      covered += part.rows;
      for (std::uint32_t i = 0; i < part.rows; ++i) {
        for (const Slice& whole : slices) {
          const std::uint32_t row = begin + part.row + i;
          if (row < whole.row || row >= whole.row + whole.rows) continue;
          EXPECT_EQ(part.request, whole.request);
          EXPECT_EQ(part.first_token + i, whole.first_token + (row - whole.row));
          EXPECT_EQ(part.flags, whole.flags);
        }
      }
    }
    EXPECT_EQ(covered, rows);
  }
}

TEST(RowLists, A18_AListNamesTheRowsOfItsRangesAndTheirOwners) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::vector<Slice> slices = random_slices(random);
    std::vector<RowRange> ranges;
    for (std::uint32_t row = 0; row < rows_in(slices); ++row) {
      if (random.chance(0.5)) ranges.push_back({row, row + 1});
    }
    ranges = unite(ranges);
    const RowList list = make_row_list(RowBasis::tokens, ranges, slices);
    std::vector<std::uint32_t> expected;
    for (const RowRange& range : ranges) {
      for (std::uint32_t row = range.begin; row < range.end; ++row) expected.push_back(row);
    }
    ASSERT_EQ(list.rows, expected);
    std::uint32_t covered = 0;
    for (const Slice& slice : list.slices) {
      EXPECT_EQ(slice.row, covered);
      for (std::uint32_t i = 0; i < slice.rows; ++i) {
        const std::vector<Slice> owner = clip(slices, list.rows[slice.row + i], 1);
        ASSERT_EQ(owner.size(), 1u);
        EXPECT_EQ(slice.request, owner[0].request);
        EXPECT_EQ(slice.first_token + i, owner[0].first_token);
      }
      covered += slice.rows;
    }
    EXPECT_EQ(covered, expected.size());
  }
}

TEST(RowLists, A18_WindowsCountFromTheSequenceOrFromTheResponse) {
  const auto request = std::make_shared<RequestInfo>(RequestInfo{1, "a", 10});
  const std::vector<Slice> slices{{request, 8, 0, 6}};  // tokens 8 to 13
  LeaseSpec lease;
  const auto wanted = [&](TokenWindow window) {
    lease.windows = {window};
    std::vector<std::uint32_t> rows;
    for (const RowRange& range : wanted_rows(lease, slices)) {
      for (std::uint32_t row = range.begin; row < range.end; ++row) rows.push_back(row);
    }
    return rows;
  };
  using Rows = std::vector<std::uint32_t>;
  EXPECT_EQ(wanted({9, 11, TokenWindow::From::sequence}), (Rows{1, 2}));
  EXPECT_EQ(wanted({0, 2, TokenWindow::From::response}), (Rows{2, 3}));
  EXPECT_EQ(wanted({0, 8, TokenWindow::From::sequence}), Rows{});
  EXPECT_EQ(wanted({0, 100, TokenWindow::From::response}), (Rows{2, 3, 4, 5}));
}

}  // namespace
}  // namespace graphtap
