#pragma once
#include <cstdint>
#include <deque>
#include <optional>

namespace graphtap {

/// Hands out contiguous blocks of a ring in order; blocks may be released in any order and become
/// free from the oldest on. Counts bytes only: it owns no memory. Not thread-safe.
class RingAllocator {
 public:
  struct Block {
    std::uint64_t id = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  explicit RingAllocator(std::uint64_t capacity) : capacity_(capacity) {}

  /// Nothing if no contiguous gap of `bytes` is free now. Precondition: bytes > 0.
  std::optional<Block> allocate(std::uint64_t bytes);
  /// Precondition: `id` was allocated and not released yet.
  void release(std::uint64_t id);

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  /// Bytes from the oldest block that is not reclaimed to the end of the newest; with what is left
  /// over at the end of the ring while blocks lie on both sides of it.
  [[nodiscard]] std::uint64_t used() const noexcept;
  [[nodiscard]] std::uint64_t high_water() const noexcept { return high_water_; }
  /// The largest block that allocate() would grant now.
  [[nodiscard]] std::uint64_t largest_free() const noexcept;
  [[nodiscard]] std::uint64_t wraps() const noexcept { return wraps_; }

 private:
  struct Live {
    std::uint64_t begin;
    std::uint64_t end;
    bool released;
  };

  const std::uint64_t capacity_;
  std::deque<Live> live_;
  std::uint64_t first_id_ = 1;  // of live_.front()
  std::uint64_t high_water_ = 0;
  std::uint64_t wraps_ = 0;
};

}  // namespace graphtap
