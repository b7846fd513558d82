// The part of HostDevice that deals with captures, graphs and execs.
#include <mutex>

#include "device/host/capture.hpp"
#include "device/host/executor.hpp"
#include "device/host/graph_store.hpp"
#include "device/host/guarded.hpp"
#include "device/host/interpreter.hpp"

namespace graphtap {
namespace {

// What a node takes in an instantiated graph on a real device: 0.9 MiB were measured for 324 nodes.
constexpr std::uint64_t kBytesPerNode = 2912;

}  // namespace

Result<CaptureState> HostDevice::capture_state(Stream stream) {
  return guarded(Call::capture_state, [&] {
    const std::lock_guard lock(mutex_);
    return captures_->state(stream);
  });
}

Result<Node> HostDevice::captured_tail(Stream stream) {
  return guarded(Call::captured_tail, [&] {
    const std::lock_guard lock(mutex_);
    return captures_->tail(stream);
  });
}

Result<NodeInfo> HostDevice::inspect(Graph graph, Node node) {
  return guarded(Call::inspect, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->inspect(graph, node);
  });
}

Status HostDevice::cloneable(Graph graph) {
  return guarded(Call::cloneable, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->cloneable(graph);
  });
}

Result<Graph> HostDevice::clone(Graph graph) {
  return guarded(Call::clone, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->clone(graph);
  });
}

Result<Node> HostDevice::find_in_clone(Graph clone, Node original) {
  return guarded(Call::find_in_clone, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->find_in_clone(clone, original);
  });
}

Status HostDevice::remove_node(Graph graph, Node node) {
  return guarded(Call::remove_node, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->remove_node(graph, node);
  });
}

void HostDevice::destroy_graph(Graph graph) noexcept {
  GraphState state;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  state = graphs_->take(graph);
}

Result<Exec> HostDevice::instantiate(Graph graph, std::uint64_t /*flags*/) {
  return guarded(Call::instantiate, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->instantiate(graph);
  });
}

void HostDevice::destroy_exec(Exec exec) noexcept {
  std::shared_ptr<ExecState> state;  // a launch in flight holds what it needs
  const std::lock_guard lock(mutex_);
  state = graphs_->take(exec);
}

std::uint64_t HostDevice::exec_bytes(Exec exec) { return node_count(exec) * kBytesPerNode; }

Status HostDevice::set_enabled(Exec exec, Node node, bool enabled) {
  return guarded(Call::set_enabled, [&] {
    const std::lock_guard lock(mutex_);
    return graphs_->set_enabled(exec, node, enabled);
  });
}

Status HostDevice::launch(Exec exec, Stream stream) {
  return guarded(Call::launch, [&]() -> Status {
    if (Status status = check_stream(stream); !status.ok()) return status;
    Operation operation;
    {
      const std::lock_guard lock(mutex_);
      if (captures_->capturing(stream)) {
        return captures_->refuse(
            stream, "cudaErrorStreamCaptureUnsupported: a graph launch while capturing");
      }
      const auto found = graphs_->need(exec);
      if (!found.ok()) return found.status();
      const std::shared_ptr<ExecState> state = found.value();
#if defined(GRAPHTAP_BUG_launch_sees_later_toggle)
      operation.step = [this, walk = GraphWalk(state->graph), state]() mutable {
        return interpreter_->step(walk, [&](std::uint32_t node) {
          const std::lock_guard toggles(mutex_);
          return state->enabled[node] != 0;
        });
      };
#else
      operation.step = [this, walk = GraphWalk(state->graph), enabled = state->enabled]() mutable {
        return interpreter_->step(walk, [&](std::uint32_t node) { return enabled[node] != 0; });
      };
#endif
      operation.after = std::exchange(state->last, std::make_shared<Point>());
      operation.done = state->last;
    }
    executor_->enqueue(stream, std::move(operation));
    return {};
  });
}

// --- The engine's side

Status HostDevice::begin_capture(Stream stream) {
  if (faults_.lost()) return device_lost();
  if (Status status = check_stream(stream); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  return captures_->begin(stream);
}

Result<Graph> HostDevice::end_capture(Stream stream) {
  if (faults_.lost()) return device_lost();
  const std::lock_guard lock(mutex_);
  return captures_->end(stream);
}

Result<Node> HostDevice::add_node(Stream stream, NodeBody body) {
  if (faults_.lost()) return device_lost();
  const std::lock_guard lock(mutex_);
  return captures_->add(stream, std::move(body));
}

Result<Node> HostDevice::add_child_graph(Stream stream, Graph child) {
  NodeBody body;
  {
    const std::lock_guard lock(mutex_);
    const auto state = graphs_->need(child);
    if (!state.ok()) return state.status();
    body.what = ChildBody{compile(state.value()->nodes, state.value()->edges)};
  }
  return add_node(stream, std::move(body));
}

Result<Node> HostDevice::add_alloc_node(Stream stream) {
  return add_node(stream, {AllocationBody{}});
}
Result<Node> HostDevice::add_conditional_node(Stream stream) {
  return add_node(stream, {ConditionalBody{}});
}

Status HostDevice::make_programmatic(Graph graph, Node from, Node to) {
  const std::lock_guard lock(mutex_);
  return graphs_->make_programmatic(graph, from, to);
}

// --- For tests

std::vector<Node> HostDevice::nodes(Graph graph) const {
  const std::lock_guard lock(mutex_);
  std::vector<Node> result;
  if (const GraphState* state = graphs_->find(graph)) {
    for (const NodeData& node : state->nodes) result.push_back(node.id);
  }
  return result;
}

std::vector<GraphEdge> HostDevice::edges(Graph graph) const {
  const std::lock_guard lock(mutex_);
  const GraphState* state = graphs_->find(graph);
  return state ? state->edges : std::vector<GraphEdge>{};
}

Result<NodeKind> HostDevice::kind(Graph graph, Node node) const {
  const std::lock_guard lock(mutex_);
  const GraphState* state = graphs_->find(graph);
  const NodeData* data = state ? state->find(node) : nullptr;
  if (!data) return Status(Code::invalid_argument, "cudaErrorInvalidValue: no such node");
  return kind_of(data->body);
}

Result<bool> HostDevice::enabled(Exec exec, Node node) const {
  const std::lock_guard lock(mutex_);
  const auto state = graphs_->need(exec);
  if (!state.ok()) return state.status();
  const auto place = graphs_->place(*state.value(), node);
  if (!place.ok()) return place.status();
  return state.value()->enabled[place.value()] != 0;
}

std::size_t HostDevice::node_count(Exec exec) const {
  const std::lock_guard lock(mutex_);
  const auto state = graphs_->need(exec);
  return state.ok() ? state.value()->graph->nodes.size() : 0;
}

std::size_t HostDevice::live_graphs() const {
  const std::lock_guard lock(mutex_);
  return graphs_->graphs();
}

std::size_t HostDevice::live_execs() const {
  const std::lock_guard lock(mutex_);
  return graphs_->execs();
}

Status HostDevice::rewrite_producer(Graph graph, Node node, const ProducerCall& call) {
  const std::lock_guard lock(mutex_);
  return graphs_->rewrite(graph, node, call);
}

Status HostDevice::rewrite_producer(Exec exec, Node node, const ProducerCall& call) {
  const std::lock_guard lock(mutex_);
  return graphs_->rewrite(exec, node, call);
}

}  // namespace graphtap
