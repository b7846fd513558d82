#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/graph/checker.hpp"
#include "cli/graph/decoder.hpp"
#include "cli/graph/traffic.hpp"
#include "cli/schedule.hpp"
#include "cli/totals.hpp"
#include "cli/watched_sink.hpp"
#include "graphtap/options.hpp"
#include "graphtap/stats.hpp"

namespace graphtap::cli {

struct GraphOptions {
  DecoderShape shape;
  Traffic::Options traffic;
  std::vector<std::uint32_t> batches{1, 2, 4, 8};  ///< rows of the captured decode steps, rising
  std::uint64_t most_steps = 0;                    ///< 0: until every request is finished
  std::uint32_t settle = 4;                        ///< launches before a graph is specialised
  Policy policy = Policy::lossless;
  EagerPolicy eager = EagerPolicy::same;
  Apply apply = Apply::at_next_launch;
  std::uint64_t ring_bytes = 16ull << 20;
};

/// What happened while one entry of the schedule held.
struct GraphPhase {
  std::uint64_t first_step = 0;
  std::string set;  ///< in words
  std::size_t hooks = 0;
  std::uint64_t graph_steps = 0, eager_steps = 0;
  std::uint64_t owner_launches = 0;  ///< of the exec that the engine made
  std::uint64_t specialised_launches = 0;
  std::size_t least_nodes = 0, most_nodes = 0;  ///< that ran in a graph launch
  double step_us = 0;                           ///< median host time of begin, prepare, launch, end
  double launch_us = 0;                         ///< of it, the device's own launch call
  CheckCounts check;
};

struct GraphTierResult {
  GateTier tier = GateTier::soft;
  std::uint64_t steps = 0;
  std::uint64_t joined = 0, finished = 0, preempted = 0;
  std::size_t graph_nodes = 0, producer_nodes = 0;  ///< of one captured decode step
  std::vector<GraphPhase> phases;
  std::vector<TotalsRow> totals;
  Stats stats;
  std::vector<std::string> examples;  ///< wrong records, in words
  Status closed;                      ///< of Monitor::close
  Status stored;                      ///< why the store lost something
  bool interrupted = false;

  [[nodiscard]] CheckCounts check() const;
};

[[nodiscard]] const char* to_string(GateTier tier) noexcept;

/// Frame bytes of the largest graph step that `schedule` can ask for.
[[nodiscard]] std::uint64_t largest_graph_step(const GraphOptions& options, const HookTable& table,
                                               const Schedule& schedule);

/// Runs the request mix on the host device's graphs under one tier. Everything goes through the
/// public Monitor API, as an engine would call it; `store` (may be null) gets what the checker
/// gets, and the run ends early if it takes nothing any more. `progress` is told the number of
/// steps after each. Errors (thrown): those of Monitor.
[[nodiscard]] GraphTierResult run_graphs(const GraphOptions& options, const HookTable& table,
                                         const Schedule& schedule, GateTier tier,
                                         const std::shared_ptr<WatchedSink>& store,
                                         const std::function<void(std::uint64_t steps)>& progress);

}  // namespace graphtap::cli
