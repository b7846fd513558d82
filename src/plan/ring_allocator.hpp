#pragma once
#include <cstdint>
#include <deque>
#include <optional>

namespace graphtap {

/// Hands out contiguous blocks of a ring in order; blocks may be released in any order and become free
/// from the oldest on. Counts bytes only: it owns no memory. Not thread-safe.
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
  /// Bytes between the oldest live block and the newest, waste at the end of the ring included.
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::uint64_t high_water() const noexcept { return high_water_; }
  /// The largest block that allocate() would grant now.
  [[nodiscard]] std::uint64_t largest_free() const noexcept;
  [[nodiscard]] std::uint64_t wraps() const noexcept { return wraps_; }

 private:
  struct Live {
    std::uint64_t begin;  // includes the bytes wasted before a wrap
    std::uint64_t end;
    std::uint64_t span;   // end - begin, or what it takes of the ring when it wrapped
    bool released;
  };

  const std::uint64_t capacity_;
  std::deque<Live> live_;
  std::uint64_t first_id_ = 1;  // of live_.front()
  std::uint64_t used_ = 0;
  std::uint64_t high_water_ = 0;
  std::uint64_t wraps_ = 0;
};

}  // namespace graphtap
