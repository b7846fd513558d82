#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/producer_id.hpp"
#include "graphtap/dtype.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/source.hpp"
#include "graphtap/status.hpp"
#include "plan/wire.hpp"

namespace graphtap {

/// One producer call. With `header` set (graph form) the plan is read on the device when it runs;
/// with it null (eager form) the plan is `ticket`, `frame`, `magic`, `plan`, `list`, passed by
/// value.
struct ProducerCall {
  ProducerId id;
  Source source;
  DType dtype = DType::f32;  // used for sums only
  wire::StepHeader* header = nullptr;
  std::uint64_t ticket = 0;
  std::byte* frame = nullptr;
  std::uint64_t magic = 0;
  wire::SlotPlan plan{};
  const std::uint32_t* list =
      nullptr;  // eager row list in device memory (plan.list is ignored), or null
};

/// Whether a stream is being captured, and into what.
struct CaptureState {
  bool capturing = false;
  std::uint64_t id = 0;  // unique per capture
  Graph graph{};         // the graph being built: the same handle its owner gets at the end
};

/// What a node turned out to be when asked through the driver.
struct NodeInfo {
  bool is_producer = false;  // a kernel node of our producer family
  ProducerId id;
  const wire::StepHeader* header = nullptr;
};

/// Streams, graphs, producers and copies of one accelerator: everything graphtap asks of it.
///
/// Errors are values whose message carries the device's own name for them. Code::device_lost is
/// sticky: after it no call may be made but those that free host memory. Thread-safety: every call
/// may be made from any thread, except that calls on one graph or exec must be serialised by the
/// caller (CUDA's rule). Nothing here blocks the host except synchronize(), allocation and
/// instantiation.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string describe()
      const = 0;  // "host (threaded)", "NVIDIA H200, driver …"

  // Memory. Device memory comes zeroed. retain(): frees only when the device itself goes (step
  // headers, whose addresses are baked into graphs).
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) noexcept = 0;
  virtual void retain(std::byte* memory) noexcept = 0;
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(std::byte* memory) noexcept = 0;

  // Streams and events. An event that was never recorded is complete.
  virtual Result<Stream> create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual Result<Event> create_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual Status record(Event event, Stream stream) = 0;
  virtual Status wait(Stream stream, Event event) = 0;
  virtual Result<bool> query(Event event) = 0;  // complete?
  virtual Status synchronize(Event event) = 0;  // blocks the host

  // Work in stream order. An upload may read `pinned` at once or when its turn in the stream comes.
  virtual Status upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                        Stream stream) = 0;
  virtual Status download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                          Stream stream) = 0;
  /// Device memory becomes zeroes: the census of a frame, before its header goes ON.
  virtual Status zero(std::byte* device, std::size_t bytes, Stream stream) = 0;
  /// Ends a graph step: sets ticket = 0. The header is OFF for everything behind it in the stream.
  virtual Status close_step(wire::StepHeader* header, Stream stream) = 0;
  /// Launches the producer, or adds it to the graph being captured.
  virtual Status produce(const ProducerCall& call, Stream stream) = 0;

  // Capture and graphs.
  /// Errors: device_error for a capture that an illegal call has invalidated.
  virtual Result<CaptureState> capture_state(Stream stream) = 0;
  /// The node just captured on `stream`: its only tail dependency. Errors: unsupported if there are
  /// several.
  virtual Result<Node> captured_tail(Stream stream) = 0;
  virtual Result<NodeInfo> inspect(Graph graph, Node node) = 0;
  /// Why `graph` cannot be cloned and specialised (allocation nodes, conditional nodes, …); ok if
  /// it can.
  virtual Status cloneable(Graph graph) = 0;
  virtual Result<Graph> clone(Graph graph) = 0;
  virtual Result<Node> find_in_clone(Graph clone, Node original) = 0;
  /// Removes a producer node from a clone of ours, keeping order: predecessors to successors,
  /// without edges that a path already implies.
  virtual Status remove_node(Graph graph, Node node) = 0;
  virtual void destroy_graph(Graph graph) noexcept = 0;
  virtual Result<Exec> instantiate(Graph graph, std::uint64_t flags) = 0;
  virtual void destroy_exec(Exec exec) noexcept = 0;
  /// Device memory an exec takes, for the byte budget (measured or estimated).
  virtual std::uint64_t exec_bytes(Exec exec) = 0;
  virtual Status set_enabled(Exec exec, Node node, bool enabled) = 0;
  virtual Status launch(Exec exec, Stream stream) = 0;

  // Time, for timeouts and statistics; virtual on the cooperative host device.
  [[nodiscard]] virtual std::uint64_t now_ns() const noexcept = 0;
  /// Called by whoever waits for the device without an event: lets it make progress, or naps
  /// briefly.
  virtual void idle() noexcept = 0;
};

}  // namespace graphtap
