// B4: each rank captures its part; the reader makes one tensor of the parts.
#include <gtest/gtest.h>

#include <cstring>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

constexpr std::int64_t kHeads = 6, kHeadDim = 4;
constexpr std::uint64_t kTokens = 12;

/// What element `index` of a row holds: token and place, so that no two rows are alike.
std::uint16_t element(std::int64_t token, std::int64_t index) {
  return static_cast<std::uint16_t>(token * 100 + index);
}

HookTable table_of(std::int64_t heads) {
  HookTable table("split");
  static_cast<void>(table.add({"resid_pre", 0, DType::u16, {8}, 1, 1}).value_or_throw());
  static_cast<void>(table.add({"z", 0, DType::u16, {heads, kHeadDim}, 1, 1}).value_or_throw());
  static_cast<void>(
      table.add({"pattern", 0, DType::u16, {heads, kPerStepColumns}, 1, 1}).value_or_throw());
  return table;
}

std::vector<std::byte> values(std::int64_t token, std::int64_t first, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * 2);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t value = element(token, first + i);
    std::memcpy(bytes.data() + i * 2, &value, 2);
  }
  return bytes;
}

/// One token of one rank, whose heads begin at `first_head`.
OwnedStep step_of(const HookTable& table, std::int32_t rank, std::uint64_t ticket,
                  std::int64_t token, std::int64_t first_head, const Request& request) {
  OwnedStep step;
  step.ticket = ticket;
  step.step = ticket;
  step.lane = static_cast<std::uint32_t>(rank);
  step.ranks.tensor = rank;
  step.wanted = table.all();
  const std::vector<Slice> slices{{request, token, 0, 1, RowFlags::none}};
  const std::int64_t heads = table[1].row_shape[0];
  const auto add = [&](HookId hook, std::vector<std::byte> row, std::int64_t columns) {
    step.records.push_back({hook, 0, 1, columns, std::move(row), slices});
  };
  add(0, values(token, 0, 8), 0);
  add(1, values(token, first_head * kHeadDim, heads * kHeadDim), 0);
  add(2, values(token, first_head * 5, heads * 5), 5);
  return step;
}

void expect_rows(const Gathered& got, std::int64_t width) {
  ASSERT_EQ(got.row_bytes, static_cast<std::uint64_t>(width) * 2);
  for (std::int64_t token = got.tokens.begin; token < got.tokens.end; ++token) {
    const bool missing = std::any_of(
        got.missing.begin(), got.missing.end(),
        [&](const MissingTokens& m) { return token >= m.tokens.begin && token < m.tokens.end; });
    const auto at = static_cast<std::size_t>(token - got.tokens.begin) * got.row_bytes;
    const std::span<const std::byte> row = std::span(got.data).subspan(at, got.row_bytes);
    EXPECT_TRUE(
        same_bytes(row, missing ? std::vector<std::byte>(got.row_bytes) : values(token, 0, width)))
        << "token " << token;
  }
}

/// Two ranks in one store (one process drives both): 4 heads and 2.
class OneStore : public testing::Test {
 protected:
  void fill(bool both = true) {
    const auto sink = open_store(dir_.store(), table_, {.world = {2, 0, 0, 0}});
    std::uint64_t ticket = 0;
    for (std::uint64_t token = 0; token < kTokens; ++token) {
      const auto at = static_cast<std::int64_t>(token);
      OwnedStep first = step_of(table_, 0, ++ticket, at, 0, request_);
      if (token == 3) {  // rank 0 loses z of token 3
        first.gaps.push_back({1, 0, GapReason::wrong_head, first.records[1].slices});
        first.records.erase(first.records.begin() + 1);
      }
      ASSERT_OK(sink->write(first.delivered(table_)));
      if (!both || token == 7) continue;  // rank 1 has nothing of token 7
      ASSERT_OK(sink->write(step_of(table_, 1, ++ticket, at, 3, request_).delivered(table_)));
    }
    ASSERT_OK(sink->close());
  }
  Result<Gathered> gather(const std::string& hook, RankFilter ranks = {}) {
    reader_ = read_store(dir_.store());
    GatherQuery query;
    query.request = "a";
    query.hook = hook;
    query.ranks = ranks;
    return reader_->gather(query);
  }

  const TempDir dir_;
  const HookTable table_ = table_of(3);
  const Request request_ = make_request(1, "a", 1);
  std::shared_ptr<StoreReader> reader_;
};

TEST_F(OneStore, B4_PartsOfARowAreJoinedInOrderOfRank) {
  fill();
  const Gathered z = gather("blocks.0.z").value_or_throw();
  EXPECT_EQ(z.tensor_ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(z.shape(), (std::vector<std::int64_t>{12, kHeads, kHeadDim}));
  expect_rows(z, kHeads * kHeadDim);
  ASSERT_EQ(z.missing.size(), 2u) << "a row without one of its parts is none";
  EXPECT_EQ(z.missing[0].tokens, (TokenRange{3, 4}));
  EXPECT_EQ(z.missing[0].why, MissingTokens::Why::gap);
  EXPECT_EQ(z.missing[0].reason, GapReason::wrong_head);
  EXPECT_EQ(z.missing[1].tokens, (TokenRange{7, 8}));
  EXPECT_EQ(z.missing[1].why, MissingTokens::Why::not_captured);
}

TEST_F(OneStore, B4_APerStepDimensionIsKept) {
  fill();
  const Gathered pattern = gather("blocks.0.pattern").value_or_throw();
  EXPECT_EQ(pattern.shape(), (std::vector<std::int64_t>{12, kHeads, 5}));
  expect_rows(pattern, kHeads * 5);
}

TEST_F(OneStore, B4_OfWhatEveryRankHasOneIsTaken) {
  fill();
  const Gathered resid = gather("blocks.0.resid_pre").value_or_throw();
  EXPECT_EQ(resid.shape(), (std::vector<std::int64_t>{12, 8}));
  EXPECT_TRUE(resid.missing.empty());
  EXPECT_EQ(resid.duplicates, kTokens - 1) << "the other rank's rows were passed over";
  expect_rows(resid, 8);
}

TEST_F(OneStore, B4_OneRankAloneIsItsPart) {
  fill();
  const Gathered z = gather("blocks.0.z", {.tensor = 1}).value_or_throw();
  EXPECT_EQ(z.shape(), (std::vector<std::int64_t>{12, 3, kHeadDim}));
  EXPECT_EQ(z.tensor_ranks, std::vector<std::int32_t>{1});
  ASSERT_EQ(z.missing.size(), 1u);
  EXPECT_EQ(z.missing[0].tokens, (TokenRange{7, 8}));
  EXPECT_TRUE(same_bytes(std::span(z.data).first(z.row_bytes), values(0, 3 * kHeadDim, 12)));

  Query query;
  query.ranks.tensor = 1;
  for (const RecordView& view : all_of(reader_->read(query))) EXPECT_EQ(view.step.ranks.tensor, 1);
  EXPECT_EQ(all_of(reader_->read(query)).size(), (kTokens - 1) * 3);
  query.ranks.pipeline = 1;
  EXPECT_TRUE(all_of(reader_->read(query)).empty());
}

/// A store for each rank, as processes of their own write them; ranks split the heads unevenly.
TEST(Shards, B4_StoresOfSeveralProcessesAreJoined) {
  const TempDir dir;
  const std::int64_t heads[] = {3, 1, 2};
  std::vector<std::shared_ptr<StoreReader>> readers;
  std::vector<Gathered> shards;
  std::int64_t first = 0;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    const HookTable table = table_of(heads[rank]);
    const auto path = dir.path() / std::to_string(rank);
    const Request request = make_request(static_cast<std::uint64_t>(rank) + 10, "a", 1);
    const auto sink = open_store(path, table, {.ranks = {rank, 0, 0, 0}, .world = {3, 0, 0, 0}});
    // Rank 1 joined late: it has no tokens before 2.
    for (std::int64_t token = rank == 1 ? 2 : 0; token < 8; ++token) {
      ASSERT_OK(sink->write(
          step_of(table, rank, static_cast<std::uint64_t>(token) + 1, token, first, request)
              .delivered(table)));
    }
    ASSERT_OK(sink->close());
    first += heads[rank];
    readers.push_back(read_store(path));
    EXPECT_EQ(readers.back()->runs()[0]->world.tensor, 3);
    EXPECT_EQ(readers.back()->runs()[0]->ranks.tensor, rank);
    GatherQuery query;
    query.request = "a";
    query.hook = "blocks.0.z";
    query.begin = rank == 1 ? 2 : 0;
    shards.push_back(readers.back()->gather(query).value_or_throw());
  }
  const Gathered z =
      merge_shards({shards[2], shards[0], shards[1]}).value_or_throw();  // in any order
  EXPECT_EQ(z.shape(), (std::vector<std::int64_t>{8, kHeads, kHeadDim}));
  expect_rows(z, kHeads * kHeadDim);
  ASSERT_EQ(z.missing.size(), 1u);
  EXPECT_EQ(z.missing[0].tokens, (TokenRange{0, 2}));

  // A wrong order of ranks would be a wrong tensor: the bytes say so.
  std::swap(shards[0].tensor_ranks, shards[2].tensor_ranks);
  const Gathered swapped = merge_shards(shards).value_or_throw();
  EXPECT_FALSE(swapped.data == z.data);
  std::swap(shards[0].tensor_ranks, shards[2].tensor_ranks);

  const auto refusal = [](std::vector<Gathered> some) {
    const Result<Gathered> merged = merge_shards(std::move(some));
    return merged.ok() ? std::string() : merged.status().message();
  };
  EXPECT_NE(refusal({}).find("no shards"), std::string::npos);
  EXPECT_NE(refusal({shards[0], shards[1]}).find("rank 2 is not among"), std::string::npos);
  EXPECT_NE(refusal({shards[0], shards[2]}).find("rank 1 is not among"), std::string::npos);
  EXPECT_NE(refusal({shards[0], shards[0], shards[1]}).find("twice"), std::string::npos);
  EXPECT_NE(refusal({z}).find("joined already"), std::string::npos);
  GatherQuery other;
  other.request = "a";
  other.hook = "blocks.0.resid_pre";
  EXPECT_NE(
      refusal({shards[0], readers[1]->gather(other).value_or_throw()}).find("different hooks"),
      std::string::npos);
}

}  // namespace
}  // namespace graphtap::store_test
