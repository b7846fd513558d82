#include "gate/node_gate.hpp"

#include <algorithm>
#include <utility>

namespace graphtap {

NodeGate::NodeGate(std::vector<ManagedNode> nodes)
    : nodes_(std::move(nodes)), states_(nodes_.size(), State::enabled) {}

void NodeGate::forget() noexcept {
  std::fill(states_.begin(), states_.end(), State::enabled);
  not_enabled_ = 0;
  is_exact_ = false;
}

NodeGate::Change NodeGate::apply(GateDevice& device, Exec exec, const HookSet& wanted,
                                 Extent extent) {
  Change change;
  if (extent == Extent::needed && not_enabled_ == 0) return change;
  if (is_exact_ && exact_for_ == wanted) return change;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool on = wanted.contains(nodes_[i].hook);
    if (on || extent == Extent::exact) set(device, exec, i, on, change);
    if (on && states_[i] != State::enabled) ++change.lacking;
  }
  is_exact_ = extent == Extent::exact && change.errors == 0;
  if (is_exact_) exact_for_ = wanted;
  return change;
}

NodeGate::Change NodeGate::enable_all(GateDevice& device, Exec exec) {
  Change change;
  if (not_enabled_ == 0) return change;
  is_exact_ = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) set(device, exec, i, true, change);
  change.lacking = not_enabled_;
  return change;
}

void NodeGate::set(GateDevice& device, Exec exec, std::size_t index, bool enabled, Change& change) {
  State& state = states_[index];
  State next = enabled ? State::enabled : State::disabled;
  if (state == next) return;
  const Status status = device.set_enabled(exec, nodes_[index].node, enabled);
  if (status.ok()) {
    ++change.changed;
  } else {
    if (change.errors++ == 0) change.first_error = status;
#if !defined(GRAPHTAP_BUG_applied_version_advances_on_failure)
    next = State::unknown;
#endif
  }
  if (state == State::enabled) ++not_enabled_;
  if (next == State::enabled) --not_enabled_;
  state = next;
}

}  // namespace graphtap
