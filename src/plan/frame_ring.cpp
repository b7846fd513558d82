#include "plan/frame_ring.hpp"

#include <chrono>

namespace graphtap {

FrameLoan::~FrameLoan() { ring_->give_back(block_.id); }
std::byte* FrameLoan::data() const noexcept { return ring_->memory_ + block_.offset; }
std::uint64_t FrameLoan::magic() const noexcept { return ring_->magic(); }
void FrameLoan::keep_memory() noexcept { ring_->keep_memory(); }

std::shared_ptr<FrameRing> FrameRing::make(std::byte* memory, std::uint64_t capacity,
                                           std::uint64_t nonce, Fate free, Fate keep) {
  return std::shared_ptr<FrameRing>(
      new FrameRing(memory, capacity, nonce, std::move(free), std::move(keep)));
}

FrameRing::FrameRing(std::byte* memory, std::uint64_t capacity, std::uint64_t nonce, Fate free,
                     Fate keep)
    : memory_(memory),
      capacity_(capacity),
      nonce_(nonce),
      free_(std::move(free)),
      keep_(std::move(keep)),
      allocator_(capacity) {}

FrameRing::~FrameRing() {
  if (free_) free_(memory_);
}

std::shared_ptr<FrameLoan> FrameRing::try_lend(std::uint64_t bytes) {
  std::optional<RingAllocator::Block> block;
  {
    const std::lock_guard lock(mutex_);
    block = allocator_.allocate(bytes);
#if defined(GRAPHTAP_BUG_frame_freed_early)
    if (block) allocator_.release(block->id);
#endif
  }
  return block ? std::make_shared<FrameLoan>(shared_from_this(), *block) : nullptr;
}

void FrameRing::give_back([[maybe_unused]] std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
#if !defined(GRAPHTAP_BUG_frame_freed_early)
    allocator_.release(id);
#endif
    ++returns_;
  }
  returned_.notify_all();
}

void FrameRing::keep_memory() noexcept {
  const std::lock_guard lock(mutex_);
  if (keep_) keep_(memory_);
  free_ = keep_ = nullptr;
}

void FrameRing::wait_for_return(std::uint64_t seen_returns, std::uint64_t nanoseconds) {
  std::unique_lock lock(mutex_);
  returned_.wait_for(lock, std::chrono::nanoseconds(nanoseconds),
                     [&] { return returns_ != seen_returns; });
}

std::uint64_t FrameRing::returns() const {
  const std::lock_guard lock(mutex_);
  return returns_;
}
std::uint64_t FrameRing::used() const {
  const std::lock_guard lock(mutex_);
  return allocator_.used();
}
std::uint64_t FrameRing::high_water() const {
  const std::lock_guard lock(mutex_);
  return allocator_.high_water();
}
std::uint64_t FrameRing::largest_free() const {
  const std::lock_guard lock(mutex_);
  return allocator_.largest_free();
}
std::uint64_t FrameRing::wraps() const {
  const std::lock_guard lock(mutex_);
  return allocator_.wraps();
}

}  // namespace graphtap
