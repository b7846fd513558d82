#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "graphtap/stats.hpp"
#include "plan/step_plan.hpp"

namespace graphtap {

/// The one place where records are counted (I3). Thread-safe.
class Accounts {
 public:
  explicit Accounts(std::size_t hooks) : hooks_(hooks) {}

  void planned(const StepPlan& plan);
  void delivered(HookId hook, std::uint64_t bytes);
  void gap(HookId hook, GapReason reason);
  void step_delivered();
  void step_empty() noexcept { empty_.fetch_add(1, std::memory_order_relaxed); }
  void drain_lag(std::uint64_t nanoseconds);
  void stalled(std::uint64_t nanoseconds);

  /// Adds what is counted here to a picture.
  void fill(Stats& stats) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Counts> hooks_;
  std::uint64_t steps_planned_ = 0, steps_delivered_ = 0;
  std::uint64_t lag_ns_ = 0, stalls_ = 0, stalled_ns_ = 0;
  std::atomic<std::uint64_t> empty_{0};
};

}  // namespace graphtap
