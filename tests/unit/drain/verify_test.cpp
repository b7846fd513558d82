#include "drain/verify.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "plan/wire.hpp"

namespace graphtap {
namespace {

constexpr std::uint64_t kMagic = wire::kMagic ^ 0x5eed;
constexpr std::uint32_t kSlots = 6;

/// One record in a frame as its producer leaves it.
struct Copied {
  explicit Copied(StepKind step_kind) : kind(step_kind), frame(512) {
    plan.ticket = 0x0123'4567'89ab'cdef;
    record.hook = 0x0102;
    record.ordinal = 1;
    record.slot = 4;
    record.rows = 3;
    record.row_bytes = 20;
    record.offset = 64;
    plan.records.push_back(record);
    set_head({kMagic, plan.ticket, record.hook, record.ordinal, record.rows, 60});
    set_census(1);
  }
  void set_head(const wire::RecordHead& head) {
    std::memcpy(frame.data() + record.offset, &head, sizeof(head));
  }
  void set_census(std::uint32_t fired) {
    std::memcpy(frame.data() + record.slot * sizeof(fired), &fired, sizeof(fired));
  }
  [[nodiscard]] Verdict verdict() const {
    return verify_record(frame.data(), plan, kind, record, kMagic);
  }
  StepKind kind;
  std::vector<std::byte> frame;
  FramePlan plan;
  PlannedRecord record;
};

class Verify : public ::testing::TestWithParam<StepKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Verify, ::testing::Values(StepKind::graph, StepKind::eager));

TEST_P(Verify, I1_TheRecordThatWasPlannedPasses) {
  const Copied copied(GetParam());
  EXPECT_FALSE(copied.verdict().gap.has_value());
  EXPECT_EQ(copied.verdict().bytes, 60u);
}

TEST_P(Verify, I1_A5_AnySingleWrongBitOfTheHeadIsAGap) {
  for (std::size_t bit = 0; bit < sizeof(wire::RecordHead) * 8; ++bit) {
    Copied copied(GetParam());
    copied.frame[copied.record.offset + bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_TRUE(copied.verdict().gap.has_value()) << "bit " << bit;
  }
}

TEST_P(Verify, I1_AChunkedRecordMayHoldLessButNeverMore) {
  Copied copied(GetParam());
  copied.record.chunked = true;
  wire::RecordHead head{kMagic, copied.plan.ticket, copied.record.hook, 1, 3, 0};
  for (const std::uint64_t bytes : {0u, 1u, 59u, 60u}) {
    head.bytes = bytes;
    copied.set_head(head);
    EXPECT_FALSE(copied.verdict().gap.has_value());
    EXPECT_EQ(copied.verdict().bytes, bytes);
  }
  for (const std::uint64_t bytes : {std::uint64_t{61}, std::uint64_t{64}, ~std::uint64_t{0}}) {
    head.bytes = bytes;
    copied.set_head(head);
    EXPECT_EQ(copied.verdict().gap, GapReason::wrong_head);
  }
  copied.record.chunked = false;
  head.bytes = 59;
  copied.set_head(head);
  EXPECT_EQ(copied.verdict().gap, GapReason::wrong_head) << "a dense record is whole or not there";
}

TEST(Verify, I2_TheCensusSaysWhetherAGraphsProducerFiredOnce) {
  Copied copied(StepKind::graph);
  copied.set_census(0);
  EXPECT_EQ(copied.verdict().gap, GapReason::not_fired);
  for (const std::uint32_t fired : {2u, 3u, 0xffffffffu}) {
    copied.set_census(fired);
    EXPECT_EQ(copied.verdict().gap, GapReason::fired_twice) << fired;
  }
}

TEST(Verify, I2_TheCensusOfAnotherSlotSaysNothing) {
  Copied copied(StepKind::graph);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slot == copied.record.slot) continue;
    const std::uint32_t twice = 2;
    std::memcpy(copied.frame.data() + slot * sizeof(twice), &twice, sizeof(twice));
  }
  EXPECT_FALSE(copied.verdict().gap.has_value());
}

TEST(Verify, I2_AnEagerFrameHasNoCensus) {
  Copied copied(StepKind::eager);
  copied.set_census(7);  // whatever lies there
  EXPECT_FALSE(copied.verdict().gap.has_value());
}

TEST(Verify, I1_ReasonsSayWhatIsWrong) {
  Copied graph(StepKind::graph), eager(StepKind::eager);
  wire::RecordHead head{kMagic, graph.plan.ticket, graph.record.hook, 1, 3, 60};
  const auto reasons = [&](wire::RecordHead wrong) {
    graph.set_head(wrong);
    eager.set_head(wrong);
    return std::pair{graph.verdict().gap.value(), eager.verdict().gap.value()};
  };
  using Both = std::pair<GapReason, GapReason>;
  wire::RecordHead stale = head;
  stale.ticket -= 1;
  // The census says that a graph's producer fired: what it wrote is not here. An eager one may not
  // have run.
  EXPECT_EQ(reasons(stale), Both(GapReason::wrong_head, GapReason::not_fired));
  wire::RecordHead other_ring = head;
  other_ring.magic ^= 1;
  EXPECT_EQ(reasons(other_ring), Both(GapReason::wrong_head, GapReason::not_fired));
  wire::RecordHead swapped = head;
  swapped.hook ^= 1;
  EXPECT_EQ(reasons(swapped), Both(GapReason::wrong_head, GapReason::wrong_head));
  wire::RecordHead short_source = head;
  short_source.rows = 2;
  short_source.bytes = 40;
  EXPECT_EQ(reasons(short_source), Both(GapReason::source_too_small, GapReason::source_too_small));
}

}  // namespace
}  // namespace graphtap
