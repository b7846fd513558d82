#pragma once
// What host and device agree on, byte for byte. Included by host code and by device code: plain
// data and constexpr functions only.
#include <cstddef>
#include <cstdint>

namespace graphtap::wire {

inline constexpr std::uint64_t kAlign = 16;
inline constexpr std::uint64_t kMagic =
    0x6772617068746170;  // "graphtap"; xor-ed with the ring's nonce
inline constexpr std::uint32_t kAllRows =
    0xffffffffu;  // SlotPlan::list of a slot without a row list

/// What a producer writes before its rows.
struct RecordHead {
  std::uint64_t magic;   // kMagic ^ nonce of the ring
  std::uint64_t ticket;  // of the step, from the plan
  std::uint16_t hook;    // the producer's own identity, not the plan's
  std::uint16_t ordinal;
  std::uint32_t rows;   // rows written
  std::uint64_t bytes;  // payload bytes written
};
static_assert(sizeof(RecordHead) == 32);

/// The plan of one (hook, ordinal): one 16-byte load tells a producer everything.
struct alignas(16) SlotPlan {
  std::uint32_t offset16;    // of the record's head in the frame, in 16-byte units; 0 = OFF
  std::uint32_t rows;        // rows to copy
  std::uint32_t list;        // index of the first entry in the header's row list, or kAllRows
  std::uint32_t capacity16;  // payload bytes that may be written, in 16-byte units
};
static_assert(sizeof(SlotPlan) == 16);

/// The step header. In device memory it is followed by slots × SlotPlan and the row lists. One
/// upload replaces all of it in stream order.
struct alignas(16) StepHeader {
  std::uint64_t ticket;  // 0 = OFF
  std::uint64_t frame;   // device address of the frame
  std::uint64_t magic;
  std::uint32_t slots;
  std::uint32_t list_entries;
};
static_assert(sizeof(StepHeader) == 32);

[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t bytes) noexcept {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}
/// The one size rule: what a record of `payload` bytes takes in a frame.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t payload) noexcept {
  return sizeof(RecordHead) + align_up(payload);
}
/// The frame of a graph step begins with the census: how often each slot's producer fired, as
/// slots × u32. It is zeroed in stream order before the header goes ON.
[[nodiscard]] constexpr std::uint64_t census_bytes(std::uint32_t slots) noexcept {
  return align_up(std::uint64_t{slots} * sizeof(std::uint32_t));
}
/// What SlotPlan can address: 32-bit counts of 16-byte units.
inline constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{0xffffffff} * kAlign;
[[nodiscard]] constexpr std::uint64_t slots_offset() noexcept { return sizeof(StepHeader); }
[[nodiscard]] constexpr std::uint64_t lists_offset(std::uint32_t slots) noexcept {
  return slots_offset() + std::uint64_t{slots} * sizeof(SlotPlan);
}
[[nodiscard]] constexpr std::uint64_t header_bytes(std::uint32_t slots,
                                                   std::uint32_t list_entries) noexcept {
  return lists_offset(slots) + align_up(std::uint64_t{list_entries} * sizeof(std::uint32_t));
}

}  // namespace graphtap::wire
