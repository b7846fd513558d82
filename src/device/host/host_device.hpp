#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/edges.hpp"
#include "device/host/faults.hpp"
#include "graphtap/host_device.hpp"

namespace graphtap {

class Captures;
class DeviceMemory;
class Events;
class Executor;
class GraphStore;
class Interpreter;
struct NodeBody;

enum class HostMode { cooperative, threaded };

struct HostOptions {
  HostMode mode = HostMode::threaded;
  std::uint64_t seed = 1;  ///< of the cooperative scheduler and of the injected faults
  /// Cooperative: chance that a call lets some stream run an operation first (tried again after
  /// each). Low values let the caller run many steps ahead, 0 leaves all progress to idle() and
  /// run_*().
  double advance = 0.5;
  /// For tests: freed memory is kept, filled with 0xDD, and any use of it is a violation; pinned
  /// memory comes filled with 0xCD instead of zeroes.
  bool quarantine = false;
  std::uint64_t memory_limit = 0;  ///< bytes of device memory; 0 = no limit
};

/// What a graph node does.
enum class NodeKind : std::uint8_t {
  compute,
  producer,
  copy,
  fill,
  close_step,
  child_graph,
  allocation,
  conditional,
};

/// A software device: streams, events, graphs and producers in host memory.
///
/// Cooperative: no threads. Streams are queues, and a seeded generator decides which of them
/// advances, at every Device call and in idle(), run_one() and run_until_idle(). Single-threaded
/// use is reproducible from the seed; calls from several threads are safe. now_ns() is virtual and
/// moves a little with every call and operation. Threaded: a stream is a thread that blocks while
/// it has nothing to do. now_ns() is the steady clock.
///
/// Stream{0} and inline_stream() exist from the start. The inline stream runs an operation in the
/// caller's thread before the call returns, waiting (or, cooperatively, driving others) where it
/// must.
///
/// Functions given to compute() may read and write memory and may call the device. They must not
/// throw and, in cooperative mode, must not block on another thread. Destroying the device drops
/// operations that have not started.
class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostOptions& options = {});
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  // --- Device
  [[nodiscard]] std::string describe() const override;
  Result<std::byte*> allocate(std::size_t bytes) override;
  void free(std::byte* memory) noexcept override;
  void retain(std::byte* memory) noexcept override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  Result<Stream> create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Result<Event> create_event() override;
  void destroy_event(Event event) noexcept override;
  Status record(Event event, Stream stream) override;
  Status wait(Stream stream, Event event) override;
  Result<bool> query(Event event) override;
  Status synchronize(Event event) override;
  Status upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                Stream stream) override;
  Status download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                  Stream stream) override;
  Status zero(std::byte* device, std::size_t bytes, Stream stream) override;
  Status close_step(wire::StepHeader* header, Stream stream) override;
  Status produce(const ProducerCall& call, Stream stream) override;
  Result<CaptureState> capture_state(Stream stream) override;
  Result<Node> captured_tail(Stream stream) override;
  Result<NodeInfo> inspect(Graph graph, Node node) override;
  Status cloneable(Graph graph) override;
  Result<Graph> clone(Graph graph) override;
  Result<Node> find_in_clone(Graph clone, Node original) override;
  Status remove_node(Graph graph, Node node) override;
  void destroy_graph(Graph graph) noexcept override;
  Result<Exec> instantiate(Graph graph, std::uint64_t flags) override;
  void destroy_exec(Exec exec) noexcept override;
  std::uint64_t exec_bytes(Exec exec) override;
  Status set_enabled(Exec exec, Node node, bool enabled) override;
  Status launch(Exec exec, Stream stream) override;
  [[nodiscard]] std::uint64_t now_ns() const noexcept override;
  void idle() noexcept override;

  // --- The engine's side: what a model would do on a real device
  /// Like launching a kernel: runs in stream order, or becomes a node of the graph being captured.
  Status compute(Stream stream, std::function<void()> kernel);
  /// Like a device-to-device copy and a memset.
  Status copy(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes);
  Status fill(Stream stream, std::byte* memory, std::byte value, std::size_t bytes);

  /// From here to end_capture() what is given to the stream becomes nodes of a graph. Other streams
  /// join by waiting for an event recorded in the capture, and must be joined back the same way
  /// before the end. Everything captured is baked in: an uploaded slot is read again at each
  /// replay.
  Status begin_capture(Stream stream);
  /// The graph; the caller owns it (destroy_graph). Errors, as CUDA's: unjoined work, a capture
  /// that an illegal call invalidated, another stream than the one it began on.
  Result<Graph> end_capture(Stream stream);
  /// Only while capturing. A child graph is copied in: its producers run but are no nodes of the
  /// parent.
  Result<Node> add_child_graph(Stream stream, Graph child);
  /// A graph with one of these cannot be cloned; with an allocation it has one exec at a time.
  Result<Node> add_alloc_node(Stream stream);
  Result<Node> add_conditional_node(Stream stream);
  /// Turns an existing full edge into a programmatic one (both ends must be kernels).
  Status make_programmatic(Graph graph, Node from, Node to);

  // --- For tests
  [[nodiscard]] Faults& faults() noexcept { return faults_; }
  /// Device calls of that kind so far, failed ones included.
  [[nodiscard]] std::uint64_t calls(Call call) const noexcept;
  [[nodiscard]] std::uint64_t calls() const noexcept;  ///< of all kinds
  /// Calls made although an earlier one had reported the device as lost.
  [[nodiscard]] std::uint64_t calls_after_loss() const noexcept { return calls_after_loss_.load(); }

  /// Cooperative: runs one piece of one stream's work; false when there is nothing to run.
  /// Threaded: false.
  bool run_one();
  /// Returns when every stream is empty.
  void run_until_idle();
  /// Operations given to a stream that have not finished.
  [[nodiscard]] std::size_t pending(Stream stream) const;
  /// Cooperative: changes HostOptions::advance.
  void set_advance(double probability);

  [[nodiscard]] std::vector<Node> nodes(Graph graph) const;  ///< in the order of their capture
  [[nodiscard]] std::vector<GraphEdge> edges(Graph graph) const;
  [[nodiscard]] Result<NodeKind> kind(Graph graph, Node node) const;
  [[nodiscard]] Result<bool> enabled(Exec exec, Node node) const;
  [[nodiscard]] std::size_t node_count(Exec exec) const;  ///< 0 for an exec that is gone
  [[nodiscard]] std::size_t live_graphs() const;
  [[nodiscard]] std::size_t live_execs() const;
  /// Replaces a producer's arguments in a template, or in an exec for its later launches.
  Status rewrite_producer(Graph graph, Node node, const ProducerCall& call);
  Status rewrite_producer(Exec exec, Node node, const ProducerCall& call);

  /// Reads or writes of device memory that was freed or never allocated. They are not carried out.
  [[nodiscard]] std::uint64_t containment_violations() const;
  [[nodiscard]] std::vector<std::string> violations() const;  ///< the first hundred, in words
  [[nodiscard]] std::uint64_t allocated_bytes() const;        ///< device memory in use
  [[nodiscard]] std::size_t live_allocations() const;  ///< device and pinned, without retained
  [[nodiscard]] std::size_t live_events() const;
  /// Producers that ran (in graphs, child graphs and eagerly), OFF ones included.
  [[nodiscard]] std::uint64_t producers_run() const noexcept;

 private:
  // Counts the call, lets streams advance, asks for a fault; then `work()`, and the fault's status.
  template <class Work>
  auto guarded(Call call, Work work) -> decltype(work());
  [[nodiscard]] Faults::Verdict enter(Call call);
  [[nodiscard]] Status check_stream(Stream stream) const;
  // Gives one operation to a stream: to its queue, or to the capture it is part of.
  Status submit(Stream stream, NodeBody body);
  Result<Node> add_node(Stream stream, NodeBody body);

  const std::string name_;
  Faults faults_;
  std::array<std::atomic<std::uint64_t>, kCalls> calls_{};
  std::atomic<std::uint64_t> calls_after_loss_{0};
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Interpreter> interpreter_;
  mutable std::mutex mutex_;  // guards what follows up to the executor; never held while calling it
  std::unique_ptr<GraphStore> graphs_;
  std::unique_ptr<Captures> captures_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<Executor> executor_;  // goes before all of the above: its threads use them
};

}  // namespace graphtap
