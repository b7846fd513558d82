#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graphtap/delivery.hpp"

namespace graphtap {

/// Counts of records. At every quiescent point planned = delivered + Σ gaps (I3).
struct Counts {
  std::uint64_t planned = 0;    ///< wanted by the enabled set of a step that was planned
  std::uint64_t delivered = 0;  ///< verified and handed to the sinks
  std::uint64_t bytes = 0;      ///< payload bytes delivered
  std::array<std::uint64_t, kGapReasons> gaps{};  ///< by GapReason

  [[nodiscard]] std::uint64_t missing() const noexcept;  ///< gaps that are not sheds
  [[nodiscard]] std::uint64_t shed() const noexcept;
  [[nodiscard]] std::uint64_t gap(GapReason reason) const noexcept {
    return gaps[static_cast<std::size_t>(reason)];
  }
};

struct SinkStats {
  std::string name;
  std::uint64_t steps = 0, records = 0, bytes = 0;  ///< accepted
  std::uint64_t failures = 0;                       ///< calls that failed, retries included
  std::uint64_t lost_steps = 0, lost_records = 0;   ///< given up after the last retry
  std::uint64_t queued_steps = 0;
  std::string last_error;  ///< empty: none since the last success
};

/// A graph hook that cannot be node-gated, and why. It is still captured, through the soft gate.
struct Unmanaged {
  std::string graph;
  std::string hook;
  std::string reason;
};

/// A bound graph whose launches always go through its owner's exec, so that hooks that are off cost
/// what the soft gate (or the node gate) costs; and why.
struct Unspecialised {
  std::string graph;
  std::string reason;
};

/// A consistent picture of a monitor (requirement A17). Copies; take it as often as you like.
struct Stats {
  Counts total;
  std::vector<Counts> hooks;  ///< by HookId
  std::uint64_t steps_planned = 0, steps_empty = 0, steps_delivered = 0;
  std::uint64_t ring_bytes = 0, ring_used = 0, ring_high_water = 0;
  std::uint64_t ring_wraps = 0;  ///< how often the ring began again at its start
  std::uint64_t staging_bytes = 0, staging_used = 0;
  std::uint64_t steps_in_flight = 0;  ///< ended or open, not yet delivered: the drain lag in steps
  std::uint64_t drain_lag_ns_last = 0;       ///< end of a step seen → handed to the sinks
  std::uint64_t stalls = 0, stalled_ns = 0;  ///< waits of the planner for space
  std::uint64_t switches = 0;                ///< changes of the desired set
  std::uint64_t set_version = 0, registry_version = 0;
  std::uint64_t graphs_bound = 0, nodes_bound = 0, graphs_stale = 0;
  std::uint64_t nodes_changed_last = 0;  ///< by the last catch-up or apply_now
  std::uint64_t nodes_changed = 0, switch_errors = 0;
  std::uint64_t launches_short =
      0;  ///< launches that lacked a planned producer: its records are gaps
  std::uint64_t execs_replaced = 0;  ///< owner execs that were found to be replaced
  std::uint64_t graphs_gone = 0;     ///< whose owner said so while they were bound (A16)
  std::uint64_t specialised_execs = 0, specialised_bytes = 0, exec_swaps = 0;
  std::uint64_t specialise_failures = 0,
                specialise_refused = 0;  ///< builds that failed; no room in the budget
  std::uint64_t device_errors = 0;
  std::string last_device_error;
  bool device_lost = false;
  std::vector<Unmanaged> unmanaged;
  std::vector<Unspecialised> unspecialised;
  std::vector<SinkStats> sinks;
};

}  // namespace graphtap
