#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/cuda_scope.hpp"
#include "device/cuda/cuda_status.hpp"

namespace graphtap::cuda {
namespace {

// Measured on an H200 (driver 580): 0.9 MiB for 324 kernel nodes.
constexpr std::uint64_t kExecBytesPerNode = 3 << 10;

Node to_node(cudaGraphNode_t node) { return Node{reinterpret_cast<std::uintptr_t>(node)}; }

Result<std::vector<cudaGraphNode_t>> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  cudaError_t error = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (error == cudaSuccess && count > 0) error = cudaGraphGetNodes(graph, nodes.data(), &count);
  if (error != cudaSuccess) return to_status(error, "cudaGraphGetNodes");
  return nodes;
}

// Why a graph with such a node is not cloned and specialised; null if it may be.
const char* obstacle(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
    case cudaGraphNodeTypeMemcpy:
    case cudaGraphNodeTypeMemset:
    case cudaGraphNodeTypeHost:
    case cudaGraphNodeTypeGraph:
    case cudaGraphNodeTypeEmpty:
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
      return nullptr;
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
      return "it allocates memory";
    case cudaGraphNodeTypeConditional:
      return "it has a conditional node";
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
      return "it uses an external semaphore";
    default:
      return "it has a node of a type that this graphtap does not know";
  }
}

Result<std::vector<cudaGraphNode_t>> check_nodes(cudaGraph_t graph) {
  Result<std::vector<cudaGraphNode_t>> nodes = nodes_of(graph);
  if (!nodes.ok()) return nodes;
  for (const cudaGraphNode_t node : nodes.value()) {
    cudaGraphNodeType type{};
    if (const cudaError_t error = cudaGraphNodeGetType(node, &type); error != cudaSuccess) {
      return to_status(error, "cudaGraphNodeGetType");
    }
    if (const char* why = obstacle(type)) return Status(Code::unsupported, why);
    if (type != cudaGraphNodeTypeGraph) continue;
    cudaGraph_t child{};
    if (const cudaError_t error = cudaGraphChildGraphNodeGetGraph(node, &child);
        error != cudaSuccess) {
      return to_status(error, "cudaGraphChildGraphNodeGetGraph");
    }
    if (Result<std::vector<cudaGraphNode_t>> inside = check_nodes(child); !inside.ok())
      return inside;
  }
  return nodes;
}

// The edges of a graph twice: as CUDA has them, and as edges.hpp takes them.
struct Edges {
  std::vector<cudaGraphNode_t> from, to;
  std::vector<cudaGraphEdgeData> data;
  std::vector<GraphEdge> plain;
};

Result<Edges> edges_of(cudaGraph_t graph) {
  Edges edges;
  std::size_t count = 0;
  cudaError_t error = cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
  edges.from.resize(count);
  edges.to.resize(count);
  edges.data.resize(count);
  if (error == cudaSuccess && count > 0) {
    error = cudaGraphGetEdges(graph, edges.from.data(), edges.to.data(), edges.data.data(), &count);
  }
  if (error != cudaSuccess) return to_status(error, "cudaGraphGetEdges");
  edges.plain.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    edges.plain.push_back({to_node(edges.from[i]), to_node(edges.to[i]),
                           edges.data[i].type == cudaGraphDependencyTypeProgrammatic});
  }
  return edges;
}

bool is_kernel(Node node) {
  cudaGraphNodeType type{};
  return cudaGraphNodeGetType(native(node), &type) == cudaSuccess &&
         type == cudaGraphNodeTypeKernel;
}

cudaError_t add_edge(cudaGraph_t graph, const GraphEdge& edge, const cudaGraphEdgeData& data) {
  const cudaGraphNode_t from = native(edge.from);
  const cudaGraphNode_t to = native(edge.to);
  return cudaGraphAddDependencies(graph, &from, &to, &data, 1);
}

// The one neighbour of a node on one side; null if it has none there, or several.
struct Neighbour {
  cudaGraphNode_t node = nullptr;
  cudaGraphEdgeData edge{};
};
template <class Ask>
Result<Neighbour> only_neighbour(cudaGraphNode_t node, Ask ask, const char* what) {
  std::size_t count = 0;
  cudaError_t error = ask(node, nullptr, nullptr, &count);
  Neighbour found;
  if (error == cudaSuccess && count == 1) error = ask(node, &found.node, &found.edge, &count);
  if (error != cudaSuccess) return to_status(error, what);
  return found;
}
Result<Neighbour> only_predecessor(cudaGraphNode_t node) {
  return only_neighbour(
      node, [](auto... arguments) { return cudaGraphNodeGetDependencies(arguments...); },
      "cudaGraphNodeGetDependencies");
}
Result<Neighbour> only_successor(cudaGraphNode_t node) {
  return only_neighbour(
      node, [](auto... arguments) { return cudaGraphNodeGetDependentNodes(arguments...); },
      "cudaGraphNodeGetDependentNodes");
}

// Removes a link of a chain: what most producers are. No other edge or path has to be known then,
// and the rest of the graph is not looked at (110 µs a node in a graph of 330). False: it is not
// one, and nothing was changed.
Result<bool> remove_link(cudaGraph_t graph, cudaGraphNode_t node) {
  const Result<Neighbour> before = only_predecessor(node);
  if (!before.ok()) return before.status();
  const Result<Neighbour> behind = only_successor(node);
  if (!behind.ok()) return behind.status();
  const Neighbour& from = before.value();
  const Neighbour& to = behind.value();
  if (from.node == nullptr || to.node == nullptr) return false;
  const Result<Neighbour> forth = only_successor(from.node);
  if (!forth.ok()) return forth.status();
  if (forth.value().node == nullptr) {
    const Result<Neighbour> back = only_predecessor(to.node);
    if (!back.ok()) return back.status();
    if (back.value().node == nullptr) return false;  // there may be another way between the two
  }
  std::vector<GraphEdge> edges;
  for (const auto& [a, b, data] :
       {std::tuple{from.node, node, from.edge}, std::tuple{node, to.node, to.edge}}) {
    edges.push_back({to_node(a), to_node(b), data.type == cudaGraphDependencyTypeProgrammatic});
  }
  const std::vector<GraphEdge> after = without_node(edges, to_node(node), is_kernel);
  if (const cudaError_t error = cudaGraphDestroyNode(node); error != cudaSuccess) {
    return to_status(error, "cudaGraphDestroyNode");
  }
  for (const GraphEdge& edge : after) {
    const cudaGraphEdgeData data = edge.programmatic ? to.edge : cudaGraphEdgeData{};
    if (const cudaError_t error = add_edge(graph, edge, data); error != cudaSuccess) {
      return to_status(error, "cudaGraphAddDependencies");
    }
  }
  return true;
}

}  // namespace

// ---- capture

Result<CaptureState> CudaDevice::capture_state(Stream stream) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph{};
  const cudaError_t error =
      cudaStreamGetCaptureInfo(native(stream), &status, &id, &graph, nullptr, nullptr, nullptr);
  if (error != cudaSuccess) return to_status(error, "cudaStreamGetCaptureInfo");
  CaptureState state;
  if (status == cudaStreamCaptureStatusInvalidated) {
    return Status(
        Code::device_error,
        "cudaErrorStreamCaptureInvalidated: the stream's capture was broken by a forbidden call");
  }
  state.capturing = status == cudaStreamCaptureStatusActive;
  if (state.capturing) {
    state.id = id;
    state.graph = Graph{reinterpret_cast<std::uintptr_t>(graph)};
  }
  return state;
}

Result<Node> CudaDevice::captured_tail(Stream stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* tails = nullptr;
  const cudaGraphEdgeData* data = nullptr;
  std::size_t count = 0;
  const cudaError_t error =
      cudaStreamGetCaptureInfo(native(stream), &status, nullptr, nullptr, &tails, &data, &count);
  if (error != cudaSuccess) return to_status(error, "cudaStreamGetCaptureInfo");
  if (status != cudaStreamCaptureStatusActive)
    return Status(Code::unsupported, "the stream is not capturing");
  if (count != 1)
    return Status(Code::unsupported, fmt::format("the stream's capture has {} tails", count));
  return to_node(tails[0]);
}

Result<NodeInfo> CudaDevice::inspect(Graph graph, Node node) {
  // A handle that is not of this graph any more may not be given to CUDA at all.
  const Result<std::vector<cudaGraphNode_t>> nodes = nodes_of(native(graph));
  if (!nodes.ok()) return nodes.status();
  if (std::find(nodes.value().begin(), nodes.value().end(), native(node)) == nodes.value().end()) {
    return Status(Code::not_found, "the graph has no such node");
  }
  cudaGraphNodeType type{};
  if (const cudaError_t error = cudaGraphNodeGetType(native(node), &type); error != cudaSuccess) {
    return to_status(error, "cudaGraphNodeGetType");
  }
  NodeInfo info;
  if (type != cudaGraphNodeTypeKernel) return info;
  const Result<KernelNodes::Found> found = kernels_.look(native(node));
  if (!found.ok()) return found.status();
  info.is_producer = found.value().is_producer;
  if (info.is_producer) {
    info.id = found.value().tag.id;
    info.header = found.value().tag.header;
  }
  return info;
}

// ---- graphs

Status CudaDevice::cloneable(Graph graph) {
  const RelaxedCapture relaxed;
  return check_nodes(native(graph)).status();
}

Result<Graph> CudaDevice::clone(Graph graph) {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  cudaGraph_t copy{};
  if (const cudaError_t error = cudaGraphClone(&copy, native(graph)); error != cudaSuccess) {
    return to_status(error, "cudaGraphClone");
  }
  return Graph{reinterpret_cast<std::uintptr_t>(copy)};
}

Result<Node> CudaDevice::find_in_clone(Graph clone, Node original) {
  cudaGraphNode_t found{};
  if (const cudaError_t error = cudaGraphNodeFindInClone(&found, native(original), native(clone));
      error != cudaSuccess) {
    return to_status(error, "cudaGraphNodeFindInClone");
  }
  return to_node(found);
}

Status CudaDevice::remove_node(Graph graph, Node node) {
  const RelaxedCapture relaxed;
  const Result<bool> removed = remove_link(native(graph), native(node));
  if (!removed.ok()) return removed.status();
  if (removed.value()) return {};
  const Result<Edges> before = edges_of(native(graph));
  if (!before.ok()) return before.status();
  const Edges& edges = before.value();
  std::unordered_map<Node, std::unordered_map<Node, std::size_t>> known;  // from → to → index
  cudaGraphEdgeData programmatic{};
  for (std::size_t i = 0; i < edges.plain.size(); ++i) {
    known[edges.plain[i].from][edges.plain[i].to] = i;
    // Kernels that start early behind this node shall start early behind its predecessor, at the
    // same port.
    if (edges.plain[i].from == node && edges.plain[i].programmatic) programmatic = edges.data[i];
  }
  const std::vector<GraphEdge> after = without_node(edges.plain, node, is_kernel);
  if (const cudaError_t error = cudaGraphDestroyNode(native(node)); error != cudaSuccess) {
    return to_status(error, "cudaGraphDestroyNode");
  }
  for (const GraphEdge& edge : after) {
    const auto from = known.find(edge.from);
    const auto to =
        from == known.end() ? decltype(from->second.end()){} : from->second.find(edge.to);
    const bool existed = from != known.end() && to != from->second.end();
    if (existed) {
      const std::size_t index = to->second;
      if (edges.plain[index].programmatic == edge.programmatic) continue;
      const cudaError_t error = cudaGraphRemoveDependencies(
          native(graph), &edges.from[index], &edges.to[index], &edges.data[index], 1);
      if (error != cudaSuccess) return to_status(error, "cudaGraphRemoveDependencies");
    }
    const cudaGraphEdgeData data = edge.programmatic ? programmatic : cudaGraphEdgeData{};
    if (const cudaError_t error = add_edge(native(graph), edge, data); error != cudaSuccess) {
      return to_status(error, "cudaGraphAddDependencies");
    }
  }
  return {};
}

void CudaDevice::destroy_graph(Graph graph) noexcept {
  const RelaxedCapture relaxed;
  (void)to_status(cudaGraphDestroy(native(graph)), "cudaGraphDestroy");
}

Result<Exec> CudaDevice::instantiate(Graph graph, std::uint64_t flags) {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  cudaGraphExec_t exec{};
  if (const cudaError_t error = cudaGraphInstantiate(&exec, native(graph), flags);
      error != cudaSuccess) {
    return to_status(error, "cudaGraphInstantiate");
  }
  // So that its first launch costs no more than the others. It is no failure if that does not work.
  cudaError_t uploaded = cudaGraphUpload(exec, service_);
  if (uploaded == cudaSuccess) uploaded = cudaStreamSynchronize(service_);
  if (const Status status = to_status(uploaded, "cudaGraphUpload");
      status.code() == Code::device_lost)
    return status;
  std::size_t nodes = 0;
  (void)to_status(cudaGraphGetNodes(native(graph), nullptr, &nodes), "cudaGraphGetNodes");
  const Exec made{reinterpret_cast<std::uintptr_t>(exec)};
  const std::lock_guard lock(mutex_);
  exec_bytes_[made] = nodes * kExecBytesPerNode;
  return made;
}

void CudaDevice::destroy_exec(Exec exec) noexcept {
  {
    const std::lock_guard lock(mutex_);
    exec_bytes_.erase(exec);
  }
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)to_status(cudaGraphExecDestroy(native(exec)), "cudaGraphExecDestroy");
}

std::uint64_t CudaDevice::exec_bytes(Exec exec) {
  const std::lock_guard lock(mutex_);
  const auto found = exec_bytes_.find(exec);
  return found == exec_bytes_.end() ? 0 : found->second;
}

Status CudaDevice::set_enabled(Exec exec, Node node, bool enabled) {
  return to_status(cudaGraphNodeSetEnabled(native(exec), native(node), enabled ? 1 : 0),
                   "cudaGraphNodeSetEnabled");
}

Status CudaDevice::launch(Exec exec, Stream stream) {
  // Only the default streams depend on the thread's current device.
  if (reinterpret_cast<std::uintptr_t>(native(stream)) <= 2) {
    const CurrentDevice current(options_.device);
    return to_status(cudaGraphLaunch(native(exec), native(stream)), "cudaGraphLaunch");
  }
  return to_status(cudaGraphLaunch(native(exec), native(stream)), "cudaGraphLaunch");
}

}  // namespace graphtap::cuda
