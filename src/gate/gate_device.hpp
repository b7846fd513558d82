#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "device/device.hpp"

namespace graphtap {

/// The device calls that the gate makes. After the first device_lost no further one is made: calls
/// fail with device_lost at once, and what would be destroyed is left to the process (Device's
/// rule). Thread-safe as Device is.
class GateDevice {
 public:
  explicit GateDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  void set_lost() noexcept { lost_.store(true, std::memory_order_relaxed); }

  Result<NodeInfo> inspect(Graph graph, Node node);
  Status cloneable(Graph graph);
  Result<Graph> clone(Graph graph);
  Result<Node> find_in_clone(Graph clone, Node original);
  Status remove_node(Graph graph, Node node);
  void destroy_graph(Graph graph) noexcept;
  Result<Exec> instantiate(Graph graph, std::uint64_t flags);
  void destroy_exec(Exec exec) noexcept;
  std::uint64_t exec_bytes(Exec exec);
  Status set_enabled(Exec exec, Node node, bool enabled);

 private:
  template <class Call>
  auto guarded(Call&& call) -> decltype(call());

  const std::shared_ptr<Device> device_;
  std::atomic<bool> lost_{false};
};

}  // namespace graphtap
