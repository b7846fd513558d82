#pragma once
// Random producer calls of every kind, with all that they may read and write laid out in one block
// of memory, so that the same calls can be made on a device and, by the definition, on the host.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/host/random.hpp"

namespace graphtap::test {

inline constexpr std::size_t kSourceBytes = 192 << 10;
inline constexpr std::size_t kFrameBytes = 256 << 10;
inline constexpr std::size_t kMostCalls = 6;
inline constexpr std::size_t kMostChunks = 40;
inline constexpr std::uint32_t kListEntries = 256;
inline constexpr std::uint32_t kMostSlots = 8;
inline constexpr std::byte kUntouched{0xEE};

// Offsets of everything a step's producers touch, in one allocation.
inline constexpr std::size_t kCountsAt = kSourceBytes;
inline constexpr std::size_t kListsAt = kCountsAt + kMostCalls * kMostChunks * sizeof(std::int64_t);
inline constexpr std::size_t kHeaderAt =
    kListsAt + kMostCalls * kListEntries * sizeof(std::uint32_t);
inline constexpr std::size_t kFrameAt =
    (kHeaderAt + wire::header_bytes(kMostSlots, kListEntries) + 255) / 256 * 256;
inline constexpr std::size_t kImageBytes = kFrameAt + kFrameBytes;

/// A call whose addresses are offsets into the image.
struct Sketch {
  ProducerCall call;
  bool eager = false;
  bool has_list = false;
  std::size_t data = 0, addend = 0, counts = 0, list = 0;

  [[nodiscard]] ProducerCall at(std::byte* image) const {
    ProducerCall made = call;
    made.source.data = call.source.data != nullptr ? image + data : nullptr;
    made.source.addend = call.source.addend != nullptr ? image + addend : nullptr;
    if (call.source.chunks > 0)
      made.source.chunk_bytes = reinterpret_cast<const std::int64_t*>(image + counts);
    if (!eager) made.header = reinterpret_cast<wire::StepHeader*>(image + kHeaderAt);
    if (eager) made.frame = image + kFrameAt;
    if (eager && has_list) made.list = reinterpret_cast<const std::uint32_t*>(image + list);
    return made;
  }
};

/// How often each kind of call was made.
struct Seen {
  std::uint64_t flat = 0, strided = 0, sums = 0, chunked = 0, eager = 0, off = 0, lists = 0,
                bad_lists = 0, clamped = 0, odd = 0, beyond = 0, negative_counts = 0,
                huge_counts = 0;
};

/// The calls of one seed; fills the image they refer to.
class RandomCalls {
 public:
  RandomCalls(std::uint64_t seed, std::span<std::byte> image, Seen& seen)
      : random_(seed), image_(image), seen_(seen) {
    for (std::size_t at = 0; at < kSourceBytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random_.next();
      std::memcpy(&image_[at], &word, sizeof(word));
    }
    std::memset(&image_[kSourceBytes], 0, kFrameAt - kSourceBytes);
    std::memset(&image_[kFrameAt], std::to_integer<int>(kUntouched), kFrameBytes);
    slots_ = 1 + below(kMostSlots);
    entries_ = below(kListEntries + 1);
    header_ = {random_.chance(0.9) ? random_.next() | 1 : 0, 0, random_.next(), slots_, entries_};
    frame_used_ = wire::census_bytes(slots_) / wire::kAlign;
    const std::size_t count = 1 + below(kMostCalls);
    for (std::size_t i = 0; i < count; ++i) add(i);
    put(kHeaderAt, header_);
    close_ = random_.chance(0.5);
  }

  [[nodiscard]] const std::vector<Sketch>& calls() const { return calls_; }
  [[nodiscard]] bool close() const { return close_; }

 private:
  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>(random_.below(bound));
  }
  template <class T>
  void put(std::size_t offset, const T& value) {
    std::memcpy(&image_[offset], &value, sizeof(value));
  }
  static std::uint64_t size(DType dtype) { return size_of(dtype); }

  void add(std::size_t index) {
    Sketch sketch;
    ProducerCall& call = sketch.call;
    const std::uint32_t kind = below(4);
    constexpr std::array floating{DType::f16, DType::bf16,    DType::f32,
                                  DType::f64, DType::f8_e4m3, DType::f8_e5m2};
    call.dtype = floating[below(floating.size())];
    call.id.hook = static_cast<std::uint16_t>(random_.next());
    call.id.ordinal = static_cast<std::uint16_t>(below(4));
    call.source.data = image_.data();  // not null; at() says where
    if (kind == 0) {
      flat(sketch);
      ++seen_.flat;
    } else if (kind == 1) {
      strided(sketch, 1 + below(300));
      ++seen_.strided;
    } else if (kind == 2) {
      call.source.addend = image_.data();
      if (random_.chance(0.5)) {
        flat(sketch);
      } else {
        strided(sketch, size(call.dtype) * (1 + below(100)));
      }
      ++seen_.sums;
    } else {
      chunked(sketch, index);
      ++seen_.chunked;
    }
    if (call.source.rows == 0 && call.source.chunks == 0 && random_.chance(0.5))
      call.source.data = nullptr;
    sketch.eager = random_.chance(0.3);
    plan(sketch, index);
    calls_.push_back(sketch);
  }

  // Rows one behind the other, in units of 16 bytes: what most hooks are. Some are longer than a
  // block of threads.
  void flat(Sketch& sketch) {
    Source& source = sketch.call.source;
    source.rows = below(20);
    source.part_bytes = 16 * (1 + below(random_.chance(0.2) ? 512 : 40));
    source.row_stride = static_cast<std::int64_t>(source.part_bytes);
    source.addend_row_stride = source.row_stride;
    const std::size_t extent = source.rows * source.part_bytes;
    sketch.data = place(extent, 0, 16);
    sketch.addend = place(extent, 0, 16);
  }

  // Any strides, also negative ones, at any alignment; rows or parts may overlap.
  void strided(Sketch& sketch, std::uint64_t part_bytes) {
    Source& source = sketch.call.source;
    source.rows = below(12);
    source.parts = 1 + below(4);
    source.part_bytes = part_bytes;
    const std::uint64_t unit = std::uint64_t{1} << below(5);
    if (random_.chance(0.7) && unit > 1) source.part_bytes = (part_bytes + 15) / 16 * 16;
    const auto stride = [&](std::uint64_t most) {
      const auto units =
          static_cast<std::int64_t>(below(most / unit)) * static_cast<std::int64_t>(unit);
      return random_.chance(0.3) ? -units : units;
    };
    source.part_stride = stride(1200);
    source.row_stride = stride(4000);
    source.addend_row_stride = stride(4000);
    sketch.data = placed(source, source.row_stride, unit);
    sketch.addend = placed(source, source.addend_row_stride, unit);
    if (sketch.data % 2 != 0) ++seen_.odd;
  }

  // Where a tensor of that shape may begin, so that all of it lies in the image's source.
  std::size_t placed(const Source& source, std::int64_t row_stride, std::uint64_t unit) {
    const auto rows = std::max<std::int64_t>(std::int64_t{source.rows} - 1, 0) * row_stride;
    const auto parts = (std::int64_t{source.parts} - 1) * source.part_stride;
    const std::int64_t before = -std::min<std::int64_t>(rows, 0) - std::min<std::int64_t>(parts, 0);
    const std::int64_t behind = std::max<std::int64_t>(rows, 0) + std::max<std::int64_t>(parts, 0);
    return place(static_cast<std::size_t>(behind) + source.part_bytes,
                 static_cast<std::size_t>(before), unit);
  }
  std::size_t place(std::size_t behind, std::size_t before, std::uint64_t unit) {
    const std::size_t first = (before + unit - 1) / unit;
    const std::size_t last = (kSourceBytes - behind) / unit;
    return (first + random_.below(last - first)) * unit;
  }

  void chunked(Sketch& sketch, std::size_t index) {
    Source& source = sketch.call.source;
    source.rows = below(100);
    source.part_bytes = 1 + below(64);
    source.row_stride = static_cast<std::int64_t>(source.part_bytes);
    source.chunks = 1 + below(kMostChunks);
    source.chunk_stride = below(random_.chance(0.5) ? 4000 : 100);
    if (random_.chance(0.5)) source.chunk_stride = source.chunk_stride / 16 * 16;
    sketch.data = place(source.chunks * source.chunk_stride, 0, random_.chance(0.5) ? 16 : 1);
    sketch.counts = kCountsAt + index * kMostChunks * sizeof(std::int64_t);
    for (std::uint32_t i = 0; i < source.chunks; ++i) {
      std::int64_t count = below(source.chunk_stride + 2);
      if (random_.chance(0.1)) {
        count = random_.chance(0.5) ? -count : std::numeric_limits<std::int64_t>::min();
        ++seen_.negative_counts;
      } else if (random_.chance(0.1)) {
        count =
            random_.chance(0.5) ? std::numeric_limits<std::int64_t>::max() : count + (1ll << 40);
        ++seen_.huge_counts;
      }
      put(sketch.counts + i * sizeof(count), count);
    }
  }

  // Room in the frame for whatever the plan allows, a gap, and a plan that need not fit the source
  // at all.
  void plan(Sketch& sketch, std::size_t index) {
    const Source& source = sketch.call.source;
    const std::uint64_t most =
        source.chunks > 0 ? source.chunks * source.chunk_stride : source.rows * source.row_bytes();
    std::uint64_t capacity = wire::align_up(most) / wire::kAlign;
    if (random_.chance(0.3)) {
      capacity = random_.below(capacity + 1);
      ++seen_.clamped;
    } else if (random_.chance(0.3)) {
      capacity += below(20);
    }
    const std::uint64_t left = kFrameBytes / wire::kAlign - frame_used_;
    if (left < 16) return;  // stays OFF
    capacity = std::min(capacity, left - 8);
    wire::SlotPlan slot{};
    slot.offset16 = static_cast<std::uint32_t>(frame_used_ + below(2));
    slot.capacity16 = static_cast<std::uint32_t>(capacity);
    slot.rows = below(source.rows + 4u);
    if (random_.chance(0.05)) slot.rows = 0xffffffffu;
    slot.list = wire::kAllRows;
    frame_used_ = slot.offset16 + sizeof(wire::RecordHead) / wire::kAlign + capacity + 1;
    if (random_.chance(0.1)) {
      slot.offset16 = 0;
      ++seen_.off;
    }
    if (source.chunks == 0 && random_.chance(0.5)) list(sketch, slot, index);

    ProducerCall& call = sketch.call;
    if (sketch.eager) {
      call.ticket = random_.chance(0.9) ? random_.next() | 1 : 0;
      call.magic = random_.next();
      call.plan = slot;
      ++seen_.eager;
      return;
    }
    // One slot may be the plan of two producers; the last one's plan holds for both.
    call.id.slot = below(slots_);
    if (random_.chance(0.05)) {
      call.id.slot = random_.chance(0.5) ? slots_ + below(3) : 0xffffffffu;
      ++seen_.beyond;
    } else if (!taken_[call.id.slot]) {
      taken_[call.id.slot] = true;
      put(kHeaderAt + wire::slots_offset() + call.id.slot * sizeof(slot), slot);
    }
  }

  // Ascending, sometimes beyond the source; in a header sometimes beyond its end.
  void list(Sketch& sketch, wire::SlotPlan& slot, std::size_t index) {
    ++seen_.lists;
    const std::uint32_t room = sketch.eager ? kListEntries : entries_;
    const std::uint32_t wanted =
        slot.rows == 0xffffffffu ? slot.rows : std::min(slot.rows, kListEntries);
    if (sketch.eager && wanted == 0xffffffffu) return;  // such a list would have to exist
    std::uint32_t first = 0;
    if (!sketch.eager) {  // the next one in the header; no two share entries
      first = random_.chance(0.05) ? entries_ + below(3) : lists_used_;
      lists_used_ = std::min(entries_, lists_used_ + std::min(wanted, kListEntries));
    }
    sketch.has_list = true;
    sketch.list = kListsAt + index * kListEntries * sizeof(std::uint32_t);
    slot.rows = wanted;
    slot.list = first;
    std::uint32_t row = below(2);
    const std::size_t base = sketch.eager ? sketch.list : kHeaderAt + wire::lists_offset(slots_);
    for (std::uint32_t i = 0; i < std::min(wanted, kListEntries); ++i, row += 1 + below(2)) {
      const bool last = i + 1 == wanted;
      if (last && random_.chance(0.1)) row = 0xffffffffu;
      if (last && row >= sketch.call.source.rows) ++seen_.bad_lists;
      if (first + i < room) put(base + (first + i) * sizeof(row), row);
    }
  }

  Random random_;
  const std::span<std::byte> image_;
  Seen& seen_;
  std::uint32_t slots_ = 0;
  std::uint32_t entries_ = 0;
  wire::StepHeader header_{};
  std::array<bool, kMostSlots> taken_{};
  std::uint64_t frame_used_ = 0;  // 16-byte units
  std::uint32_t lists_used_ = 0;
  std::vector<Sketch> calls_;
  bool close_ = false;
};

}  // namespace graphtap::test
