#include <gtest/gtest.h>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

constexpr HookId kHook = 1;
constexpr const char* kName = "blocks.1.resid_pre";

/// A store that a test fills and then gathers from.
class Gather : public testing::Test {
 protected:
  Gather() : table_(small_table()), sink_(open_store(dir_.store(), table_)) {}

  /// Tokens [first, first + rows) of a request, behind a row of `other_` in every step.
  std::vector<std::byte> put(const Request& request, std::int64_t first, std::uint32_t rows,
                             RowFlags flags = RowFlags::none) {
    OwnedStep step = make_step(table_, ++ticket_, request, first, rows + 1, {0, kHook, 2});
    for (OwnedRecord& record : step.records) {
      record.slices = {{other_, static_cast<std::int64_t>(ticket_), 0, 1, RowFlags::none},
                       {request, first, 1, rows, flags}};
    }
    EXPECT_OK(sink_->write(step.delivered(table_)));
    const auto row = static_cast<std::ptrdiff_t>(table_[kHook].row_bytes());
    return {step.records[1].payload.begin() + row, step.records[1].payload.end()};
  }
  void put_gap(const Request& request, std::int64_t first, std::uint32_t rows, GapReason reason) {
    OwnedStep step = make_step(table_, ++ticket_, request, first, rows, {0});
    step.gaps.push_back({kHook, 0, reason, {{request, first, 0, rows, RowFlags::none}}});
    EXPECT_OK(sink_->write(step.delivered(table_)));
  }
  void tell(RequestEvent::Kind kind, const Request& request, std::int64_t begin, std::int64_t end) {
    EXPECT_OK(sink_->event({kind, request, begin, end, true, 0, 0}));
  }
  Gathered gather(std::int64_t begin, std::int64_t end = -1, const char* id = "a") {
    reader_ = read_store(dir_.store());  // what it gives out lives as long as it does
    return reader_->gather(query(begin, end, id)).value_or_throw();
  }
  static GatherQuery query(std::int64_t begin, std::int64_t end, const char* id = "a") {
    GatherQuery query;
    query.request = id;
    query.hook = kName;
    query.begin = begin;
    query.end = end;
    return query;
  }
  Status refused(const GatherQuery& query) {
    return read_store(dir_.store())->gather(query).status();
  }

  const TempDir dir_;
  const HookTable table_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<StoreReader> reader_;
  const Request a_ = make_request(1, "a", 5);
  const Request other_ = make_request(2, "b");
  std::uint64_t ticket_ = 0;
};

std::vector<std::byte> joined(std::initializer_list<std::vector<std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_F(Gather, D6_ARangeAcrossStepsIsOneBuffer) {
  const auto prompt = put(a_, 0, 5);
  const auto t5 = put(a_, 5, 1);
  put(other_, 90, 1);
  const auto t6 = put(a_, 6, 1);
  const Gathered all = gather(0);
  EXPECT_EQ(all.tokens, (TokenRange{0, 7}));
  EXPECT_EQ(all.shape(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(all.row_bytes, 16u);
  EXPECT_TRUE(all.missing.empty());
  EXPECT_EQ(all.data, joined({prompt, t5, t6}));
  const Gathered part = gather(3, 6);
  EXPECT_EQ(part.data, joined({{prompt.begin() + 48, prompt.end()}, t5}));
}

TEST_F(Gather, C2_OfATokenComputedTwiceTheLaterRowIsTaken) {
  const auto first = put(a_, 0, 4);
  const auto again = put(a_, 2, 3, RowFlags::recomputed);
  const Gathered all = gather(0);
  EXPECT_EQ(all.data, joined({{first.begin(), first.begin() + 32}, again}));
  EXPECT_EQ(all.duplicates, 2u);
  EXPECT_TRUE(all.missing.empty());
}

TEST_F(Gather, C2_ADraftThatWasNotAcceptedIsLeftOutAndItsSuccessorIsNot) {
  const auto draft = put(a_, 0, 4, RowFlags::speculative);
  tell(RequestEvent::Kind::rejected, a_, 2, 4);
  const auto next = put(a_, 2, 1);
  const Gathered all = gather(0);
  ASSERT_EQ(all.tokens, (TokenRange{0, 4}));
  EXPECT_EQ(std::vector(all.data.begin(), all.data.begin() + 48),
            joined({{draft.begin(), draft.begin() + 32}, next}));
  ASSERT_EQ(all.missing.size(), 1u);
  EXPECT_EQ(all.missing[0].tokens, (TokenRange{3, 4}));
  EXPECT_EQ(all.missing[0].why, MissingTokens::Why::rejected);
  EXPECT_EQ(all.rejected, 2u);
  EXPECT_EQ(all.duplicates, 0u);
}

TEST_F(Gather, C2_EveryMissingTokenSaysWhy) {
  tell(RequestEvent::Kind::not_computed, a_, 0, 3);
  const auto rows = put(a_, 3, 2);
  put_gap(a_, 5, 2, GapReason::wrong_head);
  put_gap(a_, 7, 1, GapReason::shed_ring);
  put(a_, 9, 1);
  const Gathered all = gather(0, 12);
  using Why = MissingTokens::Why;
  const std::vector<std::tuple<std::int64_t, std::int64_t, Why>> expected{
      {0, 3, Why::not_computed},
      {5, 7, Why::gap},
      {7, 8, Why::gap},
      {8, 9, Why::not_captured},
      {10, 12, Why::not_captured}};
  ASSERT_EQ(all.missing.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [begin, end, why] = expected[i];
    EXPECT_EQ(all.missing[i].tokens, (TokenRange{begin, end}));
    EXPECT_EQ(all.missing[i].why, why) << i;
  }
  EXPECT_EQ(all.missing[1].reason, GapReason::wrong_head);
  EXPECT_EQ(all.missing[2].reason, GapReason::shed_ring);
  ASSERT_EQ(all.data.size(), 12u * 16);
  EXPECT_EQ(std::vector(all.data.begin() + 48, all.data.begin() + 80), rows);
  EXPECT_EQ(std::count(all.data.begin(), all.data.begin() + 48, std::byte{0}), 48)
      << "missing rows are zero";
}

TEST_F(Gather, E_ADamagedRecordIsMissingAndNamed) {
  put(a_, 0, 1);
  const auto rows = put(a_, 1, 2);
  ASSERT_OK(sink_->close());
  const auto file = segment_files(dir_.store()).front();
  auto bytes = read_bytes(file);
  const auto at = std::search(bytes.begin(), bytes.end(), rows.begin(), rows.end());
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  write_bytes(file, bytes);
  const auto reader = read_store(dir_.store(), {ReadOptions::Check::always});
  const Gathered all = reader->gather(query(0, -1)).value_or_throw();
  ASSERT_EQ(all.missing.size(), 1u);
  EXPECT_EQ(all.missing[0].tokens, (TokenRange{1, 3}));
  EXPECT_EQ(all.missing[0].why, MissingTokens::Why::damaged);
  const auto findings = reader->findings();
  ASSERT_EQ(findings.size(), 1u) << describe(findings);
  EXPECT_NE(findings[0].what.find(kName), std::string::npos);
  EXPECT_EQ(findings[0].file, "segments/000001.gts");
}

TEST_F(Gather, D6_NothingCapturedIsAllMissing) {
  put(a_, 0, 2);
  GatherQuery query = Gather::query(0, 2);
  query.hook = "final_logits";
  const Gathered none = read_store(dir_.store())->gather(query).value_or_throw();
  EXPECT_EQ(none.data.size(), 2u * 20);
  ASSERT_EQ(none.missing.size(), 1u);
  EXPECT_EQ(none.missing[0].why, MissingTokens::Why::not_captured);
}

TEST_F(Gather, E_WhatCannotBeGatheredSaysWhatWouldBeRight) {
  put(a_, 0, 2);
  const auto says = [](const Status& status, Code code, std::string_view words) {
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  GatherQuery q = query(0, -1);
  q.hook = "blocks.1.resid_pro";
  says(refused(q), Code::invalid_argument, "did you mean \"blocks.1.resid_pre\"");
  q = query(0, -1, "aa");
  says(refused(q), Code::not_found, "did you mean \"a\"");
  q = query(4, 2);
  says(refused(q), Code::invalid_argument, "[4, 2)");
  q = query(0, -1);
  q.request.clear();
  says(refused(q), Code::invalid_argument, "its id or its serial");
  q = query(0, -1);
  q.run = 8;
  says(refused(q), Code::not_found, "runs 1 to 1");
  q = query(0, std::numeric_limits<std::int64_t>::max());
  says(refused(q), Code::exhausted, "memory");
  put(make_request(3, "a"), 0, 1);
  says(refused(query(0, -1)), Code::invalid_argument,
       "2 requests match (run 1 serial 1, run 1 serial 3)");
  q = query(0, -1);
  q.serial = 3;
  EXPECT_TRUE(refused(q).ok()) << "C3: two requests with one id are told apart by serial";
}

TEST(GatherWidths, E_RowsOfDifferentWidthAreNotJoined) {
  HookTable table("attention");
  static_cast<void>(
      table.add({"pattern", 0, DType::f16, {2, kPerStepColumns}, 1, 1}).value_or_throw());
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const Request a = make_request(1, "a");
  for (std::uint64_t ticket = 1; ticket <= 2; ++ticket) {
    OwnedStep step;
    step.ticket = step.step = ticket;
    step.wanted = table.all();
    const auto token = static_cast<std::int64_t>(ticket - 1);
    step.records.push_back(make_record(table, 0, {{a, token, 0, 1, RowFlags::none}}, ticket,
                                       static_cast<std::int64_t>(3 + ticket)));
    ASSERT_OK(sink->write(step.delivered(table)));
  }
  GatherQuery query;
  query.request = "a";
  query.hook = "blocks.0.pattern";
  const auto reader = read_store(dir.store());
  const auto refused = reader->gather(query);
  EXPECT_EQ(refused.status().code(), Code::unsupported);
  query.begin = 1;
  const Gathered one = reader->gather(query).value_or_throw();
  EXPECT_EQ(one.shape(), (std::vector<std::int64_t>{1, 2, 5}));
}

}  // namespace
}  // namespace graphtap::store_test
