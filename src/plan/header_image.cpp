#include "plan/header_image.hpp"

#include <cstring>

#include "plan/wire.hpp"

namespace graphtap {
namespace {

std::uint32_t total_list_entries(const StepPlan& plan) noexcept {
  return list_position(plan, static_cast<std::int32_t>(plan.lists.size()));
}

}  // namespace

std::uint32_t list_position(const StepPlan& plan, std::int32_t index) noexcept {
  std::size_t position = 0;
  for (std::int32_t i = 0; i < index; ++i) {
    const RowList& list = plan.lists[static_cast<std::size_t>(i)];
    if (list.in_header) position += list.rows.size();
  }
  return static_cast<std::uint32_t>(position);
}

std::uint64_t header_image_bytes(const StepPlan& plan, std::uint32_t slots) noexcept {
  return wire::header_bytes(slots, total_list_entries(plan));
}

void write_header_image(std::byte* image, const StepPlan& plan, const FramePlan& frame,
                        std::uint32_t slots) noexcept {
  std::memset(image, 0, wire::lists_offset(slots));
  wire::StepHeader header{};
  header.slots = slots;
  header.list_entries = total_list_entries(plan);
  if (plan.kind ==
      StepKind::graph) {  // an eager step uploads its row lists only: the header stays OFF
    header.ticket = frame.ticket;
    header.frame = reinterpret_cast<std::uint64_t>(frame.loan->data());
    header.magic = frame.loan->magic();
    for (const PlannedRecord& record : frame.records) {
      wire::SlotPlan slot{};
      slot.offset16 = static_cast<std::uint32_t>(record.offset / wire::kAlign);
      slot.rows = record.rows;
      slot.list =
          record.list == PlannedRecord::kNoList ? wire::kAllRows : list_position(plan, record.list);
      slot.capacity16 =
          static_cast<std::uint32_t>(wire::align_up(record.payload_bytes()) / wire::kAlign);
      std::memcpy(image + wire::slots_offset() + record.slot * sizeof(slot), &slot, sizeof(slot));
    }
  }
  std::memcpy(image, &header, sizeof(header));
  std::byte* out = image + wire::lists_offset(slots);
  for (const RowList& list : plan.lists) {
    if (!list.in_header) continue;
    const std::size_t bytes = list.rows.size() * sizeof(std::uint32_t);
    std::memcpy(out, list.rows.data(), bytes);
    out += bytes;
  }
}

}  // namespace graphtap
