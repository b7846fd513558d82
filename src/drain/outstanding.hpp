#pragma once
#include <cstdint>
#include <mutex>
#include <set>

namespace graphtap {

/// Which steps were begun and not yet delivered in full. A flush, and a request's completion, wait
/// until everything begun before them is settled. Thread-safe.
class Outstanding {
 public:
  /// A step begins; returns its sequence number (rising from 1).
  std::uint64_t open() {
    const std::lock_guard lock(mutex_);
    open_.insert(++last_);
    return last_;
  }
  void settle(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    open_.erase(sequence);
  }
  [[nodiscard]] std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  /// Every step up to and including `sequence` is settled.
  [[nodiscard]] bool settled_through(std::uint64_t sequence) const {
    const std::lock_guard lock(mutex_);
    return open_.empty() || *open_.begin() > sequence;
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> open_;
  std::uint64_t last_ = 0;
};

}  // namespace graphtap
