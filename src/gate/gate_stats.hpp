#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/stats.hpp"

namespace graphtap {

/// The gate's part of Stats, and what only tests and `graphtap graph` look at.
struct GateTotals {
  std::uint64_t registry_version = 0;
  std::uint64_t graphs_bound = 0, nodes_bound = 0;  ///< nodes: managed producers
  std::uint64_t graphs_stale = 0;  ///< a node could not be brought to its state (yet)
  std::uint64_t nodes_changed = 0, nodes_changed_last = 0;
  std::uint64_t switch_errors = 0;  ///< set_enabled calls that failed
  std::uint64_t launches_short =
      0;  ///< launches that lacked a planned producer: its records are gaps
  std::uint64_t execs_replaced = 0;  ///< owner execs that were found to be replaced
  std::uint64_t graphs_gone = 0;     ///< whose owner said so while they were bound (A16)
  std::uint64_t exec_swaps = 0;      ///< launches through another exec than the launch before
  std::uint64_t specialised_execs = 0, specialised_bytes = 0;  ///< that exist now
  std::uint64_t execs_built = 0, execs_evicted = 0;
  std::uint64_t specialise_failures = 0;  ///< builds that failed
  std::uint64_t specialise_refused = 0;   ///< no room in the budget
  std::string last_error;  ///< of any device call of the gate; with the device's own name
  std::vector<Unmanaged> unmanaged;
  std::vector<Unspecialised> unspecialised;
};

/// The counters behind it, shared by all parts of one gate. Thread-safe.
struct GateCounters {
  using Counter = std::atomic<std::uint64_t>;
  Counter graphs_bound{0}, nodes_bound{0}, graphs_stale{0};
  Counter nodes_changed{0}, nodes_changed_last{0}, switch_errors{0}, launches_short{0};
  Counter execs_replaced{0}, graphs_gone{0}, exec_swaps{0};
  Counter specialised_execs{0}, specialised_bytes{0};
  Counter execs_built{0}, execs_evicted{0}, specialise_failures{0}, specialise_refused{0};
  Counter clock{0};  // rises with every launch: the age that eviction goes by

  void note_error(const Status& status) {
    const std::lock_guard lock(error_mutex_);
    last_error_ = status.message();
  }
  [[nodiscard]] std::string last_error() const {
    const std::lock_guard lock(error_mutex_);
    return last_error_;
  }

 private:
  mutable std::mutex error_mutex_;
  std::string last_error_;
};

}  // namespace graphtap
