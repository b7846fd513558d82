#include "plan/ring_allocator.hpp"

#include <algorithm>
#include <cassert>

namespace graphtap {

std::optional<RingAllocator::Block> RingAllocator::allocate(std::uint64_t bytes) {
  assert(bytes > 0);
  std::uint64_t offset = 0;
  if (!live_.empty()) {
    const std::uint64_t head = live_.back().end;
    const std::uint64_t tail = live_.front().begin;
    const bool wrapped = head <= tail;
    if (!wrapped && capacity_ - head >= bytes) {
      offset = head;
    } else if (!wrapped && tail >= bytes) {
      ++wraps_;  // what is left at the end is wasted until the blocks before it are gone
    } else if (wrapped && tail - head >= bytes) {
      offset = head;
    } else {
      return std::nullopt;
    }
  } else if (bytes > capacity_) {
    return std::nullopt;
  }
  live_.push_back({offset, offset + bytes, false});
  high_water_ = std::max(high_water_, used());
  return Block{first_id_ + live_.size() - 1, offset, bytes};
}

void RingAllocator::release(std::uint64_t id) {
  assert(id >= first_id_ && id - first_id_ < live_.size());
  live_[static_cast<std::size_t>(id - first_id_)].released = true;
  while (!live_.empty() && live_.front().released) {
    live_.pop_front();
    ++first_id_;
  }
}

std::uint64_t RingAllocator::used() const noexcept {
  if (live_.empty()) return 0;
  const std::uint64_t head = live_.back().end;
  const std::uint64_t tail = live_.front().begin;
  return head > tail ? head - tail : capacity_ - tail + head;
}

std::uint64_t RingAllocator::largest_free() const noexcept {
  if (live_.empty()) return capacity_;
  const std::uint64_t head = live_.back().end;
  const std::uint64_t tail = live_.front().begin;
  return head <= tail ? tail - head : std::max(capacity_ - head, tail);
}

}  // namespace graphtap
