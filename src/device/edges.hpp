#pragma once
#include <functional>
#include <vector>

#include "graphtap/handles.hpp"

namespace graphtap {

struct GraphEdge {
  Node from{};
  Node to{};
  bool programmatic = false;  ///< CUDA's programmatic dependent launch, else a full edge
  friend bool operator==(const GraphEdge&, const GraphEdge&) = default;
};

/// The edges that are left when `node` leaves the graph: the same order among the other nodes, and
/// no new edge that a path of full edges already implies.
///
/// A new edge predecessor → successor is programmatic only if the predecessor is a kernel, node →
/// successor was programmatic and predecessor → node was not; else it is a full edge. (An edge that
/// exists already and is weaker than the new one becomes full.)
[[nodiscard]] std::vector<GraphEdge> without_node(const std::vector<GraphEdge>& edges, Node node,
                                                  const std::function<bool(Node)>& is_kernel);

/// Whether a path of at least one edge leads from `from` to `to`.
[[nodiscard]] bool reaches(const std::vector<GraphEdge>& edges, Node from, Node to);

}  // namespace graphtap
