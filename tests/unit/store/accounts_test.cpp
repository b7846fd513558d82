// C2, B4, issue rows of the reader: everything that is not a plain row is visible, and counted
// right.
#include <gtest/gtest.h>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

TEST(Accounts, C2_WhatIsNotAPlainRowIsCountedByOwner) {
  const TempDir dir;
  const HookTable table = small_table(2, 4);
  const Request a = make_request(1, "a", 4);
  const Request b = make_request(2, "b", 4);
  const Request c = make_request(3, "plain", 1);
  {
    const auto sink = open_store(dir.store(), table, {.world = {4, 0, 0, 0}});
    ASSERT_OK(sink->event({RequestEvent::Kind::not_computed, b, 0, 3, true, 0, 0}));
    // Tokens 0-3 of a, one of c, and two rows that are nobody's, in two hooks.
    OwnedStep step = make_step(table, 1, a, 0, 4, {});
    std::vector<Slice> slices{{a, 0, 0, 4, RowFlags::none}, {c, 0, 4, 1, RowFlags::none}};
    for (HookId hook : {HookId{0}, HookId{1}}) {
      OwnedRecord record = make_record(table, hook, slices, 7 + hook);
      record.rows += 2;
      record.payload = bytes_of(hook, record.rows * table[hook].row_bytes());
      step.records.push_back(std::move(record));
    }
    ASSERT_OK(sink->write(step.delivered(table)));
    // Tokens 2-3 of a again; a draft of b, tokens 4-6, of which the last is not accepted.
    step = make_step(table, 2, a, 2, 2, {});
    step.ranks.tensor = 2;
    slices = {{a, 2, 0, 2, RowFlags::recomputed}, {b, 4, 2, 3, RowFlags::speculative}};
    step.records.push_back(make_record(table, 0, slices, 3));
    step.gaps.push_back({1, 0, GapReason::shed_ring, slices});
    step.gaps.push_back({2, 0, GapReason::not_fired, {}});
    ASSERT_OK(sink->write(step.delivered(table)));
    ASSERT_OK(sink->event({RequestEvent::Kind::rejected, b, 6, 7, true, 0, 0}));
    // A chunked record: three rows were planned, two came.
    step = make_step(table, 3, b, 6, 3, {0});
    step.records[0].payload.resize(2 * table[0].row_bytes());
    ASSERT_OK(sink->write(step.delivered(table)));
    ASSERT_OK(sink->close());
  }
  const auto reader = read_store(dir.store());
  const std::vector<RunAccount> accounts = reader->accounts();
  ASSERT_EQ(accounts.size(), 1u);
  const RunAccount& run = accounts[0];
  EXPECT_EQ(run.unattributed_rows, 4u);
  EXPECT_EQ(run.unattributed_records, 2u);
  EXPECT_EQ(run.short_records, 1u);
  EXPECT_EQ(run.gaps_of_no_request, 1u);
  EXPECT_EQ(run.ranks, (std::vector<Ranks>{{0, 0, 0, 0}, {2, 0, 0, 0}}));
  EXPECT_EQ(run.absent_tensor_ranks(), (std::vector<std::int32_t>{1, 3}));
  ASSERT_EQ(run.requests.size(), 3u);
  const RequestAccount& of_a = run.requests[0];
  EXPECT_EQ(of_a.id, "a");
  EXPECT_EQ(of_a.rows, 10u);
  EXPECT_EQ(of_a.recomputed_rows, 2u);
  EXPECT_EQ(of_a.gaps[static_cast<std::size_t>(GapReason::shed_ring)], 1u);
  EXPECT_FALSE(of_a.plain());
  const RequestAccount& of_b = run.requests[1];
  EXPECT_EQ(of_b.rows, 5u);
  EXPECT_EQ(of_b.speculative_rows, 3u);
  EXPECT_EQ(of_b.rejected_rows, 1u) << "what was computed after the event is not meant by it";
  EXPECT_EQ(of_b.not_computed_tokens, 3u);
  EXPECT_EQ(run.requests[2].rows, 2u);
  EXPECT_TRUE(run.requests[2].plain());
}

}  // namespace
}  // namespace graphtap::store_test
