#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "store/checksum.hpp"
#include "store/format.hpp"
#include "store/segment.hpp"
#include "store/segment_writer.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

/// A store of three steps and two events in one segment, as its writer left it: closed, or stopped
/// before.
class Recovery : public testing::Test {
 protected:
  Recovery() : table_(small_table()) {
    for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) {
      steps_.push_back(
          make_step(table_, ticket, a_, static_cast<std::int64_t>(2 * ticket), 2, {0, 2, 3}));
    }
  }
  /// Puts the store's files into dir_: with its footer, or copied while it was open.
  void make(bool closed) {
    const TempDir other;
    const auto sink = open_store(other.store(), table_);
    ASSERT_OK(sink->event({RequestEvent::Kind::begun, a_, 0, 0, true, 0, 0}));
    for (const OwnedStep& step : steps_) ASSERT_OK(sink->write(step.delivered(table_)));
    ASSERT_OK(sink->event({RequestEvent::Kind::finished, a_, 0, 0, true, 9, 0}));
    ASSERT_OK(sink->flush());
    if (closed) ASSERT_OK(sink->close());
    std::filesystem::copy(other.store(), dir_.store(), std::filesystem::copy_options::recursive);
    file_ = segment_files(dir_.store())[0];
    bytes_ = read_bytes(file_);
  }
  /// Every step the store gives out is right to the last bit. Returns their tickets.
  std::vector<std::uint64_t> right_steps(const std::string& what) {
    const auto reader = read_store(dir_.store(), {ReadOptions::Check::always});
    std::map<std::uint64_t, std::size_t> records;
    for (const RecordView& view : all_of(reader->read({}))) {
      const std::uint64_t ticket = view.step.ticket;
      EXPECT_TRUE(ticket >= 1 && ticket <= steps_.size()) << what;
      if (ticket < 1 || ticket > steps_.size()) return {};
      bool known = false;
      for (const OwnedRecord& record : steps_[ticket - 1].records) {
        known = known || (record.hook == view.hook->id && same_bytes(view.data, record.payload) &&
                          view.first_token == record.slices[0].first_token);
      }
      EXPECT_TRUE(known) << what << ": a record of step " << ticket << " is wrong";
      ++records[ticket];
    }
    std::vector<std::uint64_t> whole;
    for (const auto& [ticket, count] : records) {
      if (count == 3) whole.push_back(ticket);
    }
    return whole;
  }
  static std::vector<std::uint64_t> first(std::size_t count) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 1; i <= count; ++i) all.push_back(i);
    return all;
  }
  std::vector<store::FrameEntry> frames() {
    const auto segment = store::Segment::open({dir_.store()}, 1).value_or_throw();
    std::vector<store::FrameEntry> all;
    for (std::size_t i = 0; i < segment->directory().frames(); ++i) {
      all.push_back(segment->directory().frame(i));
    }
    return all;
  }

  const TempDir dir_;
  const HookTable table_;
  const Request a_ = make_request(1, "a");
  std::vector<OwnedStep> steps_;
  std::filesystem::path file_;
  std::vector<std::byte> bytes_;
};

TEST_F(Recovery, E_ASegmentCutAnywhereGivesTheStepsBeforeTheCut) {
  make(false);
  const auto all = frames();
  ASSERT_EQ(all.size(), 6u);  // run, begun, three steps, finished
  for (std::size_t length = 0; length <= bytes_.size(); length += length % 64 == 0 ? 1 : 7) {
    write_bytes(file_, std::span(bytes_).first(length));
    std::size_t expected = 0;
    for (const auto& frame : all) {
      if (frame.kind == 2 && frame.offset + frame.bytes <= length) ++expected;
    }
    const std::string what = "cut at " + std::to_string(length);
    ASSERT_EQ(right_steps(what), first(expected)) << what;
    const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
    bool torn = false;
    for (const Finding& f : report.findings) torn = torn || f.file == "segments/000001.gts";
    bool clean = length == 0 || length == sizeof(store::SegmentHead);
    for (const auto& frame : all) clean = clean || frame.offset + frame.bytes == length;
    EXPECT_EQ(torn, !clean) << what << "\n" << describe(report.findings);
    EXPECT_EQ(report.count(Severity::error), 0u) << what << "\n" << describe(report.findings);
  }
}

TEST_F(Recovery, E_AfterACrashTheNextRunGoesOnInANewSegmentAndBothAreRead) {
  make(false);
  const auto all = frames();
  const std::size_t cut = all[4].offset + all[4].bytes / 2;  // inside the third step
  write_bytes(file_, std::span(bytes_).first(cut));
  {
    const auto sink = open_store(dir_.store(), table_);
    ASSERT_OK(sink->write(make_step(table_, 1, a_, 0, 1, {1}).delivered(table_)));
  }
  EXPECT_EQ(read_bytes(file_).size(), cut) << "a torn end is never repaired in place";
  const auto reader = read_store(dir_.store());
  EXPECT_EQ(tickets(*reader), (std::vector<std::uint64_t>{1, 2, 1}));
  const StoreSummary summary = reader->summary();
  ASSERT_EQ(summary.runs.size(), 2u);
  EXPECT_EQ(summary.runs[0].state, RunSummary::State::interrupted);
  EXPECT_EQ(summary.runs[1].state, RunSummary::State::closed);
  ASSERT_EQ(summary.findings.size(), 1u) << describe(summary.findings);
  EXPECT_EQ(summary.findings[0].severity, Severity::warning);
  EXPECT_EQ(summary.findings[0].offset, all[4].offset);
  const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
  EXPECT_EQ(report.findings.size(), 1u) << "the index was built anew\n"
                                        << describe(report.findings);
}

class Flips : public Recovery, public testing::WithParamInterface<bool> {};

TEST_P(Flips, E_ABitFlippedAnywhereIsNamedAndNothingWrongIsGivenOut) {
  make(GetParam());
  const auto clean = verify_store(dir_.store(), true).value_or_throw();
  ASSERT_TRUE(clean.ok()) << describe(clean.findings);
  std::size_t unnoticed = 0;
  std::size_t tried = 0;
  for (std::size_t at = 0; at < bytes_.size(); at += 5) {
    auto bad = bytes_;
    bad[at] ^= static_cast<std::byte>(1u << (at / 5 % 8));
    write_bytes(file_, bad);
    ++tried;
    const std::string what = "byte " + std::to_string(at);
    const auto opened = StoreReader::open(dir_.store());
    if (!opened.ok()) {
      EXPECT_EQ(opened.status().code(), Code::unsupported) << what << opened.status().message();
      continue;  // the version's own bytes
    }
    const auto whole = right_steps(what);
    const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
    if (describe(report.findings) == describe(clean.findings)) {
      EXPECT_EQ(whole, first(3)) << what << ": something is lost and nothing is said";
      ++unnoticed;
    }
  }
  // What no checksum covers is the padding behind a record's payload, and it is no one's.
  EXPECT_LT(unnoticed, tried / 50) << "of " << tried;
}
INSTANTIATE_TEST_SUITE_P(Segments, Flips, testing::Bool(),
                         [](const auto& test) { return test.param ? "Closed" : "Open"; });

TEST_F(Recovery, E_DamageInTheMiddleCostsThatFrameAlone) {
  make(false);
  const auto all = frames();
  for (const std::size_t at : {all[3].offset + 3, all[3].offset + sizeof(store::FrameHead) + 20,
                               all[3].offset + all[3].bytes - 5}) {
    auto bad = bytes_;
    bad[at] ^= std::byte{0x40};
    write_bytes(file_, bad);
    EXPECT_EQ(right_steps("middle"), (std::vector<std::uint64_t>{1, 3}));
    const auto findings = read_store(dir_.store())->findings();
    ASSERT_EQ(findings.size(), 1u) << describe(findings);
    EXPECT_EQ(findings[0].severity, Severity::error);
    EXPECT_EQ(findings[0].offset, all[3].offset);
  }
}

TEST_F(Recovery, E_WithoutItsFooterASegmentIsScannedAndSaysTheSame) {
  make(true);
  const auto reader = read_store(dir_.store());
  const auto before = frames();
  EXPECT_EQ(reader->summary().runs[0].state, RunSummary::State::closed);
  auto bad = bytes_;
  bad[bytes_.size() - 100] ^= std::byte{1};
  write_bytes(file_, bad);
  const auto scanned = read_store(dir_.store());
  EXPECT_EQ(tickets(*scanned), first(3));
  const auto findings = scanned->findings();
  ASSERT_FALSE(findings.empty());
  EXPECT_NE(describe(findings).find("footer"), std::string::npos) << describe(findings);
  const auto after = frames();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(before[0])), 0);
}

TEST_F(Recovery, E_ARunFrameThatIsLostIsMadeGoodByAnotherSegmentOfTheRun) {
  const HookTable wide = small_table(3, 4096);
  {
    const auto sink = open_store(dir_.store(), wide, {.segment_bytes = 1});
    for (std::uint64_t ticket = 1; ticket <= 6; ++ticket) {
      ASSERT_OK(sink->write(make_step(wide, ticket, a_, 0, 1, {0, 1, 2}).delivered(wide)));
    }
  }
  const auto files = segment_files(dir_.store());
  ASSERT_GE(files.size(), 2u);
  auto bad = read_bytes(files[0]);
  bad[sizeof(store::SegmentHead) + 200] ^= std::byte{1};
  write_bytes(files[0], bad);
  EXPECT_EQ(tickets(*read_store(dir_.store())), first(6));
  for (const auto& file : files) {
    bad = read_bytes(file);
    bad[sizeof(store::SegmentHead) + 200] ^= std::byte{1};
    if (file != files[0]) write_bytes(file, bad);
  }
  const auto reader = read_store(dir_.store());
  EXPECT_TRUE(reader->runs().empty());
  EXPECT_NE(describe(reader->findings()).find("no segment describes its run"), std::string::npos);
}

TEST_F(Recovery, D2_AWholeFrameThatWasReportedAsFailedIsThereOnce) {
  // The same step ends one segment and begins the next: its first write was whole and was not
  // believed.
  make(false);
  const auto all = frames();
  const std::size_t end = all[4].offset + all[4].bytes;  // after the third step
  write_bytes(file_, std::span(bytes_).first(end));
  auto next = bytes_;
  // A second segment of the same run: head, run frame, then the third step and the completion.
  store::SegmentHead head{};
  std::memcpy(&head, next.data(), sizeof(head));
  head.number = 2;
  head.checksum = store::checksum_before_last(head);
  std::memcpy(next.data(), &head, sizeof(head));
  write_bytes(dir_.store() / "segments" / "000002.gts", next);
  // As it lies there the second segment repeats all: only a last frame that comes first again is
  // left out.
  EXPECT_EQ(tickets(*read_store(dir_.store())), (std::vector<std::uint64_t>{1, 2, 3, 1, 2, 3}));
  {
    const auto sink = open_store(dir_.path() / "other", table_);
    static_cast<void>(sink);
  }
  std::vector<std::byte> rest(next.begin(),
                              next.begin() + static_cast<std::ptrdiff_t>(all[1].offset));
  const auto append = [&](const store::FrameEntry& entry, std::uint32_t sequence) {
    store::FrameHead frame{};
    std::memcpy(&frame, next.data() + entry.offset, sizeof(frame));
    store::FrameCommit commit{};
    std::memcpy(&commit, next.data() + entry.offset + entry.bytes - sizeof(commit), sizeof(commit));
    frame.offset = rest.size();
    frame.sequence = sequence;
    frame.checksum = store::checksum_before_last(frame);
    commit.checksum = store::checksum_before_last(commit, frame.checksum);
    rest.insert(rest.end(), next.begin() + static_cast<std::ptrdiff_t>(entry.offset),
                next.begin() + static_cast<std::ptrdiff_t>(entry.offset + entry.bytes));
    std::memcpy(rest.data() + frame.offset, &frame, sizeof(frame));
    std::memcpy(rest.data() + rest.size() - sizeof(commit), &commit, sizeof(commit));
  };
  append(all[4], 1);
  append(all[5], 2);
  write_bytes(dir_.store() / "segments" / "000002.gts", rest);
  EXPECT_EQ(tickets(*read_store(dir_.store())), first(3));
  const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
  EXPECT_TRUE(report.ok()) << describe(report.findings);
}

}  // namespace
}  // namespace graphtap::store_test
