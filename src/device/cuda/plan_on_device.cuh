#pragma once
// How a producer reads its plan and signs its record, in every form.
#include "device/cuda/producer_args.hpp"

namespace graphtap::cuda {

/// A 16-byte load that the compiler neither moves nor drops: a speculative load must leave before
/// the plan is known.
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

__device__ __forceinline__ std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
__device__ __forceinline__ std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

/// A plan as it lies in the header: three loads that leave together. The eager form has it among
/// its arguments.
struct RawPlan {
  uint4 first;   // ticket, frame
  uint4 second;  // magic, slots, list entries
  uint4 slot;    // offset16, rows, list, capacity16
};

/// `slot_is_mapped`: header and slot are read at once, one memory latency instead of two.
template <bool kGraph>
__device__ __forceinline__ RawPlan load_plan(const ProducerTag& tag, const InlinePlan& given,
                                             bool slot_is_mapped) {
  RawPlan raw;
  if constexpr (kGraph) {
    const auto* base = reinterpret_cast<const std::byte*>(tag.header);
    const std::byte* slot_at =
        base + wire::slots_offset() + std::uint64_t{tag.id.slot} * sizeof(wire::SlotPlan);
    raw.slot = uint4{};
    if (slot_is_mapped) raw.slot = load_now(slot_at);
    raw.first = load_now(base);
    raw.second = load_now(base + 16);
    if (!slot_is_mapped && tag.id.slot < raw.second.z) raw.slot = load_now(slot_at);
  } else {
    const auto frame = reinterpret_cast<std::uint64_t>(given.frame);
    raw.first = make_uint4(low(given.ticket), high(given.ticket), low(frame), high(frame));
    raw.second = make_uint4(low(given.magic), high(given.magic), 0, 0);
    raw.slot =
        make_uint4(given.slot.offset16, given.slot.rows, wire::kAllRows, given.slot.capacity16);
  }
  return raw;
}

template <bool kGraph>
__device__ __forceinline__ bool is_on(const RawPlan& raw, const ProducerTag& tag) {
  const bool planned = (raw.first.x | raw.first.y) != 0 && raw.slot.x != 0;
  return kGraph ? planned && tag.id.slot < raw.second.z : planned;
}

/// Where the head goes; the rows follow it.
__device__ __forceinline__ std::byte* record_of(const RawPlan& raw) {
  return reinterpret_cast<std::byte*>(join(raw.first.z, raw.first.w)) +
         std::uint64_t{raw.slot.x} * wire::kAlign;
}

/// What this step wants of this producer, with everything that a row list needs.
struct Plan {
  std::uint32_t rows = 0;  // as planned
  std::uint32_t capacity16 = 0;
  bool bad_list = false;
  const std::uint32_t* list = nullptr;
};

template <bool kGraph>
__device__ __forceinline__ Plan understand(const RawPlan& raw, const ProducerTag& tag,
                                           const InlinePlan& given) {
  Plan plan;
  plan.rows = raw.slot.y;
  plan.capacity16 = raw.slot.w;
  if constexpr (!kGraph) {
    plan.list = given.list;
  } else if (raw.slot.z != wire::kAllRows) {
    const auto* base = reinterpret_cast<const std::byte*>(tag.header);
    plan.bad_list = std::uint64_t{raw.slot.z} + raw.slot.y > raw.second.w;
    plan.list = reinterpret_cast<const std::uint32_t*>(base + wire::lists_offset(raw.second.z)) +
                raw.slot.z;
  }
  return plan;
}

/// Rows that fit, of those that the plan asks for and the source has.
__device__ __forceinline__ std::uint32_t rows_to_copy(const Plan& plan, std::uint32_t there,
                                                      std::uint64_t row_bytes) {
  std::uint32_t rows = plan.rows;
  if (plan.list == nullptr) {
    rows = min(rows, there);
  } else if (plan.bad_list || (rows > 0 && plan.list[rows - 1] >= there)) {
    return 0;
  }
  const std::uint64_t capacity = plan.capacity16 * wire::kAlign;
  // The division only where it is needed: it costs more than all the rest.
  if (rows * row_bytes > capacity) rows = static_cast<std::uint32_t>(capacity / row_bytes);
  return rows;
}

/// By one thread of the grid. The head needs no order behind the rows: nobody looks before the
/// step's event.
template <bool kGraph>
__device__ __forceinline__ void sign(const RawPlan& raw, const ProducerTag& tag, std::uint32_t rows,
                                     std::uint64_t bytes) {
  if constexpr (kGraph) {
    atomicAdd(reinterpret_cast<std::uint32_t*>(join(raw.first.z, raw.first.w)) + tag.id.slot, 1u);
  }
  auto* head = reinterpret_cast<uint4*>(record_of(raw));
  head[0] = make_uint4(raw.second.x, raw.second.y, raw.first.x, raw.first.y);
  head[1] = make_uint4(tag.id.hook | (static_cast<std::uint32_t>(tag.id.ordinal) << 16), rows,
                       low(bytes), high(bytes));
}

}  // namespace graphtap::cuda
