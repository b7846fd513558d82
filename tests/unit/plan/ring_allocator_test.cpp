#include "plan/ring_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "device/host/random.hpp"

namespace graphtap {
namespace {

/// The same promise, kept by brute force: intervals in order of birth, reclaimed from the oldest
/// on.
class IntervalModel {
 public:
  explicit IntervalModel(std::uint64_t capacity) : capacity_(capacity) {}

  [[nodiscard]] std::optional<std::uint64_t> place(std::uint64_t bytes) const {
    if (fits(head(), bytes)) return head();
    if (fits(0, bytes)) return 0;
    return std::nullopt;
  }
  void add(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes) {
    if (!live_.empty() && offset == 0) ++wraps;
    live_.push_back({id, offset, offset + bytes, false});
    high_water = std::max(high_water, used());
  }
  void release(std::uint64_t id) {
    for (Interval& interval : live_) {
      if (interval.id == id) interval.released = true;
    }
    while (!live_.empty() && live_.front().released) live_.erase(live_.begin());
  }
  [[nodiscard]] std::uint64_t largest() const {
    std::uint64_t bytes = capacity_;
    while (bytes > 0 && !place(bytes)) --bytes;
    return bytes;
  }
  // Byte by byte from the oldest block's begin to the newest block's end, around the ring.
  [[nodiscard]] std::uint64_t used() const {
    if (live_.empty()) return 0;
    std::uint64_t bytes = 0;
    for (std::uint64_t at = live_.front().begin;;) {
      ++bytes;
      at = (at + 1) % capacity_;
      if (at == live_.back().end % capacity_) return bytes;
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> held() const {
    std::vector<std::uint64_t> ids;
    for (const Interval& interval : live_) {
      if (!interval.released) ids.push_back(interval.id);
    }
    return ids;
  }
  std::uint64_t wraps = 0, high_water = 0;

 private:
  struct Interval {
    std::uint64_t id, begin, end;
    bool released;
  };
  [[nodiscard]] std::uint64_t head() const { return live_.empty() ? 0 : live_.back().end; }
  [[nodiscard]] bool fits(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset + bytes > capacity_) return false;
    return std::none_of(live_.begin(), live_.end(), [&](const Interval& other) {
      return offset < other.end && other.begin < offset + bytes;
    });
  }
  const std::uint64_t capacity_;
  std::vector<Interval> live_;
};

TEST(RingAllocator, I4_AgreesWithAnIntervalModelAtEveryStep) {
  std::uint64_t grants = 0, refusals = 0, wraps = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::uint64_t capacity = 1 + random.below(48);
    const double release_chance = 0.2 + 0.6 * static_cast<double>(random.below(100)) / 100.0;
    RingAllocator ring(capacity);
    IntervalModel model(capacity);
    for (int step = 0; step < 250; ++step) {
      if (random.chance(release_chance)) {
        const std::vector<std::uint64_t> held = model.held();
        if (held.empty()) continue;
        // Mostly the oldest, as frames go; any other now and then.
        const std::uint64_t id = held[random.chance(0.6) ? 0 : random.below(held.size())];
        ring.release(id);
        model.release(id);
      } else {
        const std::uint64_t bytes = 1 + random.below(capacity + 2);
        const std::optional<std::uint64_t> expected = model.place(bytes);
        const std::optional<RingAllocator::Block> block = ring.allocate(bytes);
        ASSERT_EQ(block.has_value(), expected.has_value()) << bytes << " bytes, step " << step;
        ++(block ? grants : refusals);
        if (block) {
          ASSERT_EQ(block->offset, *expected);
          ASSERT_EQ(block->bytes, bytes);
          model.add(block->id, block->offset, bytes);
        }
      }
      ASSERT_EQ(ring.largest_free(), model.largest());
      ASSERT_EQ(ring.used(), model.used());
      ASSERT_EQ(ring.high_water(), model.high_water);
      ASSERT_EQ(ring.wraps(), model.wraps);
    }
    wraps += ring.wraps();
  }
  EXPECT_GT(grants, 10'000u);
  EXPECT_GT(refusals, 10'000u);
  EXPECT_GT(wraps, 1'000u);
}

TEST(RingAllocator, I4_LargestFreeIsGrantedAndOneByteMoreIsNot) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RingAllocator ring(64);
    std::vector<std::uint64_t> held;
    for (int step = 0; step < 40; ++step) {
      if (const auto block = ring.allocate(1 + random.below(24))) held.push_back(block->id);
      if (!held.empty() && random.chance(0.5)) {
        const std::size_t which = random.below(held.size());
        ring.release(held[which]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    const std::uint64_t largest = ring.largest_free();
    RingAllocator copy = ring;
    EXPECT_FALSE(copy.allocate(largest + 1));
    EXPECT_TRUE(largest == 0 || ring.allocate(largest));
  }
}

TEST(RingAllocator, I4_AYoungerBlockThatComesBackFirstWaitsForTheOldest) {
  RingAllocator ring(100);
  const auto first = ring.allocate(40);
  const auto second = ring.allocate(40);
  ring.release(second->id);
  EXPECT_EQ(ring.largest_free(), 20u);
  EXPECT_EQ(ring.used(), 80u);
  ring.release(first->id);
  EXPECT_EQ(ring.largest_free(), 100u);
  EXPECT_EQ(ring.used(), 0u);
  EXPECT_EQ(ring.high_water(), 80u);
}

TEST(RingAllocator, I4_TheRestBeforeAWrapIsFreeOnceTheBlocksBeforeItAreGone) {
  RingAllocator ring(100);
  const auto first = ring.allocate(50);
  const auto second = ring.allocate(30);
  ring.release(first->id);
  const auto third = ring.allocate(40);  // 20 are left at the end: it begins again at 0
  EXPECT_EQ(third->offset, 0u);
  EXPECT_EQ(ring.wraps(), 1u);
  EXPECT_EQ(ring.used(), 90u);
  ring.release(second->id);
  EXPECT_EQ(ring.used(), 40u);
  EXPECT_EQ(ring.largest_free(), 60u);
}

}  // namespace
}  // namespace graphtap
