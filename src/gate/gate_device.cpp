#include "gate/gate_device.hpp"

namespace graphtap {
namespace {

Code code_of(const Status& status) { return status.code(); }
template <class T>
Code code_of(const Result<T>& result) {
  return result.ok() ? Code::ok : result.status().code();
}

}  // namespace

template <class Call>
auto GateDevice::guarded(Call&& call) -> decltype(call()) {
  if (lost()) return Status(Code::device_lost, "the device was lost earlier");
  auto outcome = call();
  if (code_of(outcome) == Code::device_lost) set_lost();
  return outcome;
}

Result<NodeInfo> GateDevice::inspect(Graph graph, Node node) {
  return guarded([&] { return device_->inspect(graph, node); });
}

Status GateDevice::cloneable(Graph graph) {
  return guarded([&] { return device_->cloneable(graph); });
}

Result<Graph> GateDevice::clone(Graph graph) {
  return guarded([&] { return device_->clone(graph); });
}

Result<Node> GateDevice::find_in_clone(Graph clone, Node original) {
  return guarded([&] { return device_->find_in_clone(clone, original); });
}

Status GateDevice::remove_node(Graph graph, Node node) {
  return guarded([&] { return device_->remove_node(graph, node); });
}

void GateDevice::destroy_graph(Graph graph) noexcept {
  if (!lost()) device_->destroy_graph(graph);
}

Result<Exec> GateDevice::instantiate(Graph graph, std::uint64_t flags) {
  return guarded([&] { return device_->instantiate(graph, flags); });
}

void GateDevice::destroy_exec(Exec exec) noexcept {
  if (!lost()) device_->destroy_exec(exec);
}

std::uint64_t GateDevice::exec_bytes(Exec exec) { return lost() ? 0 : device_->exec_bytes(exec); }

Status GateDevice::set_enabled(Exec exec, Node node, bool enabled) {
  return guarded([&] { return device_->set_enabled(exec, node, enabled); });
}

}  // namespace graphtap
