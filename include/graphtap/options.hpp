#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "graphtap/delivery.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/sink.hpp"

namespace graphtap {

/// What happens when a step finds no room in the ring.
enum class Policy : std::uint8_t {
  lossless,  ///< the planner waits, up to `space_timeout`; then the step is shed with a gap
  shed,      ///< the step captures fewer hooks or none, by priority
};
/// What an eager step captures.
enum class EagerPolicy : std::uint8_t {
  same,  ///< the enabled set
  all,   ///< every active hook (the original's prefill passthrough)
  none,
};
/// How hooks that are off are kept from costing anything in a graph.
enum class GateTier : std::uint8_t {
  soft,         ///< the plan says OFF; graph objects are never touched
  node,         ///< also disable their nodes on the bound exec, before its next launch
  specialised,  ///< also build execs without them once a set has settled
};
enum class Apply : std::uint8_t {
  at_next_launch,  ///< each graph catches up before its own next replay
  now,             ///< every bound exec is flipped before the call returns (node gate)
};

struct MonitorOptions {
  HookSet active;         ///< default: every installed hook
  std::string selection;  ///< of the default lease; "" = all active, "none" = nothing (A3)
  std::uint64_t ring_bytes = 256ull << 20;  ///< payload ring on the device
  std::uint64_t staging_bytes = 0;          ///< pinned host memory; 0: as ring_bytes
  std::uint32_t header_slots = 64;          ///< pinned headers a lane: steps that may be in flight
  std::uint32_t max_gather_rows = 8192;     ///< row-list entries a header holds
  Policy policy = Policy::lossless;
  std::chrono::nanoseconds space_timeout = std::chrono::seconds(10);
  EagerPolicy eager = EagerPolicy::same;
  bool switching = true;  ///< false: every active hook captures always (A2)
  GateTier tier = GateTier::specialised;
  std::uint32_t settle_launches = 16;  ///< launches with one set before a graph is specialised
  std::uint64_t specialised_budget_bytes = 512ull << 20;
  Ranks ranks;
  RetryPolicy retry;
  std::uint64_t sink_queue_bytes = 0;  ///< per sink; 0: half of the staging memory
  bool manual = false;                 ///< no threads: the owner calls pump() (deterministic tests)
};

/// What `bind` is told of a graph.
struct BindOptions {
  std::string name;  ///< for statistics, e.g. "decode[8]"
  /// The exec that its owner launches now; asked before each launch, by Apply::now, and when the
  /// handle goes, so that a replaced exec is noticed. Must not call the monitor. A new exec that
  /// CUDA put at the address of the one it replaces cannot be told from it: all its nodes are
  /// enabled, so every record is right, but a hook that the node gate believes to be disabled costs
  /// an empty kernel until it is switched again. Returning 0 says that the graph is gone (A16): the
  /// soft gate serves what still replays.
  std::function<Exec()> current_exec;
  std::uint64_t instantiate_flags = 0;  ///< those the owner used
  /// Launches must go through the owner's exec: it has RNG state or allocations, or its parameters
  /// were changed after it was instantiated.
  bool keep_owner_exec = false;
};

}  // namespace graphtap
