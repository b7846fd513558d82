// Room for frames: the policies, and replacing the ring.
#include <algorithm>

#include "monitor/monitor_core.hpp"
#include "plan/tickets.hpp"

namespace graphtap {

std::shared_ptr<FrameRing> MonitorCore::ring() const {
  const std::lock_guard lock(ring_mutex_);
  return ring_;
}

std::uint64_t MonitorCore::frame_limit() const {
  const auto current = ring();
  return current ? std::min({current->capacity(), staging_->capacity(), wire::kMaxFrameBytes}) : 0;
}

void MonitorCore::reserve(StepPlan& plan, FramePlan& frame, const std::vector<int>& priority) {
  frame.ticket = next_ticket();
  const std::uint32_t slots = table.slots();
  const auto shed = [&](std::uint64_t limit, GapReason reason) {
    shed_to_fit(frame, plan.kind, slots, limit, priority, reason);
  };
  lay_out(frame, plan.kind, slots);
  if (closing()) {  // a later frame of a step that was open when the monitor closed
    frame.fail(GapReason::shutdown);
    return;
  }
  if (const std::uint64_t limit = frame_limit(); frame.bytes > limit) {
    shed(limit, GapReason::shed_too_large);
  }
  if (frame.bytes == 0) return;
  auto from = ring();
  if (from) frame.loan = from->try_lend(frame.bytes);
  if (frame.loan) return;
  if (options.policy == Policy::shed || !from) {
    if (from) {
      shed(std::min(frame.bytes, from->largest_free()), GapReason::shed_ring);
      if (frame.bytes > 0) frame.loan = from->try_lend(frame.bytes);
    }
    if (!frame.loan) shed(0, GapReason::shed_ring);
    return;
  }
  const std::uint64_t begin = device->now_ns();
  wait_for_space(*from, begin + static_cast<std::uint64_t>(options.space_timeout.count()), [&] {
    const auto current = ring();  // it may be replaced meanwhile; the one waited on stays alive
    frame.loan = current ? current->try_lend(frame.bytes) : nullptr;
    return frame.loan != nullptr;
  });
  accounts.stalled(device->now_ns() - begin);
  if (frame.loan) return;
  if (closing()) {
    frame.fail(GapReason::shutdown);
  } else {
    shed(0, GapReason::shed_timeout);
  }
}

bool MonitorCore::wait_for_space(FrameRing& ring, std::uint64_t deadline_ns,
                                 const std::function<bool()>& ready) {
#if defined(GRAPHTAP_BUG_space_wait_ignores_timeout)
  deadline_ns = std::max(deadline_ns, device->now_ns() + 10'000'000'000);
#endif
  for (;;) {
    const std::uint64_t seen = ring.returns();
    if (ready()) return true;
    const std::uint64_t now = device->now_ns();
    if (now >= deadline_ns || closing() || lost()) return false;
    if (options.manual) {
      if (!pump()) device->idle();
    } else {
      // In slices: close(), and a ring that is replaced, do not give anything back to this one.
      ring.wait_for_return(seen, std::min<std::uint64_t>(deadline_ns - now, 5'000'000));
    }
  }
}

Status MonitorCore::resize_ring(std::uint64_t bytes) {
  const std::uint64_t least = frame_prologue(StepKind::graph, table.slots()) + 4096;
  if (bytes < least || bytes % wire::kAlign != 0) {
    return {Code::invalid_argument, "resize_ring: " + std::to_string(bytes) +
                                        " bytes; it must be a multiple of 16 and at least " +
                                        std::to_string(least)};
  }
  if (closing()) return {Code::unavailable, "resize_ring: the monitor is closed"};
  auto fresh = make_ring(bytes);
  if (!fresh.ok()) return fresh.status();
  const std::lock_guard lock(ring_mutex_);
  if (!ring_) return {Code::unavailable, "resize_ring: the monitor was closed meanwhile"};
  ring_high_water_ = std::max(ring_high_water_, ring_->high_water());
  ring_wraps_ += ring_->wraps();
  ring_ = std::move(fresh).value();  // frames that are out keep the old memory until they are done
  return {};
}

Stats MonitorCore::stats() {
  Stats stats;
  accounts.fill(stats);
  if (const auto current = ring()) {
    stats.ring_bytes = current->capacity();
    stats.ring_used = current->used();
    stats.ring_high_water = current->high_water();
    stats.ring_wraps = current->wraps();
  }
  {
    const std::lock_guard lock(ring_mutex_);
    stats.ring_high_water = std::max(stats.ring_high_water, ring_high_water_);
    stats.ring_wraps += ring_wraps_;
  }
  stats.staging_bytes = staging_->capacity();
  stats.staging_used = staging_->used();
  stats.steps_in_flight = outstanding.count();
  stats.switches = switches_.load(std::memory_order_relaxed);
  stats.set_version = leases->version();
  const GateTotals gate = registry->totals();
  stats.registry_version = gate.registry_version;
  stats.graphs_bound = gate.graphs_bound;
  stats.nodes_bound = gate.nodes_bound;
  stats.graphs_stale = gate.graphs_stale;
  stats.nodes_changed = gate.nodes_changed;
  stats.nodes_changed_last = gate.nodes_changed_last;
  stats.switch_errors = gate.switch_errors;
  stats.launches_short = gate.launches_short;
  stats.execs_replaced = gate.execs_replaced;
  stats.graphs_gone = gate.graphs_gone;
  stats.specialise_failures = gate.specialise_failures;
  stats.specialise_refused = gate.specialise_refused;
  stats.unspecialised = gate.unspecialised;
  stats.specialised_execs = gate.specialised_execs;
  stats.specialised_bytes = gate.specialised_bytes;
  stats.exec_swaps = gate.exec_swaps;
  stats.unmanaged = gate.unmanaged;
  stats.device_errors = drain_->device_errors();
  stats.last_device_error = drain_->last_device_error();
  if (stats.last_device_error.empty()) stats.last_device_error = gate.last_error;
  stats.device_lost = lost();
  for (const auto& sink : sinks_) stats.sinks.push_back(sink->stats());
  return stats;
}

}  // namespace graphtap
