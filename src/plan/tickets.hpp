#pragma once
#include <atomic>
#include <cstdint>

namespace graphtap {

/// Tickets name frames. One counter for the whole process, so that no two lanes, monitors or rings
/// ever share one: a record left over from another frame can never pass for the one that was
/// planned.
inline std::uint64_t next_ticket() noexcept {
  static std::atomic<std::uint64_t> counter{1};
#if defined(GRAPHTAP_BUG_ticket_per_lane)
  thread_local std::uint64_t local = 0;
  return ++local % 4 + 1;
#else
  return counter.fetch_add(1, std::memory_order_relaxed);
#endif
}

}  // namespace graphtap
