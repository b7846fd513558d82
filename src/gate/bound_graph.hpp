#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gate/gate_device.hpp"
#include "gate/gate_stats.hpp"
#include "gate/node_gate.hpp"
#include "gate/recorded_producer.hpp"
#include "gate/specialised_execs.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/options.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

class Registry;

/// What a graph is bound with: its owner's handles and what was recorded when it was captured.
struct GraphBinding {
  std::uint32_t lane = 0;
  Graph graph{};  ///< 0: its template was freed, so the soft gate alone serves it (A16)
  Exec exec{};
  BindOptions options;
  std::vector<RecordedProducer> producers;  ///< CaptureRecorder::take(graph)
};

/// A captured graph that is switched: its owner's template and exec, the producers found in it, the
/// state of their nodes, and the execs specialised from it. Made by Registry::bind.
///
/// Thread-safety: calls must be serialised by the lane's lock; hooks(), name() and managed() may be
/// read freely. The last owner drops the handle while nobody launches the graph: that enables its
/// nodes again.
/// Owner's duties: the template and, unless current_exec is given, the exec outlive the handle;
/// current_exec may be asked when the handle goes, too. An owner that changes its exec's parameters
/// after instantiating it binds with keep_owner_exec: a specialised exec would not see the change.
class BoundGraph {
 public:
  ~BoundGraph();
  BoundGraph(const BoundGraph&) = delete;
  BoundGraph& operator=(const BoundGraph&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t lane() const noexcept { return lane_; }
  /// Hooks with a producer in this graph, as far as it was captured through the lane.
  [[nodiscard]] const HookSet& hooks() const noexcept { return hooks_; }
  /// Those whose every producer could be verified: they can be disabled and removed.
  [[nodiscard]] const HookSet& managed() const noexcept { return managed_; }

  /// The exec to launch for a step planned with `plan_set` (the plan's set, never the desired one):
  /// every producer in it will fire. It is good until the next prepare() of this graph.
  ///
  /// Returns the smallest specialised exec that holds the set, or else the owner's, its nodes
  /// brought up to date first: those that the set needs in every tier; with GateTier::node those
  /// outside the set are disabled too. A node that could not be enabled makes the launch short (its
  /// records become gaps) and the graph stale, which is tried again at the next call (A7). Returns
  /// 0 if current_exec() did (or threw): the graph is gone and there is nothing of ours to launch;
  /// an owner who replays something anyway is served by the soft gate (A16).
  [[nodiscard]] Exec prepare(const HookSet& plan_set);
  /// What prepare() returned has been launched. Optional: without it that exec is kept until the
  /// next prepare() or the end of this object.
  void launched() noexcept;

  /// Flips the nodes of the owner's exec to `desired` now, only those that differ. Ok and without
  /// effect for GateTier::soft, which never touches a graph object, and for a graph that was
  /// restored or is gone. Errors: the first one of the device; the other nodes are still tried and
  /// the graph is stale.
  Status apply_now(const HookSet& desired);

  /// Ends switching: enables every node that was disabled (A13), destroys the clone and the
  /// specialised execs. Later prepare() calls return the owner's exec. Idempotent. Errors: the
  /// device's; nodes that could not be enabled are tried again by prepare() and at the end.
  Status restore();

  [[nodiscard]] bool gone() const noexcept { return gone_; }
  [[nodiscard]] bool stale() const noexcept { return stale_; }
  /// Why it is never specialised; empty if it is.
  [[nodiscard]] const std::string& unspecialised() const noexcept { return unspecialised_; }

 private:
  friend class Registry;
  BoundGraph(std::shared_ptr<Registry> registry, GraphBinding binding);
  void verify(const std::vector<RecordedProducer>& producers, Graph graph);
  void make_clone(Graph graph);
  [[nodiscard]] bool ask_owner();  // false: gone
  void lose_graph(const std::string& why);
  void stop_switching();
  void catch_up(const NodeGate::Change& change, NodeGate::Extent extent, bool launches);
  void account(const NodeGate::Change& change, NodeGate::Extent extent);
  void set_stale(bool stale) noexcept;
  [[nodiscard]] HookSet managed_part(const HookSet& set) const;
  Exec hand_out(Exec exec) noexcept;

  const std::shared_ptr<Registry> registry_;
  const std::uint32_t lane_;
  const std::string name_;
  const BindOptions options_;
  HookSet hooks_, managed_;
  std::vector<Unmanaged> unmanaged_;
  std::string unspecialised_;

  Exec owner_exec_;
  NodeGate nodes_;
  std::shared_ptr<SpecialisedExecs> specialised_;  // null: never
  HookSet plan_set_, plan_part_;                   // of the last prepare(), and its managed part
  Exec last_exec_{};
  std::uint64_t id_ = 0;  // in the registry
  bool switching_ = true, gone_ = false, stale_ = false, counted_ = false;
  NodeGate::Extent owed_ = NodeGate::Extent::needed;  // what a stale graph is tried again with
};

}  // namespace graphtap
