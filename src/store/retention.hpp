#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "graphtap/store_sink.hpp"
#include "store/file_ops.hpp"
#include "store/layout.hpp"

namespace graphtap::store {

/// Removes whole segments, oldest first: those beyond the store's limits of size and age, and, on a
/// full disk, as many as a write needs. Never the segment being written, which it does not know.
/// Age is told by a clock that cannot be set; only what older processes left is dated by the wall
/// clock, once, when the store is opened. Thread-safe.
class Retention {
 public:
  using Clock = std::chrono::steady_clock;
  struct Removal {
    std::vector<std::uint64_t> segments;
    std::uint64_t bytes = 0;
    Status status;  ///< of a segment that could not be removed; it is not tried again
  };

  Retention(FileOps& ops, Layout layout, const StoreOptions& options);

  /// Whether any segment can ever be removed: only then need they be known.
  [[nodiscard]] bool wanted() const noexcept;
  /// What older runs left, dated by their files.
  void adopt(const std::vector<std::uint64_t>& segments);
  /// A segment that takes no more frames. `last_written`: by this process's clock.
  void add(std::uint64_t segment, std::uint64_t bytes, Clock::time_point last_written);

  /// Those beyond the limits. `writing_bytes`: of the segment being written, which counts.
  Removal enforce(std::uint64_t writing_bytes, Clock::time_point now);
  /// The oldest, whatever the limits.
  Removal remove_oldest();
  /// When enforce() has something to do though nothing is written.
  [[nodiscard]] std::optional<Clock::time_point> due() const;

 private:
  struct Segment {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    Clock::time_point last_written;
  };
  void remove_front(Removal& removal);

  FileOps& ops_;
  const Layout layout_;
  const std::uint64_t bytes_limit_;
  const std::chrono::seconds age_limit_;
  const bool removes_when_full_;
  mutable std::mutex mutex_;
  std::deque<Segment> segments_;  // oldest first
  std::uint64_t bytes_ = 0;       // of all of them
};

}  // namespace graphtap::store
