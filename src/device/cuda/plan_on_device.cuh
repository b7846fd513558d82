#pragma once
// How a producer reads its plan and signs its record, in every form.
#include "device/cuda/producer_args.hpp"

namespace graphtap::cuda {

/// A 16-byte load that the compiler neither moves nor drops: a speculative load must leave before the plan is known.
__device__ __forceinline__ uint4 load_now(const void* from) {
  uint4 value;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}

__device__ __forceinline__ std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32);
}

/// What this step wants of this producer.
struct Plan {
  bool on = false;
  bool bad_list = false;
  std::uint64_t ticket = 0;
  std::uint64_t magic = 0;
  std::byte* record = nullptr;  // where the head goes
  wire::SlotPlan slot{};
  const std::uint32_t* list = nullptr;
  std::uint32_t* census = nullptr;
};

/// `slot_is_mapped`: header and slot are read at once, one memory latency instead of two.
template <bool kGraph>
__device__ __forceinline__ Plan read_plan(const ProducerTag& tag, const InlinePlan& given, bool slot_is_mapped) {
  Plan plan;
  if constexpr (kGraph) {
    const auto* base = reinterpret_cast<const std::byte*>(tag.header);
    const std::byte* slot_at = base + wire::slots_offset() + std::uint64_t{tag.id.slot} * sizeof(wire::SlotPlan);
    uint4 slot{};
    if (slot_is_mapped) slot = load_now(slot_at);
    const uint4 first = load_now(base);
    const uint4 second = load_now(base + 16);
    plan.ticket = join(first.x, first.y);
    const std::uint32_t slots = second.z;
    if (plan.ticket == 0 || tag.id.slot >= slots) return plan;
    if (!slot_is_mapped) slot = load_now(slot_at);
    plan.slot = {slot.x, slot.y, slot.z, slot.w};
    plan.on = plan.slot.offset16 != 0;
    plan.magic = join(second.x, second.y);
    plan.record = reinterpret_cast<std::byte*>(join(first.z, first.w)) + plan.slot.offset16 * wire::kAlign;
    auto* writable = reinterpret_cast<std::byte*>(tag.header);
    plan.census = reinterpret_cast<std::uint32_t*>(writable + wire::census_offset(slots)) + tag.id.slot;
    if (plan.slot.list != wire::kAllRows) {
      plan.bad_list = std::uint64_t{plan.slot.list} + plan.slot.rows > second.w;
      plan.list = reinterpret_cast<const std::uint32_t*>(base + wire::lists_offset(slots)) + plan.slot.list;
    }
  } else {
    plan.ticket = given.ticket;
    plan.slot = given.slot;
    plan.on = given.ticket != 0 && given.slot.offset16 != 0;
    plan.magic = given.magic;
    plan.record = given.frame + given.slot.offset16 * wire::kAlign;
    plan.list = given.list;
  }
  return plan;
}

/// Rows that fit, of those that the plan asks for and the source has.
__device__ __forceinline__ std::uint32_t rows_to_copy(const Plan& plan, std::uint32_t there, std::uint64_t row_bytes) {
  std::uint32_t rows = plan.slot.rows;
  if (plan.list == nullptr) {
    rows = min(rows, there);
  } else if (plan.bad_list || (rows > 0 && plan.list[rows - 1] >= there)) {
    return 0;
  }
  const std::uint64_t capacity = plan.slot.capacity16 * wire::kAlign;
  // The division only where it is needed: it costs more than all the rest.
  if (rows * row_bytes > capacity) rows = static_cast<std::uint32_t>(capacity / row_bytes);
  return rows;
}

/// By one thread of the grid. The head needs no order behind the rows: nobody looks before the step's event.
__device__ __forceinline__ void sign(const Plan& plan, const ProducerId& id, std::uint32_t rows, std::uint64_t bytes) {
  if (plan.census != nullptr) atomicAdd(plan.census, 1u);
  auto* head = reinterpret_cast<uint4*>(plan.record);
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  head[0] = make_uint4(low(plan.magic), high(plan.magic), low(plan.ticket), high(plan.ticket));
  head[1] = make_uint4(id.hook | (static_cast<std::uint32_t>(id.ordinal) << 16), rows, low(bytes), high(bytes));
}

}  // namespace graphtap::cuda
