#include <gtest/gtest.h>

#include <map>
#include <string>

#include "store/index.hpp"
#include "store/sqlite.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

using store::Database;
using store::Statement;

class StoreIndex : public testing::Test {
 protected:
  /// Twelve steps of two requests in several segments.
  void fill(bool close = true) {
    const HookTable table = small_table(3, 2048);
    sink_ = open_store(dir_.store(), table, {.segment_bytes = 1});
    const Request a = make_request(1, "a");
    const Request b = make_request(2, "b", 3);
    ASSERT_OK(sink_->event({RequestEvent::Kind::begun, a, 0, 0, true, 0, 0}));
    for (std::uint64_t ticket = 1; ticket <= 12; ++ticket) {
      OwnedStep step = make_step(table, ticket, ticket % 3 == 0 ? b : a,
                                 static_cast<std::int64_t>(ticket), 1, {0, 1, 2});
      step.gaps.push_back({3, 0, GapReason::shed_ring, {}});
      ASSERT_OK(sink_->write(step.delivered(table)));
    }
    ASSERT_OK(sink_->flush());
    if (close) {
      ASSERT_OK(sink_->close());
      sink_.reset();
    }
  }
  std::filesystem::path path() const { return dir_.store() / "index.sqlite"; }
  std::int64_t ask(const char* sql) {
    Database db = Database::open(path(), Database::Mode::read).value_or_throw();
    Statement statement = Statement::prepare(db, sql).value_or_throw();
    return statement.next() ? statement.number(0) : -1;
  }
  /// Every row of every table, as text.
  std::string dump() {
    Database db = Database::open(path(), Database::Mode::read).value_or_throw();
    std::string all;
    for (const char* table : {"runs", "hooks", "segments", "steps", "requests", "spans", "events",
                              "hook_totals", "gap_totals"}) {
      const std::string count =
          "SELECT count(*) FROM pragma_table_info('" + std::string(table) + "')";
      Statement columns = Statement::prepare(db, count.c_str()).value_or_throw();
      const std::int64_t width = columns.next() ? columns.number(0) : 0;
      std::string order = "1";
      for (std::int64_t i = 2; i <= width; ++i) order += ", " + std::to_string(i);
      const std::string sql = "SELECT * FROM " + std::string(table) + " ORDER BY " + order;
      Statement rows = Statement::prepare(db, sql.c_str()).value_or_throw();
      while (rows.next()) {
        all += table;
        for (std::int64_t i = 0; i < width; ++i) all += "|" + rows.text(static_cast<int>(i));
        all += "\n";
      }
    }
    return all;
  }
  std::string findings() {
    return describe(verify_store(dir_.store(), false).value_or_throw().findings);
  }

  const TempDir dir_;
  std::shared_ptr<Sink> sink_;
};

TEST_F(StoreIndex, D6_SqlAnswersWhatTheStoreHolds) {
  fill();
  EXPECT_EQ(ask("SELECT count(*) FROM steps"), 12);
  EXPECT_EQ(ask("SELECT sum(records) FROM steps"), 36);
  EXPECT_EQ(ask("SELECT sum(bytes) FROM hook_totals"), 36 * 4096);
  EXPECT_EQ(ask("SELECT sum(count) FROM gap_totals WHERE reason = 32"), 12);
  EXPECT_EQ(ask("SELECT sum(frames) FROM spans JOIN requests ON request = serial WHERE id = 'b'"),
            4);
  EXPECT_EQ(ask("SELECT prompt_tokens FROM requests WHERE id = 'b'"), 3);
  EXPECT_EQ(ask("SELECT count(*) FROM hooks WHERE type = 'resid_pre'"), 3);
  EXPECT_EQ(ask("SELECT count(*) FROM events"), 1);
  EXPECT_GT(ask("SELECT count(*) FROM segments WHERE closed"), 2);
  EXPECT_EQ(findings(), "");
}

TEST_F(StoreIndex, D6_AClosedStoreHasItsIndexInOnePlainFile) {
  fill();
  for (const auto& entry : std::filesystem::directory_iterator(dir_.store())) {
    EXPECT_EQ(entry.path().string().find("sqlite-"), std::string::npos) << entry.path();
  }
}

TEST_F(StoreIndex, D6_AfterAFlushTheIndexIsUpToDateWhileTheStoreIsOpen) {
  fill(false);
  EXPECT_EQ(ask("SELECT count(*) FROM steps"), 12);
  EXPECT_EQ(ask("SELECT sum(tokens) FROM hook_totals"), 36);
}

TEST_F(StoreIndex, E_RebuiltFromTheSegmentsAloneItIsTheSame) {
  fill();
  const std::string before = dump();
  ASSERT_NE(before.find("steps|"), std::string::npos);
  std::filesystem::remove(path());
  EXPECT_NE(findings().find("is missing"), std::string::npos);
  const IndexReport report = rebuild_index(dir_.store()).value_or_throw();
  EXPECT_EQ(report.steps, 12u);
  EXPECT_EQ(report.requests, 2u);
  EXPECT_EQ(report.segments, segment_files(dir_.store()).size());
  EXPECT_EQ(dump(), before);
  EXPECT_EQ(findings(), "");
}

TEST_F(StoreIndex, E_GarbageInItsPlaceHarmsNoReaderAndIsReplaced) {
  fill();
  write_bytes(path(), bytes_of(1, 5000));
  EXPECT_EQ(tickets(*read_store(dir_.store())).size(), 12u);
  EXPECT_NE(findings().find("warning index.sqlite@0: cannot be read"), std::string::npos);
  ASSERT_TRUE(rebuild_index(dir_.store()).ok());
  EXPECT_EQ(findings(), "");
  write_bytes(path(), bytes_of(2, 4096));
  fill();
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(ask("SELECT count(*) FROM steps"), 24) << "the next writer builds it anew";
}

TEST_F(StoreIndex, E_ARowThatDiffersFromItsSegmentIsFound) {
  const char* changes[] = {"UPDATE steps SET ticket = 99 WHERE ticket = 5",
                           "UPDATE spans SET first_token = 0 WHERE request = 2",
                           "UPDATE events SET request = 7",
                           "UPDATE hook_totals SET bytes = bytes + 1",
                           "DELETE FROM gap_totals",
                           "INSERT INTO steps (segment, frame) VALUES (1, 777)"};
  for (const char* change : changes) {
    std::filesystem::remove_all(dir_.store());
    fill();
    {
      Database db = Database::open(path(), Database::Mode::write).value_or_throw();
      ASSERT_OK(db.run(change));
    }
    EXPECT_NE(findings(), "") << change;
  }
}

TEST_F(StoreIndex, E_OfACrashedWriterItIsBehindAndBuiltAnew) {
  fill(false);
  const TempDir copy;
  std::filesystem::copy(dir_.store(), copy.store(), std::filesystem::copy_options::recursive);
  EXPECT_EQ(tickets(*read_store(copy.store())).size(), 12u);
  const VerifyReport report = verify_store(copy.store(), true).value_or_throw();
  EXPECT_TRUE(report.ok()) << describe(report.findings);
  EXPECT_GT(report.count(Severity::warning), 0u);
  {
    const HookTable table = small_table();
    const auto sink = open_store(copy.store(), table);
    ASSERT_OK(sink->close());
  }
  const auto after = verify_store(copy.store(), true).value_or_throw().findings;
  EXPECT_TRUE(after.empty()) << describe(after);
}

TEST_F(StoreIndex, E_AnIndexOfAnotherStoreIsNotBelieved) {
  fill();
  const TempDir other;
  {
    const HookTable table = small_table();
    ASSERT_OK(open_store(other.store(), table)->close());
  }
  std::filesystem::copy_file(other.store() / "index.sqlite", path(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(findings().find("another store"), std::string::npos) << findings();
  fill();
  EXPECT_EQ(findings(), "");
}

TEST_F(StoreIndex, D6_SpansAreRunLengths) {
  // 64 requests in each of 1,000 steps are not 64,000 rows: one a request and segment.
  constexpr std::uint64_t kRequests = 64, kSteps = 1000;
  HookTable table("many");
  (void)table.add({"resid_pre", 0, DType::u8, {16}, 1, 1}).value_or_throw();
  sink_ = open_store(dir_.store(), table, {});
  std::vector<Slice> slices;
  for (std::uint64_t r = 0; r < kRequests; ++r)
    slices.push_back({make_request(r + 1, std::to_string(r)), 0, static_cast<std::uint32_t>(r), 1,
                      RowFlags::none});
  for (std::uint64_t ticket = 1; ticket <= kSteps; ++ticket) {
    OwnedStep step;
    step.ticket = step.step = ticket;
    step.wanted = table.all();
    for (Slice& slice : slices) slice.first_token = static_cast<std::int64_t>(ticket);
    step.records.push_back(make_record(table, 0, slices, ticket));
    ASSERT_OK(sink_->write(step.delivered(table)));
  }
  ASSERT_OK(sink_->close());
  EXPECT_EQ(ask("SELECT count(*) FROM steps"), 1000);
  EXPECT_EQ(ask("SELECT sum(frames) FROM spans"), 64'000);
  EXPECT_EQ(ask("SELECT count(*) FROM spans"),
            64 * static_cast<std::int64_t>(segment_files(dir_.store()).size()));
  EXPECT_EQ(findings(), "");
}

TEST_F(StoreIndex, D6_AQueryThatHoldsTheIndexDoesNotHoldUpTheWriter) {
  fill(false);
  Database db = Database::open(path(), Database::Mode::read).value_or_throw();
  Statement slow = Statement::prepare(db, "SELECT ticket FROM steps").value_or_throw();
  ASSERT_TRUE(slow.next());  // a read transaction that stays open
  const HookTable table = small_table(3, 2048);
  ASSERT_OK(sink_->write(make_step(table, 13, make_request(1, "a"), 13, 1, {0}).delivered(table)));
  ASSERT_OK(sink_->flush());
  EXPECT_EQ(ask("SELECT count(*) FROM steps"), 13);
  ASSERT_OK(sink_->close());
}

}  // namespace
}  // namespace graphtap::store_test
