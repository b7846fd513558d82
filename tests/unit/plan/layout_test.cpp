// Frame layout, shedding and splitting: properties over random plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "plan/planner.hpp"
#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

constexpr std::uint32_t kSlots = 40;

FramePlan random_frame(Random& random, std::uint32_t max_rows) {
  FramePlan frame;
  const std::uint64_t records = 1 + random.below(12);
  for (std::uint64_t i = 0; i < records; ++i) {
    PlannedRecord record;
    record.hook = static_cast<HookId>(i);
    record.slot = static_cast<std::uint32_t>(i);
    record.rows = 1 + static_cast<std::uint32_t>(random.below(max_rows));
    record.row_bytes = 1 + random.below(70);
    record.list = random.chance(0.3) ? 0 : PlannedRecord::kNoList;
    frame.records.push_back(record);
  }
  return frame;
}

StepKind random_kind(Random& random) {
  return random.chance(0.5) ? StepKind::graph : StepKind::eager;
}

std::uint64_t size_of_record(const PlannedRecord& record) {
  return 32 + (record.rows * record.row_bytes + 15) / 16 * 16;
}

/// Records lie behind the prologue and behind each other, on 16 bytes, and end with the frame.
void check_layout(const FramePlan& frame, StepKind kind) {
  std::uint64_t at = kind == StepKind::graph ? kSlots * 4 : 16;
  for (const PlannedRecord& record : frame.records) {
    EXPECT_EQ(record.offset % 16, 0u);
    EXPECT_GT(record.offset, 0u) << "0 means OFF";
    EXPECT_GE(record.offset, at) << "overlaps what lies before it";
    at = record.offset + size_of_record(record);
  }
  EXPECT_EQ(frame.bytes, frame.records.empty() ? 0 : at);
}

TEST(Layout, I4_RecordsOfAFrameNeverOverlap) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    FramePlan frame = random_frame(random, 9);
    const StepKind kind = random_kind(random);
    lay_out(frame, kind, kSlots);
    check_layout(frame, kind);
  }
}

// A record is shed exactly if it does not fit beside those kept that rank above it.
TEST(Shed, I3_KeepsByPriorityWithinTheLimitAndLosesNoRecord) {
  int kept = 0, shed = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    FramePlan frame = random_frame(random, 9);
    const StepKind kind = random_kind(random);
    lay_out(frame, kind, kSlots);
    const FramePlan before = frame;
    std::vector<int> priority(random.below(14));  // may be shorter than the table: then it is 0
    for (int& p : priority) p = static_cast<int>(random.below(5)) - 2;
    const std::uint64_t limit = random.below(before.bytes + 40);
    shed_to_fit(frame, kind, kSlots, limit, priority, GapReason::shed_ring);

    EXPECT_LE(frame.bytes, limit);
    check_layout(frame, kind);
    const auto rank = [&](const PlannedRecord& record) {
      const int p = record.hook < priority.size() ? priority[record.hook] : 0;
      return std::tuple(-p, record.hook);  // lower comes first
    };
    std::vector<HookId> seen;
    for (const PlannedRecord& record : frame.records) {
      seen.push_back(record.hook);
      EXPECT_FALSE(record.gap.has_value());
    }
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end())) << "firing order";
    for (const PlannedRecord& record : frame.shed) {
      seen.push_back(record.hook);
      EXPECT_EQ(record.gap, GapReason::shed_ring);
      std::uint64_t beside = frame_prologue(kind, kSlots) + size_of_record(record);
      for (const PlannedRecord& other : frame.records) {
        if (rank(other) < rank(record)) beside += size_of_record(other);
      }
      EXPECT_GT(beside, limit) << "hook " << record.hook << " was shed though there was room";
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), before.records.size());
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], before.records[i].hook);
    kept += static_cast<int>(frame.records.size());
    shed += static_cast<int>(frame.shed.size());
  }
  EXPECT_GT(kept, 2000);
  EXPECT_GT(shed, 2000);
}

TEST(Shed, WhatWasShedBeforeStaysShedForItsFirstReason) {
  Random random(1);
  FramePlan frame = random_frame(random, 3);
  PlannedRecord too_large = frame.records.back();
  too_large.gap = GapReason::shed_too_large;
  frame.records.pop_back();
  frame.shed.push_back(too_large);
  shed_to_fit(frame, StepKind::graph, kSlots, 0, {}, GapReason::shed_ring);
  EXPECT_EQ(frame.bytes, 0u);
  EXPECT_EQ(frame.shed[0].gap, GapReason::shed_too_large);
}

TEST(Split, A12_CoversEachRowOnceInFramesWithinTheLimit) {
  int pieces = 0, shed = 0, frames = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StepPlan plan;
    plan.kind = StepKind::eager;
    plan.frames.push_back(random_frame(random, 60));
    const FramePlan whole = plan.frames[0];
    const std::uint64_t limit = random.below(1500);
    split_frames(plan, kSlots, limit);

    std::map<HookId, std::uint32_t> next_row;
    std::uint32_t part = 0;
    std::pair<HookId, std::uint32_t> last{0, 0};
    for (const FramePlan& frame : plan.frames) {
      EXPECT_EQ(frame.part, part++);
      EXPECT_LE(frame.bytes, limit);
      check_layout(frame, StepKind::eager);
      EXPECT_TRUE(plan.frames.size() == 1 || !frame.records.empty()) << "an empty frame";
      for (const PlannedRecord& record : frame.records) {
        const PlannedRecord& original = whole.records[record.hook];
        EXPECT_EQ(record.first_row, next_row[record.hook]) << "a row is missing or comes twice";
        EXPECT_GT(record.rows, 0u);
        EXPECT_EQ(record.piece, record.rows != original.rows);
        EXPECT_EQ(record.list, original.list);
        EXPECT_EQ(record.slot, original.slot);
        next_row[record.hook] += record.rows;
        EXPECT_GE(record.hook, last.first) << "pieces come in firing order";
        last = {record.hook, record.first_row};
        pieces += record.piece;
      }
      for (const PlannedRecord& record : frame.shed) {
        ++shed;
        EXPECT_EQ(record.gap, GapReason::shed_too_large);
        EXPECT_EQ(record.rows, whole.records[record.hook].rows);
        PlannedRecord one_row = record;
        one_row.rows = 1;
        EXPECT_GT(16 + size_of_record(one_row), limit) << "one row would have fitted";
        next_row[record.hook] += record.rows;
      }
    }
    frames += static_cast<int>(plan.frames.size());
    for (const PlannedRecord& record : whole.records) {
      EXPECT_EQ(next_row[record.hook], record.rows) << "hook " << record.hook;
    }
  }
  EXPECT_GT(pieces, 2000);
  EXPECT_GT(shed, 500);
  EXPECT_GT(frames, 5000);
}

TEST(Split, A12_KeepsWhatWasShedBefore) {
  StepPlan plan;
  plan.kind = StepKind::eager;
  Random random(3);
  plan.frames.push_back(random_frame(random, 60));
  PlannedRecord gone = plan.frames[0].records[0];
  gone.gap = GapReason::shed_too_large;
  plan.frames[0].shed.push_back(gone);
  split_frames(plan, kSlots, 256);
  ASSERT_FALSE(plan.frames[0].shed.empty());
  EXPECT_EQ(plan.frames[0].shed[0].hook, gone.hook);
}

TEST(Layout, CapturedIsWhatTheFramesHold) {
  StepPlan plan;
  Random random(4);
  plan.frames.push_back(random_frame(random, 5));
  plan.frames.emplace_back();
  plan.frames[1].records.push_back(plan.frames[0].records[0]);
  plan.frames[1].records[0].hook = 30;
  refresh_captured(plan, 40);
  EXPECT_TRUE(plan.captured.contains(30));
  EXPECT_EQ(plan.captured.count(), plan.frames[0].records.size() + 1);
}

}  // namespace
}  // namespace graphtap
