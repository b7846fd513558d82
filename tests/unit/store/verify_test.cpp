#include <gtest/gtest.h>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

/// What the writer takes, verify looks at: stores whose content contradicts itself.
class Verify : public testing::Test {
 protected:
  Verify() : table_(small_table()), sink_(open_store(dir_.store(), table_)) {}
  void put(const OwnedStep& step) { ASSERT_OK(sink_->write(step.delivered(table_))); }
  void tell(RequestEvent::Kind kind, std::uint64_t records = 0, std::uint64_t gaps = 0,
            bool valid = true, std::int64_t begin = 0, std::int64_t end = 0) {
    ASSERT_OK(sink_->event({kind, a_, begin, end, valid, records, gaps}));
  }
  OwnedStep step(std::uint64_t ticket) {
    return make_step(table_, ticket, a_, static_cast<std::int64_t>(ticket), 2, {0, 1});
  }
  void finds(Severity severity, std::string_view words) {
    ASSERT_OK(sink_->close());
    const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
    ASSERT_EQ(report.findings.size(), 1u) << describe(report.findings);
    EXPECT_EQ(report.findings[0].severity, severity) << describe(report.findings);
    EXPECT_NE(report.findings[0].what.find(words), std::string::npos) << describe(report.findings);
    EXPECT_EQ(report.ok(), severity != Severity::error);
  }
  const TempDir dir_;
  const HookTable table_;
  const Request a_ = make_request(1, "a");
  std::shared_ptr<Sink> sink_;
};

TEST_F(Verify, D6_ASoundStoreHasNoFindingsAndItsCounts) {
  tell(RequestEvent::Kind::begun);
  OwnedStep second = step(2);
  second.gaps.push_back({2, 0, GapReason::not_fired, second.records[0].slices});
  put(step(1));
  put(second);
  tell(RequestEvent::Kind::finished, 4, 1, false);
  ASSERT_OK(sink_->close());
  const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
  EXPECT_TRUE(report.findings.empty()) << describe(report.findings);
  EXPECT_EQ(report.segments, 1u);
  EXPECT_EQ(report.runs, 1u);
  EXPECT_EQ(report.frames, 5u);
  EXPECT_EQ(report.steps, 2u);
  EXPECT_EQ(report.records, 4u);
  EXPECT_EQ(report.gaps, 1u);
  EXPECT_EQ(report.events, 2u);
  EXPECT_EQ(report.payload_bytes, 4u * 32);
  EXPECT_EQ(report.payload_bytes_checked, 4u * 32);
  EXPECT_GE(report.index_rows, 5u);
  EXPECT_EQ(verify_store(dir_.store(), false).value_or_throw().payload_bytes_checked, 0u);
}

TEST_F(Verify, I5_TicketsThatFallInALaneAreFound) {
  OwnedStep late = step(3);
  late.step = 7;
  put(step(5));
  put(late);
  finds(Severity::error, "ticket 3 comes after ticket 5");
}

TEST_F(Verify, I5_StepsThatFallInALaneAreFoundAndOtherLanesAreFree) {
  OwnedStep other = step(6);
  other.lane = 1;
  other.step = 1;
  OwnedStep late = step(7);
  late.step = 4;
  OwnedStep part = step(8);
  OwnedStep next = part;
  next.part = 1;
  put(step(5));
  put(other);
  put(late);
  put(part);
  put(next);
  finds(Severity::error, "step 4 comes after step 5");
}

TEST_F(Verify, I2_ARecordThatIsThereTwiceIsFound) {
  OwnedStep twice = step(1);
  twice.gaps.push_back({1, 0, GapReason::not_fired, {}});
  put(twice);
  finds(Severity::error, "blocks.1.resid_pre, ordinal 0, is in the step (ticket 1) twice");
}

TEST_F(Verify, C1_SlicesThatOverlapAreFound) {
  OwnedStep bad = step(1);
  bad.records[0].slices = {{a_, 0, 0, 2, RowFlags::none}, {a_, 5, 1, 1, RowFlags::none}};
  put(bad);
  finds(Severity::error, "slices overlap");
}

TEST_F(Verify, D3_ACompletionThatContradictsItselfIsFound) {
  put(step(1));
  tell(RequestEvent::Kind::finished, 2, 1, true);
  finds(Severity::error, "says that it is valid and has gaps");
}

TEST_F(Verify, D3_RecordsAfterACompletionAreFound) {
  put(step(1));
  tell(RequestEvent::Kind::finished, 2, 0, true);
  put(step(2));
  finds(Severity::error, "come after its completion");
}

TEST_F(Verify, D2_WhatASinkLostShowsAgainstTheCompletion) {
  tell(RequestEvent::Kind::begun);
  put(step(1));
  tell(RequestEvent::Kind::finished, 4, 0, true);
  finds(Severity::warning, "counts 4 records and 0 gaps, the store holds 2 and 0");
}

TEST_F(Verify, E_AnEventWhoseRangeIsReversedIsFound) {
  put(step(1));
  tell(RequestEvent::Kind::rejected, 0, 0, true, 9, 3);
  finds(Severity::error, "tokens [9, 3)");
}

TEST_F(Verify, E_RowsOfTheWrongWidthAreFound) {
  const HookTable other = small_table(3, 16);
  const OwnedStep wide = make_step(other, 1, a_, 0, 1, {0});
  put(step(9));
  ASSERT_OK(sink_->write([&] {
    DeliveredStep delivered = wide.delivered(other);
    delivered.ticket = delivered.step = 10;
    return delivered;
  }()));
  finds(Severity::error, "rows of 32 bytes, though its shape takes 16");
}

TEST_F(Verify, D4_AStoreThatIsBeingWrittenIsSound) {
  put(step(1));
  const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
  for (const Finding& finding : report.findings)
    EXPECT_EQ(finding.severity, Severity::note) << finding.what;
  EXPECT_EQ(report.steps, 1u);
}

}  // namespace
}  // namespace graphtap::store_test
