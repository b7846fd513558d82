#include "drain/accounts.hpp"

namespace graphtap {

void Accounts::planned(const StepPlan& plan) {
  const std::lock_guard lock(mutex_);
  ++steps_planned_;
  for (const FramePlan& frame : plan.frames) {
    for (const PlannedRecord& record : frame.records) ++hooks_[record.hook].planned;
    for (const PlannedRecord& record : frame.shed) ++hooks_[record.hook].planned;
  }
}

void Accounts::delivered(HookId hook, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++hooks_[hook].delivered;
  hooks_[hook].bytes += bytes;
}

void Accounts::gap(HookId hook, GapReason reason) {
#if defined(GRAPHTAP_BUG_lost_gap)
  if (reason == GapReason::shed_ring) return;
#endif
  const std::lock_guard lock(mutex_);
  ++hooks_[hook].gaps[static_cast<std::size_t>(reason)];
}

void Accounts::step_delivered() {
  const std::lock_guard lock(mutex_);
  ++steps_delivered_;
}
void Accounts::drain_lag(std::uint64_t nanoseconds) {
  const std::lock_guard lock(mutex_);
  lag_ns_ = nanoseconds;
}
void Accounts::stalled(std::uint64_t nanoseconds) {
  const std::lock_guard lock(mutex_);
  ++stalls_;
  stalled_ns_ += nanoseconds;
}

void Accounts::fill(Stats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.hooks = hooks_;
  stats.total = {};
  for (const Counts& hook : hooks_) {
    stats.total.planned += hook.planned;
    stats.total.delivered += hook.delivered;
    stats.total.bytes += hook.bytes;
    for (std::size_t i = 0; i < kGapReasons; ++i) stats.total.gaps[i] += hook.gaps[i];
  }
  stats.steps_planned = steps_planned_;
  stats.steps_delivered = steps_delivered_;
  stats.steps_empty = empty_.load(std::memory_order_relaxed);
  stats.drain_lag_ns_last = lag_ns_;
  stats.stalls = stalls_;
  stats.stalled_ns = stalled_ns_;
}

std::uint64_t Counts::missing() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kGapReasons; ++i) {
    if (!is_shed(static_cast<GapReason>(i))) sum += gaps[i];
  }
  return sum;
}
std::uint64_t Counts::shed() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kGapReasons; ++i) {
    if (is_shed(static_cast<GapReason>(i))) sum += gaps[i];
  }
  return sum;
}

const char* to_string(GapReason reason) noexcept {
  switch (reason) {
    case GapReason::not_fired:
      return "not_fired";
    case GapReason::fired_twice:
      return "fired_twice";
    case GapReason::wrong_head:
      return "wrong_head";
    case GapReason::capture:
      return "capture";
    case GapReason::aborted:
      return "aborted";
    case GapReason::device_error:
      return "device_error";
    case GapReason::device_lost:
      return "device_lost";
    case GapReason::shutdown:
      return "shutdown";
    case GapReason::source_too_small:
      return "source_too_small";
    case GapReason::mismatch:
      return "mismatch";
    case GapReason::shed_ring:
      return "shed_ring";
    case GapReason::shed_timeout:
      return "shed_timeout";
    case GapReason::shed_too_large:
      return "shed_too_large";
    case GapReason::shed_headers:
      return "shed_headers";
  }
  return "unknown";
}

}  // namespace graphtap
