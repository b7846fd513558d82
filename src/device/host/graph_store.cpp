#include "device/host/graph_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/edges.hpp"

namespace graphtap {
namespace {

Status no_graph(Graph graph) {
  return {Code::invalid_argument,
          fmt::format("cudaErrorInvalidValue: graph {} was destroyed or never was",
                      std::uintptr_t(graph))};
}
Status no_node(Graph graph, Node node) {
  return {Code::invalid_argument, fmt::format("cudaErrorInvalidValue: node {} is not in graph {}",
                                              std::uintptr_t(node), std::uintptr_t(graph))};
}
Status still_capturing(Graph graph) {
  return {Code::invalid_argument,
          fmt::format("cudaErrorStreamCaptureUnmatched: graph {} is being captured",
                      std::uintptr_t(graph))};
}
Status no_producer(Node node) {
  return {Code::invalid_argument,
          fmt::format("cudaErrorInvalidValue: node {} is not a producer", std::uintptr_t(node))};
}

bool has_kind(const std::vector<NodeData>& nodes, NodeKind kind) {
  return std::any_of(nodes.begin(), nodes.end(), [kind](const NodeData& node) {
    if (kind_of(node.body) == kind) return true;
    const auto* child = std::get_if<ChildBody>(&node.body.what);
    return child && has_kind(child->graph->nodes, kind);
  });
}

}  // namespace

const NodeData* GraphState::find(Node node) const {
  const auto found = index.find(node);
  return found == index.end() ? nullptr : &nodes[found->second];
}

Graph GraphStore::create() {
  const Graph graph{next_++};
  graphs_[graph].building = true;
  return graph;
}

GraphState* GraphStore::find(Graph graph) {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? nullptr : &found->second;
}
const GraphState* GraphStore::find(Graph graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? nullptr : &found->second;
}
Result<GraphState*> GraphStore::need(Graph graph) {
  GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  return state;
}

Node GraphStore::add(GraphState& graph, NodeBody body, std::span<const Node> dependencies) {
  const Node node{next_++};
  graph.index[node] = graph.nodes.size();
  graph.nodes.push_back({node, std::move(body)});
  for (const Node dependency : dependencies) graph.edges.push_back({dependency, node, false});
  return node;
}

GraphState GraphStore::take(Graph graph) {
  auto node = graphs_.extract(graph);
  return node ? std::move(node.mapped()) : GraphState{};
}

Result<NodeInfo> GraphStore::inspect(Graph graph, Node node) {
  const GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  const NodeData* data = state->find(node);
  if (!data) return no_node(graph, node);
  const auto* call = std::get_if<ProducerCall>(&data->body.what);
  return call ? NodeInfo{true, call->id, call->header} : NodeInfo{};
}

Status GraphStore::cloneable(Graph graph) {
  const GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  if (state->building) return still_capturing(graph);
  for (const auto& [kind, name] : {std::pair{NodeKind::allocation, "memory allocation"},
                                   std::pair{NodeKind::conditional, "conditional"}}) {
    if (has_kind(state->nodes, kind)) {
      return {Code::unsupported,
              fmt::format("cudaErrorNotSupported: a graph with {} nodes cannot be cloned", name)};
    }
  }
  return {};
}

Result<Graph> GraphStore::clone(Graph graph) {
  if (Status status = cloneable(graph); !status.ok()) return status;
  const Graph handle = create();
  const GraphState& original = *find(graph);
  GraphState& copy = *find(handle);
  copy.building = false;
  copy.original = graph;
  for (const NodeData& node : original.nodes) copy.clone_of[node.id] = add(copy, node.body, {});
  for (const GraphEdge& edge : original.edges) {
    copy.edges.push_back({copy.clone_of[edge.from], copy.clone_of[edge.to], edge.programmatic});
  }
  return handle;
}

Result<Node> GraphStore::find_in_clone(Graph clone, Node original) {
  const GraphState* state = find(clone);
  if (!state) return no_graph(clone);
  const auto found = state->clone_of.find(original);
  if (found == state->clone_of.end()) return no_node(clone, original);
  return found->second;
}

Status GraphStore::remove_node(Graph graph, Node node) {
  GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  if (state->original == Graph{}) {
    return {Code::invalid_argument,
            fmt::format("graph {} is its owner's: nodes are removed from clones only",
                        std::uintptr_t(graph))};
  }
  const NodeData* data = state->find(node);
  if (!data) return no_node(graph, node);
  if (kind_of(data->body) != NodeKind::producer) return no_producer(node);

  state->edges = without_node(state->edges, node, [state](Node other) {
    return is_kernel(kind_of(state->find(other)->body));
  });
  std::erase_if(state->clone_of, [node](const auto& pair) { return pair.second == node; });
  const std::size_t place = state->index[node];
  state->nodes.erase(state->nodes.begin() + static_cast<std::ptrdiff_t>(place));
  state->index.erase(node);
  for (std::size_t i = place; i < state->nodes.size(); ++i) state->index[state->nodes[i].id] = i;
  return {};
}

Status GraphStore::make_programmatic(Graph graph, Node from, Node to) {
  GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  const auto edge = std::find_if(
      state->edges.begin(), state->edges.end(),
      [&](const GraphEdge& candidate) { return candidate.from == from && candidate.to == to; });
  if (edge == state->edges.end() || !is_kernel(kind_of(state->find(from)->body)) ||
      !is_kernel(kind_of(state->find(to)->body))) {
    return {Code::invalid_argument, "cudaErrorInvalidValue: a programmatic edge joins two kernels"};
  }
  edge->programmatic = true;
  return {};
}

Status GraphStore::rewrite(Graph graph, Node node, const ProducerCall& call) {
  GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  const auto found = state->index.find(node);
  if (found == state->index.end()) return no_node(graph, node);
  NodeBody& body = state->nodes[found->second].body;
  if (kind_of(body) != NodeKind::producer) return no_producer(node);
  body.what = call;
  return {};
}

Result<Exec> GraphStore::instantiate(Graph graph) {
  GraphState* state = find(graph);
  if (!state) return no_graph(graph);
  if (state->building) return still_capturing(graph);
  if (state->execs > 0 && has_kind(state->nodes, NodeKind::allocation)) {
    return Status(
        Code::unsupported,
        "cudaErrorNotSupported: a graph with memory allocation nodes has one exec at a time");
  }
  auto exec = std::make_shared<ExecState>();
  exec->source = graph;
  exec->graph = compile(state->nodes, state->edges);
  for (std::uint32_t i = 0; i < state->nodes.size(); ++i) exec->index[state->nodes[i].id] = i;
  exec->enabled.assign(state->nodes.size(), 1);
  ++state->execs;
  const Exec handle{next_++};
  execs_[handle] = std::move(exec);
  return handle;
}

Result<std::shared_ptr<ExecState>> GraphStore::need(Exec exec) const {
  const auto found = execs_.find(exec);
  if (found == execs_.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("cudaErrorInvalidValue: exec {} was destroyed or never was",
                              std::uintptr_t(exec)));
  }
  return found->second;
}

std::shared_ptr<ExecState> GraphStore::take(Exec exec) {
  auto node = execs_.extract(exec);
  if (!node) return nullptr;
  if (GraphState* source = find(node.mapped()->source)) --source->execs;
  return std::move(node.mapped());
}

Result<std::uint32_t> GraphStore::place(const ExecState& exec, Node node) const {
  const GraphState* source = find(exec.source);
  if (!source) return no_graph(exec.source);
  const auto found = exec.index.find(node);
  if (found == exec.index.end() || !source->find(node)) return no_node(exec.source, node);
  return found->second;
}

Status GraphStore::set_enabled(Exec exec, Node node, bool enabled) {
  auto state = need(exec);
  if (!state.ok()) return state.status();
  const auto where = place(*state.value(), node);
  if (!where.ok()) return where.status();
  const NodeKind kind = kind_of(state.value()->graph->nodes[where.value()].body);
  if (!is_switchable(kind)) {
    return {Code::unsupported,
            fmt::format("cudaErrorNotSupported: node {} is not a kernel, memcpy or memset node",
                        std::uintptr_t(node))};
  }
  state.value()->enabled[where.value()] = enabled;
  return {};
}

Status GraphStore::rewrite(Exec exec, Node node, const ProducerCall& call) {
  auto state = need(exec);
  if (!state.ok()) return state.status();
  const auto where = place(*state.value(), node);
  if (!where.ok()) return where.status();
  auto graph = std::make_shared<CompiledGraph>(*state.value()->graph);  // launches keep the old one
  NodeBody& body = graph->nodes[where.value()].body;
  if (kind_of(body) != NodeKind::producer) return no_producer(node);
  body.what = call;
  state.value()->graph = std::move(graph);
  return {};
}

}  // namespace graphtap
