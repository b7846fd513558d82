#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gate/bound_graph.hpp"
#include "gate/gate_device.hpp"
#include "gate/gate_stats.hpp"
#include "gate/specialiser.hpp"
#include "graphtap/options.hpp"

namespace graphtap {

struct GateOptions {
  std::vector<std::string> hook_names;  ///< by HookId: the universe of every set
  GateTier tier = GateTier::specialised;
  std::uint32_t settle_launches = 16;
  std::uint64_t specialised_budget_bytes = 512ull << 20;
  bool manual = false;  ///< no helper thread: call pump()
};

/// All bound graphs of a monitor, and what they share. It does not own them: a graph whose owner
/// drops the handle restores its nodes and vanishes from here.
///
/// Thread-safe. Lock order: a lane's lock, then the registry's or a graph's own; never the other
/// way.
class Registry : public std::enable_shared_from_this<Registry> {
 public:
  [[nodiscard]] static std::shared_ptr<Registry> make(std::shared_ptr<Device> device,
                                                      GateOptions options);

  /// Verifies every producer again, clones the template if it is to be specialised, and keeps the
  /// graph. Never fails: what cannot be managed is left to the soft gate and shows up in totals().
  /// Under the lane's lock. Calls: an inspect a producer; cloneable, clone, a find_in_clone a
  /// producer.
  [[nodiscard]] std::shared_ptr<BoundGraph> bind(GraphBinding binding);

  /// Bound graphs of a lane in the order of binding. Drop the pointers under the lane's lock: they
  /// may have become the last.
  [[nodiscard]] std::vector<std::shared_ptr<BoundGraph>> graphs(std::uint32_t lane) const;
  /// Changes with every graph that comes or goes; one atomic load (A15).
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }

  /// The nodes changed by apply_now() calls from here on are one change
  /// (GateTotals::nodes_changed_last).
  void begin_change() noexcept { counters_->nodes_changed_last.store(0); }
  /// Without hooks' counts; O(bound graphs) for the lists only.
  [[nodiscard]] GateTotals totals() const;

  /// One job of the Specialiser, for manual mode. True if something was done.
  bool pump() { return specialiser_.pump(); }
  /// Ends the helper thread; graphs keep working with the execs they have. Idempotent.
  void close() noexcept { specialiser_.stop(); }

  /// A sticky error was met elsewhere: the gate makes no further device call.
  void device_lost() noexcept { device_->set_lost(); }
  [[nodiscard]] bool is_device_lost() const noexcept { return device_->lost(); }

 private:
  friend class BoundGraph;
  struct Entry {
    std::uint32_t lane = 0;
    std::weak_ptr<BoundGraph> graph;
    // Copies, so that totals() never holds a graph: dropping the last pointer to one touches the
    // device.
    std::string name;
    std::vector<Unmanaged> unmanaged;
    std::string unspecialised;
  };

  Registry(std::shared_ptr<Device> device, GateOptions options);
  void remove(std::uint64_t id) noexcept;
  void report(std::uint64_t id, const std::string& unspecialised);

  const GateOptions options_;
  const std::shared_ptr<GateDevice> device_;
  const std::shared_ptr<GateCounters> counters_;
  Specialiser specialiser_;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_id_ = 1;
  std::atomic<std::uint64_t> version_{1};
};

}  // namespace graphtap
