#pragma once
#include <cstdint>
#include <vector>

#include "gate/gate_device.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// A verified producer node of a template graph.
struct ManagedNode {
  HookId hook = 0;
  Node node{};
};

/// Which producer nodes of the owner's exec are enabled, and the calls that change it.
///
/// State is kept per node, so that after a failed call only that node is unknown: it is tried again
/// by the next change, whichever way that goes. An exec that took the place of another under the
/// same handle is harmless: its nodes are all enabled, and a node wrongly believed to be off is
/// enabled before it is needed. Not thread-safe: under the lane's lock.
class NodeGate {
 public:
  enum class Extent {
    needed,  ///< enable what is wanted; leave the rest as it is
    exact,   ///< and disable what is not
  };
  struct Change {
    std::uint64_t changed = 0;
    std::uint64_t errors = 0;
    std::uint64_t lacking = 0;  ///< wanted nodes that are not known to be enabled afterwards
    Status first_error;
  };

  explicit NodeGate(std::vector<ManagedNode> nodes);

  /// The exec is another one now, on which every node is enabled.
  void forget() noexcept;

  /// Brings `exec` nearer to `wanted`: only nodes that differ are touched; after an error the
  /// others are still tried. Nothing is looked at when nothing can have changed.
  Change apply(GateDevice& device, Exec exec, const HookSet& wanted, Extent extent);
  /// Enables every node that is not known to be enabled.
  Change enable_all(GateDevice& device, Exec exec);

  [[nodiscard]] bool all_enabled() const noexcept { return not_enabled_ == 0; }
  [[nodiscard]] const std::vector<ManagedNode>& nodes() const noexcept { return nodes_; }

 private:
  enum class State : std::uint8_t { enabled, disabled, unknown };
  void set(GateDevice& device, Exec exec, std::size_t index, bool enabled, Change& change);

  std::vector<ManagedNode> nodes_;
  std::vector<State> states_;
  std::size_t not_enabled_ = 0;  // disabled or unknown
  HookSet exact_for_;            // with is_exact_: every node is known to be as this set says
  bool is_exact_ = false;
};

}  // namespace graphtap
