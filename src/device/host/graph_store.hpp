#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/host/executor.hpp"
#include "device/host/node.hpp"

namespace graphtap {

/// A template: a graph as captured or cloned.
struct GraphState {
  std::vector<NodeData> nodes;  // in the order of their capture
  std::vector<GraphEdge> edges;
  std::unordered_map<Node, std::size_t> index;  // where in `nodes`
  std::unordered_map<Node, Node> clone_of;      // original → ours; only in clones
  Graph original{};                             // what it was cloned from
  bool building = false;                        // still being captured
  std::size_t execs = 0;

  [[nodiscard]] const NodeData* find(Node node) const;
};

/// An exec: a snapshot of its template, with an enable bit a node.
struct ExecState {
  Graph source{};
  std::shared_ptr<const CompiledGraph> graph;
  std::unordered_map<Node, std::uint32_t> index;  // by the template's node
  std::vector<std::uint8_t> enabled;
  PointRef last;  // behind its latest launch: the next one starts there
};

/// The graphs and execs of a device. Not thread-safe: the device holds its lock.
class GraphStore {
 public:
  Graph create();  // empty, building
  [[nodiscard]] GraphState* find(Graph graph);
  [[nodiscard]] const GraphState* find(Graph graph) const;
  [[nodiscard]] Result<GraphState*> need(Graph graph);  // find(), or an error that says so
  Node add(GraphState& graph, NodeBody body, std::span<const Node> dependencies);
  /// Takes it out, so that what its kernels hold is released where no lock is held.
  GraphState take(Graph graph);

  [[nodiscard]] Result<NodeInfo> inspect(Graph graph, Node node);
  [[nodiscard]] Status cloneable(Graph graph);
  Result<Graph> clone(Graph graph);
  [[nodiscard]] Result<Node> find_in_clone(Graph clone, Node original);
  Status remove_node(Graph graph, Node node);
  Status make_programmatic(Graph graph, Node from, Node to);
  Status rewrite(Graph graph, Node node, const ProducerCall& call);

  Result<Exec> instantiate(Graph graph);
  [[nodiscard]] Result<std::shared_ptr<ExecState>> need(Exec exec) const;
  std::shared_ptr<ExecState> take(Exec exec);
  /// Where `node` is in the exec. Errors, as CUDA's: its template is gone, or the node is not in
  /// it.
  [[nodiscard]] Result<std::uint32_t> place(const ExecState& exec, Node node) const;
  Status set_enabled(Exec exec, Node node, bool enabled);
  Status rewrite(Exec exec, Node node, const ProducerCall& call);

  [[nodiscard]] std::size_t graphs() const noexcept { return graphs_.size(); }
  [[nodiscard]] std::size_t execs() const noexcept { return execs_.size(); }

 private:
  std::unordered_map<Graph, GraphState> graphs_;
  std::unordered_map<Exec, std::shared_ptr<ExecState>> execs_;
  std::uintptr_t next_ = 1;  // graphs, nodes and execs share it: a mixed-up handle is never valid
};

}  // namespace graphtap
