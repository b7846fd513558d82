#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "plan/ring_allocator.hpp"
#include "plan/wire.hpp"

namespace graphtap {

/// A piece of a FrameRing; gives itself back when the last copy goes. What keeps it alive decides
/// how long its bytes may be touched: the plan until the frame was copied, a lane's fence if its
/// header may be ON.
class FrameLoan {
 public:
  FrameLoan(std::shared_ptr<class FrameRing> ring, RingAllocator::Block block) noexcept
      : ring_(std::move(ring)), block_(block) {}
  ~FrameLoan();
  FrameLoan(const FrameLoan&) = delete;
  FrameLoan& operator=(const FrameLoan&) = delete;

  [[nodiscard]] std::byte* data() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return block_.bytes; }
  [[nodiscard]] std::uint64_t magic() const noexcept;
  /// The device may touch these bytes for ever: their ring's memory is never freed before the
  /// device.
  void keep_memory() noexcept;

 private:
  std::shared_ptr<FrameRing> ring_;
  RingAllocator::Block block_;
};

/// A ring of memory that frames are lent from: the payload ring on the device, or pinned staging
/// memory. Owns the memory through `free`, which is called when the ring and its last loan are
/// gone, unless keep_memory() passed it on through `keep` before. Thread-safe.
class FrameRing : public std::enable_shared_from_this<FrameRing> {
 public:
  using Fate = std::function<void(std::byte*)>;
  static std::shared_ptr<FrameRing> make(std::byte* memory, std::uint64_t capacity,
                                         std::uint64_t nonce, Fate free, Fate keep = {});
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  /// Null if there is no contiguous room now.
  [[nodiscard]] std::shared_ptr<FrameLoan> try_lend(std::uint64_t bytes);
  /// Blocks (without any lock of the caller's) until something was given back or the time is over.
  void wait_for_return(std::uint64_t seen_returns, std::uint64_t nanoseconds);
  [[nodiscard]] std::uint64_t returns() const;  // how often something was given back

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint64_t magic() const noexcept { return wire::kMagic ^ nonce_; }
  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t high_water() const;
  [[nodiscard]] std::uint64_t largest_free() const;
  [[nodiscard]] std::uint64_t wraps() const;

 private:
  friend class FrameLoan;
  FrameRing(std::byte* memory, std::uint64_t capacity, std::uint64_t nonce, Fate free, Fate keep);
  void give_back(std::uint64_t id);
  void keep_memory() noexcept;

  std::byte* const memory_;
  const std::uint64_t capacity_;
  const std::uint64_t nonce_;
  Fate free_, keep_;  // both empty once the memory is not ours any more
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  RingAllocator allocator_;
  std::uint64_t returns_ = 0;
};

}  // namespace graphtap
