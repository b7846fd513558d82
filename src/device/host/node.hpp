#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "device/host/host_device.hpp"

namespace graphtap {

struct CompiledGraph;

struct ComputeBody {
  std::function<void()> kernel;
};
struct CopyBody {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  bool to_device = false;  // that end must be live device memory
  bool from_device = false;
};
struct FillBody {
  std::byte* memory = nullptr;
  std::byte value{};
  std::size_t bytes = 0;
};
struct CloseBody {
  wire::StepHeader* header = nullptr;
};
struct ChildBody {
  std::shared_ptr<const CompiledGraph> graph;
};
struct AllocationBody {};
struct ConditionalBody {};

/// What a node or an operation of a stream does, with its arguments.
struct NodeBody {
  std::variant<ComputeBody, ProducerCall, CopyBody, FillBody, CloseBody, ChildBody, AllocationBody,
               ConditionalBody>
      what;
};

[[nodiscard]] constexpr NodeKind kind_of(const NodeBody& body) noexcept {
  return static_cast<NodeKind>(body.what.index());  // NodeKind lists them in the same order
}
[[nodiscard]] constexpr bool is_kernel(NodeKind kind) noexcept {
  return kind == NodeKind::compute || kind == NodeKind::producer || kind == NodeKind::close_step;
}
/// Kernel, memcpy and memset nodes are the ones that CUDA lets be disabled.
[[nodiscard]] constexpr bool is_switchable(NodeKind kind) noexcept {
  return is_kernel(kind) || kind == NodeKind::copy || kind == NodeKind::fill;
}

struct NodeData {
  Node id{};
  NodeBody body;
};

/// A graph ready to run: nodes by index, and who waits for whom. Immutable once built.
struct CompiledGraph {
  std::vector<NodeData> nodes;
  std::vector<std::vector<std::uint32_t>> successors;
  std::vector<std::uint32_t> predecessors;  // how many each node has
};

[[nodiscard]] std::shared_ptr<CompiledGraph> compile(const std::vector<NodeData>& nodes,
                                                     const std::vector<GraphEdge>& edges);

/// One walk through a graph in an order its edges allow: each step takes one node that is ready.
class GraphWalk {
 public:
  explicit GraphWalk(std::shared_ptr<const CompiledGraph> graph);
  [[nodiscard]] bool finished() const noexcept { return ready_.empty(); }
  /// The next node's index; `choose(n)` picks one of n.
  std::uint32_t take(const std::function<std::size_t(std::size_t)>& choose);
  [[nodiscard]] const CompiledGraph& graph() const noexcept { return *graph_; }

 private:
  std::shared_ptr<const CompiledGraph> graph_;
  std::vector<std::uint32_t> missing_;  // predecessors that have not run yet
  std::vector<std::uint32_t> ready_;
};

}  // namespace graphtap
