// Limits of size and age, and making room on a full disk: whole segments go, oldest first, and what
// is left is a sound store.
#include <gtest/gtest.h>

#include <thread>

#include "store/open_sink.hpp"
#include "store/sqlite.hpp"
#include "unit/store/support/faulty_ops.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

using namespace std::chrono_literals;

class Limits : public testing::Test {
 protected:
  /// Steps of 32 KiB, each of a request of its own.
  Status write(Sink& sink, std::uint64_t ticket) {
    const Request request = make_request(ticket, "request " + std::to_string(ticket));
    return sink.write(make_step(table_, ticket, request, 0, 8, {0}).delivered(table_));
  }
  void write_through(Sink& sink, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t ticket = first; ticket <= last; ++ticket) ASSERT_OK(write(sink, ticket));
  }
  std::uint64_t store_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& file : segment_files(dir_.store())) bytes += std::filesystem::file_size(file);
    return bytes;
  }
  /// Waits for something that another thread is about to do.
  template <class Condition>
  static bool soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  void expect_sound() {
    const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
    EXPECT_EQ(describe(report.findings), "");
  }
  std::string everything_in_the_index() {
    store::Database db =
        store::Database::open(dir_.store() / "index.sqlite", store::Database::Mode::read)
            .value_or_throw();
    std::string all;
    for (const char* sql :
         {"SELECT run || ' ' || name FROM runs ORDER BY 1",
          "SELECT run || ' ' || name FROM hooks ORDER BY 1",
          "SELECT segment || ' ' || bytes FROM segments ORDER BY segment",
          "SELECT segment || ' ' || frame || ' ' || ticket FROM steps ORDER BY segment, frame",
          "SELECT run || ' ' || serial || ' ' || id FROM requests ORDER BY run, serial",
          "SELECT segment || ' ' || request FROM spans ORDER BY segment, request",
          "SELECT segment || ' ' || hook || ' ' || rows FROM hook_totals ORDER BY segment, hook"}) {
      store::Statement rows = store::Statement::prepare(db, sql).value_or_throw();
      while (rows.next()) all += rows.text(0) + "\n";
    }
    return all;
  }

  const TempDir dir_;
  const HookTable table_ = small_table(1, 2048);
};

TEST_F(Limits, D6_AStoreStaysWithinItsSizeAndWhatIsLeftIsSound) {
  StoreOptions options;
  options.retain_bytes = 1 << 20;
  for (std::uint64_t run = 0; run < 3; ++run) {  // what older runs left counts too
    const auto sink = open_store(dir_.store(), table_, options);
    write_through(*sink, run * 100 + 1, run * 100 + 100);
    ASSERT_OK(sink->flush());
    EXPECT_LE(store_bytes(), options.retain_bytes);
    EXPECT_GT(store_bytes(), options.retain_bytes / 2) << "no more than is needed is removed";
    ASSERT_OK(sink->close());
    EXPECT_LE(store_bytes(), options.retain_bytes);
    expect_sound();
  }
  const auto reader = read_store(dir_.store());
  const std::vector<std::uint64_t> left = tickets(*reader);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.back(), 300u);
  for (std::size_t i = 1; i < left.size(); ++i) EXPECT_EQ(left[i], left[i - 1] + 1) << "a hole";
  EXPECT_EQ(reader->requests().size(), left.size()) << "requests whose rows are gone are gone";
  const std::string kept = everything_in_the_index();
  ASSERT_TRUE(rebuild_index(dir_.store()).ok());
  EXPECT_EQ(everything_in_the_index(), kept) << "the index forgot what the segments no longer hold";
}

TEST_F(Limits, D6_AReaderKeepsWhatItSees) {
  StoreOptions options;
  options.retain_bytes = 1 << 20;
  const auto sink = open_store(dir_.store(), table_, options);
  write_through(*sink, 1, 5);
  const auto reader = read_store(dir_.store());
  const std::vector<RecordView> before = all_of(reader->read({}));
  write_through(*sink, 6, 200);
  ASSERT_OK(sink->flush());
  ASSERT_NE(segment_files(dir_.store()).front().filename(), "000001.gts");
  EXPECT_EQ(all_of(reader->read({})).size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const OwnedStep step = make_step(table_, i + 1, make_request(i + 1, ""), 0, 8, {0});
    EXPECT_TRUE(same_bytes(before[i].data, step.records[0].payload));
  }
  ASSERT_OK(reader->refresh());
  EXPECT_EQ(tickets(*reader).back(), 200u);
  ASSERT_OK(sink->close());
}

TEST_F(Limits, D6_AgedSegmentsGoThoughNothingIsWritten) {
  StoreOptions options;
  options.segment_bytes = 1;  // the least: two steps a segment
  options.retain_age = 1s;
  const auto sink = open_store(dir_.store(), table_, options);
  write_through(*sink, 1, 20);
  EXPECT_GT(segment_files(dir_.store()).size(), 5u);
  EXPECT_TRUE(soon([&] { return segment_files(dir_.store()).size() == 1; }))
      << "only the one being written stays";
  ASSERT_OK(sink->close());
  expect_sound();
}

TEST_F(Limits, D6_ASegmentIsClosedWhenItIsOldEnough) {
  StoreOptions options;
  options.segment_age = 1s;
  const auto sink = open_store(dir_.store(), table_, options);
  std::uint64_t ticket = 0;
  EXPECT_TRUE(soon([&] {
    EXPECT_TRUE(write(*sink, ++ticket).ok());
    return segment_files(dir_.store()).size() == 2;
  }));
  ASSERT_OK(sink->close());
  EXPECT_EQ(tickets(*read_store(dir_.store())).size(), ticket);
  expect_sound();
}

TEST_F(Limits, E_AClockThatWasSetRemovesNothing) {
  {
    StoreOptions options;
    options.segment_bytes = 1;
    const auto sink = open_store(dir_.store(), table_, options);
    write_through(*sink, 1, 20);
    ASSERT_OK(sink->close());
  }
  // Written while the clock was a day ahead: from the future, as it seems now.
  const auto files = segment_files(dir_.store());
  for (const auto& file : files) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + 24h);
  }
  StoreOptions options;
  options.retain_age = 1h;
  auto sink = open_store(dir_.store(), table_, options);
  ASSERT_OK(write(*sink, 21));
  ASSERT_OK(sink->flush());
  EXPECT_EQ(segment_files(dir_.store()).size(), files.size() + 1);
  ASSERT_OK(sink->close());
  // And those that are old in truth go.
  for (const auto& file : files) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - 24h);
  }
  sink = open_store(dir_.store(), table_, options);
  ASSERT_OK(write(*sink, 22));
  ASSERT_OK(sink->flush());
  EXPECT_EQ(segment_files(dir_.store()).size(), 2u);
  ASSERT_OK(sink->close());
  EXPECT_EQ(tickets(*read_store(dir_.store())), (std::vector<std::uint64_t>{21, 22}));
  expect_sound();
}

TEST_F(Limits, E_StepsThatGoBackInTimeAreStoredInOrder) {
  const auto sink = open_store(dir_.store(), table_, {});
  for (std::uint64_t ticket = 1; ticket <= 10; ++ticket) {
    OwnedStep step = make_step(table_, ticket, make_request(1, "a"), 0, 1, {0});
    step.end_unix_ns = ticket == 5 ? -7 : (ticket < 5 ? 100 : 50) * std::int64_t{1'000'000'000};
    ASSERT_OK(sink->write(step.delivered(table_)));
  }
  ASSERT_OK(sink->close());
  const auto reader = read_store(dir_.store());
  EXPECT_EQ(tickets(*reader).size(), 10u);
  EXPECT_EQ(reader->summary().runs[0].first_end_unix_ns, -7);
  expect_sound();
}

TEST_F(Limits, E_AFullDiskMakesRoomByItsOldestSegmentsIfAsked) {
  const SmallDisk disk(dir_.store(), "2m");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a small disk";
  StoreOptions options;
  options.segment_bytes = 128 << 10;
  options.when_full = WhenFull::remove_oldest;
  const auto sink = open_store(dir_.store(), table_, options);
  write_through(*sink, 1, 300);  // 10 MB
  ASSERT_OK(sink->close());
  const std::vector<std::uint64_t> left = tickets(*read_store(dir_.store()));
  EXPECT_EQ(left.back(), 300u);
  EXPECT_GT(left.size(), 20u) << "more was removed than was needed";
  EXPECT_TRUE(verify_store(dir_.store(), true).value_or_throw().ok());
}

TEST_F(Limits, E_ADiskThatSomeoneElseFillsDoesNotCostTheWholeStore) {
  FaultyOps ops;
  StoreOptions options;
  options.segment_bytes = 1;
  options.when_full = WhenFull::remove_oldest;
  const auto sink = store::open_sink(ops, dir_.store(), table_, options).value_or_throw();
  write_through(*sink, 1, 40);
  const std::size_t before = segment_files(dir_.store()).size();
  ops.fail_writes(Fault::refused, ENOSPC);
  const Status status = write(*sink, 41);
  EXPECT_EQ(status.code(), Code::exhausted) << status.message();
  ops.heal();
  EXPECT_GE(segment_files(dir_.store()).size() + 8, before);
  ASSERT_OK(write(*sink, 41));
  ASSERT_OK(sink->close());
  EXPECT_EQ(tickets(*read_store(dir_.store())).back(), 41u);
}

TEST_F(Limits, E_SpaceThatIsToStayFreeIsNotUsed) {
  const auto space = std::filesystem::space(dir_.path());
  StoreOptions options;
  options.keep_free_bytes = space.available + (1ull << 40);
  const auto sink = open_store(dir_.store(), table_, options);
  const Status status = write(*sink, 1);
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_NE(status.message().find("stay free"), std::string::npos) << status.message();
  ASSERT_OK(sink->close());
  EXPECT_TRUE(tickets(*read_store(dir_.store())).empty());
  options.keep_free_bytes = 1;
  const auto other = open_store(dir_.store(), table_, options);
  ASSERT_OK(write(*other, 1));
  ASSERT_OK(other->close());
}

TEST_F(Limits, E_ASegmentThatCannotBeRemovedIsSaidOnceAndKept) {
  FaultyOps ops;
  StoreOptions options;
  options.segment_bytes = 1;
  options.retain_bytes = 512 << 10;
  const auto sink = store::open_sink(ops, dir_.store(), table_, options).value_or_throw();
  ops.fail_unlinks(EPERM);
  write_through(*sink, 1, 14);
  Status told;
  EXPECT_TRUE(soon([&] {
    for (std::uint64_t ticket = 15; ticket < 60 && told.ok(); ++ticket) told = write(*sink, ticket);
    return !told.ok();
  }));
  EXPECT_NE(told.message().find("old segment"), std::string::npos) << told.message();
  ops.heal();
  static_cast<void>(sink->flush());
  ASSERT_OK(write(*sink, 100));
  static_cast<void>(sink->close());
  EXPECT_EQ(tickets(*read_store(dir_.store())).back(), 100u);
  EXPECT_TRUE(verify_store(dir_.store(), true).value_or_throw().ok());
}

TEST_F(Limits, E_WithoutLocksNoStoreIsWritten) {
  FaultyOps ops;
  ops.fail_locks(ENOLCK);
  const auto sink = store::open_sink(ops, dir_.store(), table_, {});
  ASSERT_FALSE(sink.ok());
  EXPECT_EQ(sink.status().code(), Code::unavailable);
  EXPECT_NE(sink.status().message().find("network file system"), std::string::npos)
      << sink.status().message();
}

}  // namespace
}  // namespace graphtap::store_test
