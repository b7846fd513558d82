#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "gate/gate_device.hpp"
#include "gate/node_gate.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// Our copy of a template graph, made when it was bound: what specialised execs are built from, so
/// that the owner's template is never touched by another thread than the one that bound it.
///
/// Immutable; build() must not run twice at once (CUDA serialises per graph). Destroys the clone.
class PrivateClone {
 public:
  /// Errors: the device's (unsupported for graphs it cannot clone).
  static Result<std::shared_ptr<PrivateClone>> make(std::shared_ptr<GateDevice> device, Graph graph,
                                                    std::uint64_t instantiate_flags,
                                                    const std::vector<ManagedNode>& nodes);
  ~PrivateClone();
  PrivateClone(const PrivateClone&) = delete;
  PrivateClone& operator=(const PrivateClone&) = delete;

  /// An exec with every node but the managed producers of hooks outside `keep`. The caller owns it.
  /// Milliseconds for large graphs.
  [[nodiscard]] Result<Exec> build(const HookSet& keep) const;

 private:
  PrivateClone(std::shared_ptr<GateDevice> device, Graph graph, std::uint64_t flags);
  const std::shared_ptr<GateDevice> device_;
  const Graph graph_;
  const std::uint64_t flags_;
  std::vector<ManagedNode> nodes_;  // of the clone
};

}  // namespace graphtap
