#include "device/host/node.hpp"

#include <unordered_map>

namespace graphtap {

std::shared_ptr<CompiledGraph> compile(const std::vector<NodeData>& nodes,
                                       const std::vector<GraphEdge>& edges) {
  auto graph = std::make_shared<CompiledGraph>();
  graph->nodes = nodes;
  graph->successors.resize(nodes.size());
  graph->predecessors.resize(nodes.size());
  std::unordered_map<Node, std::uint32_t> index;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) index[nodes[i].id] = i;
  for (const GraphEdge& edge : edges) {
    graph->successors[index.at(edge.from)].push_back(index.at(edge.to));
    ++graph->predecessors[index.at(edge.to)];
  }
  return graph;
}

GraphWalk::GraphWalk(std::shared_ptr<const CompiledGraph> graph)
    : graph_(std::move(graph)), missing_(graph_->predecessors) {
  for (std::uint32_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0) ready_.push_back(i);
  }
}

std::uint32_t GraphWalk::take(const std::function<std::size_t(std::size_t)>& choose) {
  const std::size_t pick = ready_.size() == 1 ? 0 : choose(ready_.size());
  const std::uint32_t node = ready_[pick];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(pick));
  for (const std::uint32_t next : graph_->successors[node]) {
    if (--missing_[next] == 0) ready_.push_back(next);
  }
  return node;
}

}  // namespace graphtap
