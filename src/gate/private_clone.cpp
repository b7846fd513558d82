#include "gate/private_clone.hpp"

#include <utility>

namespace graphtap {

PrivateClone::PrivateClone(std::shared_ptr<GateDevice> device, Graph graph, std::uint64_t flags)
    : device_(std::move(device)), graph_(graph), flags_(flags) {}

PrivateClone::~PrivateClone() { device_->destroy_graph(graph_); }

Result<std::shared_ptr<PrivateClone>> PrivateClone::make(std::shared_ptr<GateDevice> device,
                                                         Graph graph,
                                                         std::uint64_t instantiate_flags,
                                                         const std::vector<ManagedNode>& nodes) {
  const Result<Graph> copy = device->clone(graph);
  if (!copy.ok()) return copy.status();
  std::shared_ptr<PrivateClone> made(
      new PrivateClone(std::move(device), copy.value(), instantiate_flags));
  made->nodes_.reserve(nodes.size());
  for (const ManagedNode& node : nodes) {
    const Result<Node> found = made->device_->find_in_clone(made->graph_, node.node);
    if (!found.ok()) return found.status();
    made->nodes_.push_back({node.hook, found.value()});
  }
  return made;
}

Result<Exec> PrivateClone::build(const HookSet& keep) const {
  const Result<Graph> copy = device_->clone(graph_);
  if (!copy.ok()) return copy.status();
  const Graph graph = copy.value();
  Status status;
  for (const ManagedNode& node : nodes_) {
    if (keep.contains(node.hook)) continue;
    const Result<Node> found = device_->find_in_clone(graph, node.node);
    status = found.ok() ? device_->remove_node(graph, found.value()) : found.status();
    if (!status.ok()) break;
  }
  Result<Exec> exec = status.ok() ? device_->instantiate(graph, flags_) : Result<Exec>(status);
  device_->destroy_graph(graph);
  return exec;
}

}  // namespace graphtap
