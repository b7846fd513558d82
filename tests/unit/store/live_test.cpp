#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

TEST(StoreLive, D4_AStepIsReadableAsSoonAsItsWriteReturns) {
  const HookTable table = small_table();
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const auto reader = read_store(dir.store());
  const Request a = make_request(1, "a");
  for (std::uint64_t ticket = 1; ticket <= 300; ++ticket) {
    const OwnedStep step =
        make_step(table, ticket, a, static_cast<std::int64_t>(ticket), 1, {0, 1, 3});
    ASSERT_OK(sink->write(step.delivered(table)));
    ASSERT_OK(reader->refresh());
    Query query;
    query.request = "a";
    query.begin = static_cast<std::int64_t>(ticket);
    const auto views = all_of(reader->read(query));
    ASSERT_EQ(views.size(), 3u) << "step " << ticket << " is not there yet";
    EXPECT_TRUE(same_bytes(views[2].data, step.records[2].payload));
  }
  EXPECT_EQ(reader->summary().runs[0].state, RunSummary::State::open);
  ASSERT_OK(sink->event({RequestEvent::Kind::rejected, a, 300, 301, true, 0, 0}));
  ASSERT_OK(reader->refresh());
  Query last;
  last.begin = 300;
  EXPECT_TRUE(all_of(reader->read(last)).front().rejected) << "events are readable as well";
  ASSERT_OK(sink->close());
  ASSERT_OK(reader->refresh());
  EXPECT_EQ(reader->summary().runs[0].state, RunSummary::State::closed);
  EXPECT_EQ(tickets(*reader).size(), 300u);
}

TEST(StoreLive, D6_ViewsStayValidWhileTheStoreGrows) {
  const HookTable table = small_table(1, 512 << 10);  // 1 MiB a row
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const Request a = make_request(1, "a");
  const OwnedStep first = make_step(table, 1, a, 0, 1, {0});
  ASSERT_OK(sink->write(first.delivered(table)));
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({}));
  ASSERT_EQ(views.size(), 1u);
  // Beyond what was mapped at first, and beyond the room it was mapped with after that.
  for (std::uint64_t ticket = 2; ticket <= 80; ++ticket) {
    ASSERT_OK(sink->write(
        make_step(table, ticket, a, static_cast<std::int64_t>(ticket), 1, {0}).delivered(table)));
    if (ticket % 13 == 0) ASSERT_OK(reader->refresh());
  }
  ASSERT_OK(reader->refresh());
  EXPECT_EQ(tickets(*reader).size(), 80u);
  EXPECT_TRUE(same_bytes(views[0].data, first.records[0].payload));
}

TEST(StoreLive, D6_ACursorGoesOnOverWhatWasThereWhenItWasMade) {
  const HookTable table = small_table();
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const Request a = make_request(1, "a");
  const auto write = [&](std::uint64_t ticket) {
    ASSERT_OK(sink->write(make_step(table, ticket, a, 0, 1, {0}).delivered(table)));
  };
  for (std::uint64_t ticket = 1; ticket <= 5; ++ticket) write(ticket);
  const auto reader = read_store(dir.store());
  StepCursor cursor = reader->steps().value_or_throw();
  StepView view;
  ASSERT_TRUE(cursor.next(view));
  for (std::uint64_t ticket = 6; ticket <= 9; ++ticket) write(ticket);
  ASSERT_OK(reader->refresh());
  std::size_t seen = 1;
  while (cursor.next(view)) ++seen;
  EXPECT_EQ(seen, 5u);
  EXPECT_EQ(tickets(*reader).size(), 9u);
}

TEST(StoreLive, D6_AReaderFollowsAWriterThroughManySegments) {
  const HookTable table = small_table(2, 2048);
  const TempDir dir;
  constexpr std::uint64_t kSteps = 400;
  const auto sink = open_store(dir.store(), table, {.segment_bytes = 200 << 10});
  const auto reader = read_store(dir.store());
  std::atomic<std::uint64_t> written{0};
  std::jthread writer([&] {  // joins also when a check below ends the test
    const Request a = make_request(1, "a");
    for (std::uint64_t ticket = 1; ticket <= kSteps; ++ticket) {
      const OwnedStep step =
          make_step(table, ticket, a, static_cast<std::int64_t>(ticket), 1, {0, 1});
      if (!sink->write(step.delivered(table)).ok()) break;
      written = ticket;
    }
  });
  std::uint64_t rounds = 0;
  for (bool last = false; !last;) {
    const std::uint64_t least = written;
    last = least == kSteps;
    ASSERT_OK(reader->refresh());
    const auto found = tickets(*reader);
    EXPECT_GE(found.size(), least) << "what was acknowledged is readable";
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i + 1);
    for (const Finding& finding : reader->findings())
      EXPECT_EQ(finding.severity, Severity::note) << finding.what;
    ++rounds;
  }
  writer.join();
  EXPECT_GT(rounds, 1u);
  EXPECT_GE(segment_files(dir.store()).size(), 10u);
  ASSERT_OK(sink->close());
  EXPECT_TRUE(verify_store(dir.store(), true).value_or_throw().findings.empty());
}

TEST(StoreLive, D6_ConstCallsMayRunAtTheSameTime) {
  const HookTable table = small_table();
  const TempDir dir;
  {
    const auto sink = open_store(dir.store(), table);
    for (std::uint64_t ticket = 1; ticket <= 50; ++ticket) {
      ASSERT_OK(sink->write(make_step(table, ticket, make_request(1, "a"),
                                      static_cast<std::int64_t>(ticket), 1, {0, 1, 2})
                                .delivered(table)));
    }
  }
  const auto reader = read_store(dir.store(), {ReadOptions::Check::always});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const bool all = tickets(*reader).size() == 50 &&
                       all_of(reader->read({.request = "a"})).size() == 150 &&
                       reader->summary().runs.size() == 1 && reader->findings().empty();
      right += all ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace graphtap::store_test
