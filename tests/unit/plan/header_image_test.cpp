// The bytes that are uploaded, read back the way a producer reads them.
#include "plan/header_image.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "hooks/lease_book.hpp"
#include "plan/planner.hpp"
#include "plan/wire.hpp"
#include "unit/plan/random_plan.hpp"

namespace graphtap {
namespace {

constexpr std::uint64_t kGuard = 64;

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void decode(const std::byte* image, const StepPlan& plan, const FramePlan& frame,
            std::uint32_t slots) {
  const auto header = read<wire::StepHeader>(image);
  EXPECT_EQ(header.slots, slots);
  const bool on = plan.kind == StepKind::graph;
  EXPECT_EQ(header.ticket, on ? frame.ticket : 0u);
  if (on) {
    EXPECT_EQ(header.frame, reinterpret_cast<std::uintptr_t>(frame.loan->data()));
    EXPECT_EQ(header.magic, frame.loan->magic());
  }
  std::vector<const PlannedRecord*> by_slot(slots);
  for (const PlannedRecord& record : frame.records) by_slot[record.slot] = &record;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    SCOPED_TRACE("slot " + std::to_string(slot));
    const auto wired = read<wire::SlotPlan>(image + 32 + slot * 16);
    const PlannedRecord* record = by_slot[slot];
    if (record == nullptr || !on) {
      EXPECT_EQ(wired.offset16, 0u) << "OFF";
      continue;
    }
    EXPECT_EQ(std::uint64_t{wired.offset16} * 16, record->offset);
    EXPECT_EQ(wired.rows, record->rows);
    EXPECT_EQ(std::uint64_t{wired.capacity16} * 16, (record->payload_bytes() + 15) / 16 * 16);
    if (record->list == PlannedRecord::kNoList) {
      EXPECT_EQ(wired.list, wire::kAllRows);
      continue;
    }
    const RowList& list = plan.lists[static_cast<std::size_t>(record->list)];
    ASSERT_LE(wired.list + wired.rows, header.list_entries);
    ASSERT_EQ(list.rows.size(), wired.rows);
    const std::byte* entries = image + wire::lists_offset(slots);
    for (std::uint32_t i = 0; i < wired.rows; ++i) {
      EXPECT_EQ(read<std::uint32_t>(entries + (wired.list + i) * 4), list.rows[i]);
    }
  }
}

TEST(HeaderImage, I1_BytesDecodeBackToThePlan) {
  int with_lists = 0, images = 0, squeezed = 0;
  std::vector<std::byte> memory(1 << 16);
  const auto ring = FrameRing::make(memory.data(), memory.size(), 0x1234, {});
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const HookTable table = testing::random_table(random);
    const auto book = LeaseBook::make(table.all());
    std::vector<Lease> held;
    for (std::uint64_t i = 0; i < 3; ++i) {
      held.push_back(book->add(testing::random_lease(random, table.size())).value_or_throw());
    }
    const auto spans = testing::random_spans(random, testing::random_requests(random));
    StepShape shape;
    shape.kind = random.chance(0.8) ? StepKind::graph : StepKind::eager;
    shape.tokens = spans;
    shape.columns = 2;
    shape.expert_rows = 2;
    const auto room = static_cast<std::uint32_t>(random.chance(0.3) ? random.below(6) : 1000);
    const Planner planner(table, table.all(), EagerPolicy::same, room);
    const auto plan = planner.plan(*book->current(), shape, random.below(6));
    if (!plan) continue;
    FramePlan& frame = plan->frames[0];
    lay_out(frame, plan->kind, table.slots());
    if (frame.bytes == 0) continue;
    frame.ticket = seed * 1000;
    frame.loan = ring->try_lend(frame.bytes);
    ASSERT_NE(frame.loan, nullptr);

    const std::uint64_t bytes = header_image_bytes(*plan, table.slots());
    EXPECT_LE(bytes, wire::header_bytes(table.slots(), room));
    std::vector<std::byte> image(bytes + kGuard, std::byte{0xCD});  // what was there before
    write_header_image(image.data(), *plan, frame, table.slots());
    for (std::uint64_t i = 0; i < kGuard; ++i) ASSERT_EQ(image[bytes + i], std::byte{0xCD});
    decode(image.data(), *plan, frame, table.slots());
    ++images;
    with_lists += !plan->lists.empty();
    squeezed += !frame.shed.empty();
  }
  EXPECT_GT(images, 800);
  EXPECT_GT(with_lists, 300);
  EXPECT_GT(squeezed, 50);
}

TEST(HeaderImage, SizesAreThoseOfTheWireFormat) {
  EXPECT_EQ(wire::record_bytes(0), 32u);
  EXPECT_EQ(wire::record_bytes(1), 48u);
  EXPECT_EQ(wire::record_bytes(16), 48u);
  EXPECT_EQ(wire::census_bytes(1), 16u);
  EXPECT_EQ(wire::census_bytes(5), 32u);
  EXPECT_EQ(wire::header_bytes(36, 0), 32u + 36 * 16);
  EXPECT_EQ(wire::header_bytes(4, 3), 32u + 64 + 16);
}

}  // namespace
}  // namespace graphtap
