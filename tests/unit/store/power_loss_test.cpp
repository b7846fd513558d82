// Durability::power: what a sync has seen is there after the power went, and what is left of the
// rest is given out whole or not at all.
#include <gtest/gtest.h>

#include <chrono>

#include "store/open_sink.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/power_loss_ops.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

OwnedStep step_of(const HookTable& table, std::uint64_t ticket) {
  Random random(ticket);
  const auto rows = static_cast<std::uint32_t>(1 + below(random, 30));
  return make_step(table, ticket, make_request(1 + ticket / 5, "r" + std::to_string(ticket / 5)),
                   static_cast<std::int64_t>(ticket * 40), rows, {0, 1, 2});
}

/// Every step that is there is right; the last of them.
std::uint64_t check(const std::filesystem::path& store, const HookTable& table) {
  const auto reader = StoreReader::open(store);
  if (!reader.ok()) return 0;
  std::uint64_t last = 0;
  RecordCursor records = reader.value()->read({}).value_or_throw();
  std::map<std::uint64_t, std::size_t> seen;
  for (RecordView view; records.next(view);) {
    const OwnedStep expected = step_of(table, view.step.ticket);
    const OwnedRecord& record = expected.records.at(view.hook->id);
    EXPECT_TRUE(same_bytes(view.data, record.payload)) << "ticket " << view.step.ticket;
    EXPECT_EQ(view.request, record.slices[0].request->serial);
    EXPECT_EQ(view.first_token, record.slices[0].first_token);
    ++seen[view.step.ticket];
  }
  for (std::uint64_t ticket = 1; seen.contains(ticket) && seen[ticket] == 3; ++ticket)
    last = ticket;
  return last;  // of those without a hole before them
}

TEST(PowerLoss, D5_WhatWasSyncedIsThereAndNothingWrongIsGivenOut) {
  const HookTable table = small_table(3, 700);
  std::uint64_t beyond = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const TempDir dir;
    PowerLossOps ops;
    StoreOptions options;
    options.durability = Durability::power;
    options.segment_bytes = 100 << 10;
    options.sync_interval = std::chrono::milliseconds(below(random, 2) == 0 ? 1 : 100'000);
    // The directory is new as well: its own entry must be safe with the rest.
    const auto sink =
        store::open_sink(ops, dir.path() / "new" / "store", table, options).value_or_throw();
    std::uint64_t safe = 0;
    const std::uint64_t steps = 5 + below(random, 25);
    for (std::uint64_t ticket = 1; ticket <= steps; ++ticket) {
      ASSERT_OK(sink->write(step_of(table, ticket).delivered(table)));
      if (below(random, 6) == 0) {
        ASSERT_OK(sink->flush());
        safe = ticket;
      }
      if (below(random, 6) != 0) continue;
      const bool worst = below(random, 2) == 0;
      const auto after = dir.path() / ("after-" + std::to_string(ticket));
      ops.lose_power(dir.path() / "new", after, random, worst);
      const std::uint64_t last = check(after / "store", table);
      EXPECT_GE(last, safe) << "a step that was synced is gone";
      beyond += last > safe ? 1 : 0;
      lost += last < ticket ? 1 : 0;
      // And a writer goes on with what is left.
      if (std::filesystem::exists(after / "store" / "graphtap-store.json")) {
        const auto next = open_store(after / "store", table);
        ASSERT_OK(next->write(step_of(table, 1000).delivered(table)));
        ASSERT_OK(next->close());
      }
    }
    ASSERT_OK(sink->close());
    const auto after = dir.path() / "after-close";
    ops.lose_power(dir.path() / "new", after, random, true);
    EXPECT_EQ(check(after / "store", table), steps) << "close() is a sync too";
  }
  EXPECT_GT(beyond, 10u) << "it never happened that more was there than had to be";
  EXPECT_GT(lost, 10u) << "nothing was ever lost: the test proves little";
}

}  // namespace
}  // namespace graphtap::store_test
