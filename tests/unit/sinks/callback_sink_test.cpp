#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_sink.hpp"

namespace graphtap {
namespace {

using test::make_request;

struct Seen {
  std::string request;
  std::int64_t first_token;
  std::vector<int> bytes;
  friend bool operator==(const Seen&, const Seen&) = default;
};

/// One record of 4 rows × 2 bytes: row 0 of request 1, row 1 of nobody, rows 2 and 3 of request 2.
struct FourRows {
  std::array<std::byte, 8> payload{};
  std::array<Slice, 3> slices;
  DeliveredStep step;

  FourRows() {
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i);
    slices = {Slice{make_request(1), 10, 0, 1}, Slice{nullptr, 0, 1, 1},
              Slice{make_request(2), 20, 2, 2}};
    step.ticket = 5;
    Record record;
    record.rows = 4;
    record.row_bytes = 2;
    record.payload = payload;
    record.slices = slices;
    step.records = {record};
  }
};

Seen seen(const CallbackSlice& slice) {
  Seen out{slice.slice.request->id, slice.slice.first_token, {}};
  for (std::byte byte : slice.data) out.bytes.push_back(static_cast<int>(byte));
  return out;
}

TEST(CallbackSink, D1_HandsEachAttributedSliceItsOwnRows) {
  FourRows rows;
  std::vector<Seen> got;
  auto sink =
      make_callback_sink("cb", {[&](const CallbackSlice& s) { got.push_back(seen(s)); }, {}, {}});
  EXPECT_EQ(sink->name(), "cb");
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_EQ(got, (std::vector<Seen>{{"request-1", 10, {0, 1}}, {"request-2", 20, {4, 5, 6, 7}}}));
}

TEST(CallbackSink, D1_HandsOverGapsAndEvents) {
  FourRows rows;
  Gap gap;
  gap.ordinal = 3;
  gap.reason = GapReason::not_fired;
  rows.step.gaps = {gap};
  std::vector<std::string> got;
  Callbacks callbacks;
  callbacks.on_gap = [&](const DeliveredStep& step, const Gap& g) {
    got.push_back("gap " + std::to_string(step.ticket) + "/" + std::to_string(g.ordinal));
  };
  callbacks.on_event = [&](const RequestEvent& event) { got.push_back(event.request->id); };
  auto sink = make_callback_sink("cb", callbacks);
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_TRUE(sink->event({RequestEvent::Kind::begun, make_request(9)}).ok());
  EXPECT_EQ(got, (std::vector<std::string>{"gap 5/3", "request-9"}));
}

TEST(CallbackSink, D1_EmptyFunctionsAreSkipped) {
  FourRows rows;
  rows.step.gaps = {Gap{}};
  auto sink = make_callback_sink("cb", {});
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_TRUE(sink->event({}).ok());
  EXPECT_TRUE(sink->flush().ok());
  EXPECT_TRUE(sink->close().ok());
}

TEST(CallbackSink, D1_ChunkedRecordIsClampedToItsPayload) {
  FourRows rows;
  rows.step.records[0].payload = std::span<const std::byte>(rows.payload).first(5);
  std::vector<Seen> got;
  auto sink =
      make_callback_sink("cb", {[&](const CallbackSlice& s) { got.push_back(seen(s)); }, {}, {}});
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_EQ(got, (std::vector<Seen>{{"request-1", 10, {0, 1}}, {"request-2", 20, {4}}}));
}

TEST(CallbackSink, D2_RetryDoesNotRepeatCallsThatReturned) {
  FourRows rows;
  rows.step.gaps = {Gap{}};
  std::vector<std::string> got;
  int to_fail = 2;
  Callbacks callbacks;
  callbacks.on_slice = [&](const CallbackSlice& s) {
    if (s.slice.request->serial == 2 && to_fail-- > 0) throw std::runtime_error("busy");
    got.push_back(s.slice.request->id);
  };
  int gap_to_fail = 1;
  callbacks.on_gap = [&](const DeliveredStep&, const Gap&) {
    if (gap_to_fail-- > 0) throw std::runtime_error("busy");
    got.push_back("gap");
  };
  auto sink = make_callback_sink("cb", callbacks);
  EXPECT_THROW((void)sink->write(rows.step), std::runtime_error);
  EXPECT_THROW((void)sink->write(rows.step), std::runtime_error);
  EXPECT_THROW((void)sink->write(rows.step), std::runtime_error);  // now the gap
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_EQ(got, (std::vector<std::string>{"request-1", "request-2", "gap"}));
}

TEST(CallbackSink, D2_AfterALossTheNextStepStartsFromItsFirstSlice) {
  FourRows rows;
  std::vector<std::uint64_t> got;
  bool fail = true;
  auto sink = make_callback_sink("cb", {[&](const CallbackSlice& s) {
                                          if (fail && s.slice.request->serial == 2)
                                            throw std::runtime_error("x");
                                          got.push_back(s.slice.request->serial);
                                        },
                                        {},
                                        {}});
  EXPECT_THROW((void)sink->write(rows.step), std::runtime_error);
  fail = false;
  rows.step.ticket = 6;
  EXPECT_TRUE(sink->write(rows.step).ok());
  rows.step.part = 1;  // the next part of the same step
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_EQ(got, (std::vector<std::uint64_t>{1, 1, 2, 1, 2}));
}

TEST(NullSink, D1_TakesEverything) {
  FourRows rows;
  auto sink = make_null_sink();
  EXPECT_EQ(sink->name(), "null");
  EXPECT_TRUE(sink->write(rows.step).ok());
  EXPECT_TRUE(sink->event({}).ok());
  EXPECT_TRUE(sink->flush().ok());
  EXPECT_TRUE(sink->close().ok());
}

}  // namespace
}  // namespace graphtap
