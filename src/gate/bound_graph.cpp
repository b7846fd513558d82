#include "gate/bound_graph.hpp"

#include <fmt/format.h>

#include <exception>
#include <set>
#include <utility>

#include "gate/registry.hpp"

namespace graphtap {

BoundGraph::BoundGraph(std::shared_ptr<Registry> registry, GraphBinding binding)
    : registry_(std::move(registry)),
      lane_(binding.lane),
      name_(std::move(binding.options.name)),
      options_(std::move(binding.options)),
      owner_exec_(binding.exec),
      nodes_({}) {
  verify(binding.producers, binding.graph);
  if (owner_exec_ == Exec{} && !options_.current_exec) {
    lose_graph("it was bound without an exec");
    return;
  }
  make_clone(binding.graph);
  GateCounters& counters = *registry_->counters_;
  counters.graphs_bound.fetch_add(1);
  counters.nodes_bound.fetch_add(nodes_.nodes().size());
  counted_ = true;
}

BoundGraph::~BoundGraph() {
  launched();  // nobody launches any more
  try {
    (void)restore();  // what could not be enabled has been counted
  } catch (const std::exception&) {
    // Out of memory while saying what went wrong: nothing is left to do here.
  }
  set_stale(false);
}

void BoundGraph::verify(const std::vector<RecordedProducer>& producers, Graph graph) {
  const std::vector<std::string>& names = registry_->options_.hook_names;
  std::set<HookId> seen, doubtful;
  for (const RecordedProducer& producer : producers) {
    const HookId hook = producer.id.hook;
    std::string reason = producer.reason;
    if (graph == Graph{}) {
      reason = "its template graph was freed";
    } else if (producer.managed) {
      reason = why_unverified(registry_->device_->inspect(graph, producer.node), producer.id,
                              producer.header);
    }
    if (hook < names.size()) seen.insert(hook);
    if (reason.empty() || !doubtful.insert(hook).second) continue;
    unmanaged_.push_back(
        {name_, hook < names.size() ? names[hook] : fmt::format("hook {}", hook), reason});
  }
  std::vector<ManagedNode> nodes;
  std::set<HookId> managed;
  for (const RecordedProducer& producer : producers) {
    const HookId hook = producer.id.hook;
    if (doubtful.contains(hook) || !seen.contains(hook)) continue;
    managed.insert(hook);
    nodes.push_back({hook, producer.node});
  }
  const auto to_set = [&](const std::set<HookId>& ids) {
    return HookSet::of(names.size(), std::vector<HookId>(ids.begin(), ids.end()));
  };
  hooks_ = to_set(seen);
  managed_ = to_set(managed);
  plan_part_ = HookSet::none(names.size());
  nodes_ = NodeGate(std::move(nodes));
}

void BoundGraph::make_clone(Graph graph) {
  const GateOptions& gate = registry_->options_;
  if (gate.tier != GateTier::specialised || hooks_.empty()) return;
  if (managed_.empty()) {
    unspecialised_ = "none of its producers could be verified";
    return;
  }
  if (options_.keep_owner_exec) {
    unspecialised_ = "its launches must go through its owner's exec";
    return;
  }
  Status status = registry_->device_->cloneable(graph);
  if (status.ok()) {
    const auto clone =
        PrivateClone::make(registry_->device_, graph, options_.instantiate_flags, nodes_.nodes());
    if (clone.ok()) {
      specialised_ = std::make_shared<SpecialisedExecs>(
          registry_->device_, registry_->counters_, clone.value(), managed_, gate.settle_launches);
      registry_->specialiser_.add(specialised_);
      return;
    }
    status = clone.status();
  }
  unspecialised_ = status.message();
}

Exec BoundGraph::prepare(const HookSet& plan_set) {
  if (!ask_owner()) return hand_out(Exec{});
  GateDevice& device = *registry_->device_;
  if (device.lost()) return hand_out(owner_exec_);
  if (!switching_) {
    if (!nodes_.all_enabled()) {
      catch_up(nodes_.enable_all(device, owner_exec_), NodeGate::Extent::needed, true);
    }
    return hand_out(owner_exec_);
  }
  if (plan_set_ != plan_set) {
    plan_part_ = managed_part(plan_set);
    plan_set_ = plan_set;
  }
  Exec exec{};
  if (specialised_) {
    const SpecialisedExecs::Choice choice = specialised_->choose(plan_part_);
    if (choice.wants_job) registry_->specialiser_.enqueue(specialised_);
    exec = choice.exec;
  }
  const bool through_owner = exec == Exec{};
  if (through_owner || stale_) {
    using Extent = NodeGate::Extent;
    const bool exact =
        registry_->options_.tier == GateTier::node || (stale_ && owed_ == Extent::exact);
    const Extent extent = exact ? Extent::exact : Extent::needed;
    catch_up(nodes_.apply(device, owner_exec_, plan_part_, extent), extent, through_owner);
  }
  return hand_out(through_owner ? owner_exec_ : exec);
}

void BoundGraph::launched() noexcept {
  if (specialised_) specialised_->launched();
}

Status BoundGraph::apply_now(const HookSet& desired) {
  if (registry_->options_.tier == GateTier::soft || !switching_ || !ask_owner()) return {};
  const NodeGate::Change change = nodes_.apply(*registry_->device_, owner_exec_,
                                               managed_part(desired), NodeGate::Extent::exact);
  account(change, NodeGate::Extent::exact);
  registry_->counters_->nodes_changed_last.fetch_add(change.changed);
  return change.first_error;
}

Status BoundGraph::restore() {
  stop_switching();
  registry_->remove(id_);
  if (nodes_.all_enabled() || !ask_owner()) return {};
#if defined(GRAPHTAP_BUG_clear_without_reenable)
  nodes_.forget();
#endif
  const NodeGate::Change change = nodes_.enable_all(*registry_->device_, owner_exec_);
  account(change, NodeGate::Extent::needed);
  return change.first_error;
}

bool BoundGraph::ask_owner() {
  if (gone_) return false;
  if (!options_.current_exec) return true;
  Exec exec{};
  std::string why = "its owner says that it is gone";
  try {
    exec = options_.current_exec();
  } catch (const std::exception& error) {
    why = fmt::format("asking for its exec failed: {}", error.what());
  }
  if (exec == Exec{}) {
    lose_graph(why);
    return false;
  }
#if defined(GRAPHTAP_BUG_replaced_exec_not_noticed)
  if (owner_exec_ != Exec{}) return true;
#endif
  if (exec != owner_exec_) {
    if (owner_exec_ != Exec{}) registry_->counters_->execs_replaced.fetch_add(1);
    owner_exec_ = exec;
    nodes_.forget();  // on a new exec every node is enabled
    set_stale(false);
  }
  return true;
}

void BoundGraph::lose_graph(const std::string& why) {
  gone_ = true;
  unspecialised_ = why;
  // Its nodes and the memory that its kernels use went with it: no exec is touched or launched any
  // more.
  owner_exec_ = {};
  nodes_.forget();
  set_stale(false);
  launched();
  stop_switching();
  registry_->counters_->graphs_gone.fetch_add(1);
  registry_->report(id_, why);
}

void BoundGraph::stop_switching() {
  switching_ = false;
  if (specialised_) specialised_->close();
  if (!std::exchange(counted_, false)) return;
  GateCounters& counters = *registry_->counters_;
  counters.graphs_bound.fetch_sub(1);
  counters.nodes_bound.fetch_sub(nodes_.nodes().size());
}

void BoundGraph::catch_up(const NodeGate::Change& change, NodeGate::Extent extent, bool launches) {
  account(change, extent);
  GateCounters& counters = *registry_->counters_;
  if (change.changed > 0) counters.nodes_changed_last.store(change.changed);
  if (launches && change.lacking > 0) counters.launches_short.fetch_add(1);
}

void BoundGraph::account(const NodeGate::Change& change, NodeGate::Extent extent) {
  GateCounters& counters = *registry_->counters_;
  if (change.changed > 0) counters.nodes_changed.fetch_add(change.changed);
  if (change.errors > 0) {
    counters.switch_errors.fetch_add(change.errors);
    counters.note_error(change.first_error);
    owed_ = extent;
  }
  set_stale(change.errors > 0);
}

void BoundGraph::set_stale(bool stale) noexcept {
  if (std::exchange(stale_, stale) == stale) return;
  if (stale) {
    registry_->counters_->graphs_stale.fetch_add(1);
  } else {
    registry_->counters_->graphs_stale.fetch_sub(1);
  }
}

HookSet BoundGraph::managed_part(const HookSet& set) const {
  if (set.universe() == managed_.universe()) return set & managed_;
  // A set over another table is a caller's mistake: keep everything, so that no record is lost to
  // it.
  return set.empty() ? HookSet::none(managed_.universe()) : managed_;
}

Exec BoundGraph::hand_out(Exec exec) noexcept {
  if (exec != last_exec_ && last_exec_ != Exec{}) registry_->counters_->exec_swaps.fetch_add(1);
  last_exec_ = exec;
  return exec;
}

}  // namespace graphtap
