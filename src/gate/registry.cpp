#include "gate/registry.hpp"

#include <utility>

namespace graphtap {

Registry::Registry(std::shared_ptr<Device> device, GateOptions options)
    : options_(std::move(options)),
      device_(std::make_shared<GateDevice>(std::move(device))),
      counters_(std::make_shared<GateCounters>()),
      specialiser_(device_, counters_, options_.specialised_budget_bytes,
                   options_.manual || options_.tier != GateTier::specialised) {}

std::shared_ptr<Registry> Registry::make(std::shared_ptr<Device> device, GateOptions options) {
  return std::shared_ptr<Registry>(new Registry(std::move(device), std::move(options)));
}

std::shared_ptr<BoundGraph> Registry::bind(GraphBinding binding) {
  const std::uint32_t lane = binding.lane;
  const std::shared_ptr<BoundGraph> graph(new BoundGraph(shared_from_this(), std::move(binding)));
  const std::lock_guard lock(mutex_);
  graph->id_ = next_id_++;
  entries_.emplace(graph->id_,
                   Entry{lane, graph, graph->name_, graph->unmanaged_, graph->unspecialised_});
  version_.fetch_add(1, std::memory_order_release);
  return graph;
}

std::vector<std::shared_ptr<BoundGraph>> Registry::graphs(std::uint32_t lane) const {
  std::vector<std::shared_ptr<BoundGraph>> graphs;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.lane != lane) continue;
    if (auto graph = entry.graph.lock()) graphs.push_back(std::move(graph));
  }
  return graphs;
}

GateTotals Registry::totals() const {
  const GateCounters& from = *counters_;
  GateTotals totals;
  totals.registry_version = version();
  totals.graphs_bound = from.graphs_bound;
  totals.nodes_bound = from.nodes_bound;
  totals.graphs_stale = from.graphs_stale;
  totals.nodes_changed = from.nodes_changed;
  totals.nodes_changed_last = from.nodes_changed_last;
  totals.switch_errors = from.switch_errors;
  totals.launches_short = from.launches_short;
  totals.execs_replaced = from.execs_replaced;
  totals.graphs_gone = from.graphs_gone;
  totals.exec_swaps = from.exec_swaps;
  totals.specialised_execs = from.specialised_execs;
  totals.specialised_bytes = from.specialised_bytes;
  totals.execs_built = from.execs_built;
  totals.execs_evicted = from.execs_evicted;
  totals.specialise_failures = from.specialise_failures;
  totals.specialise_refused = from.specialise_refused;
  totals.last_error = from.last_error();
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    totals.unmanaged.insert(totals.unmanaged.end(), entry.unmanaged.begin(), entry.unmanaged.end());
    if (!entry.unspecialised.empty()) {
      totals.unspecialised.push_back({entry.name, entry.unspecialised});
    }
  }
  return totals;
}

void Registry::remove(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  if (entries_.erase(id) > 0) version_.fetch_add(1, std::memory_order_release);
}

void Registry::report(std::uint64_t id, const std::string& unspecialised) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return;
  entry->second.unspecialised = unspecialised;
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace graphtap
