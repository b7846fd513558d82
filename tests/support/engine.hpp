#pragma once
// A device under test together with the engine's side of it: what a model does on that device, and
// what a test needs to see. Tests written against this run on the host device and on a GPU; which
// of the two is decided by what is linked: host_engine.cpp or cuda_engine.cpp.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/host/faults.hpp"

namespace graphtap {
class HostDevice;
}

namespace graphtap::testing {

struct EngineOptions {
  /// Host device: streams are threads. Otherwise a seeded scheduler decides every interleaving. A
  /// GPU schedules by itself and ignores this, `seed` (but for injected faults) and `advance`.
  bool threaded = false;
  std::uint64_t seed = 1;
  double advance = 0.5;            ///< HostOptions::advance
  bool quarantine = true;          ///< freed memory is kept, and any write to it is a violation
  std::uint64_t memory_limit = 0;  ///< bytes of device memory; 0: what there is
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// What the monitor gets. Faults are injected at every call of it.
  [[nodiscard]] virtual const std::shared_ptr<Device>& device() const = 0;
  [[nodiscard]] virtual Faults& faults() = 0;
  /// Whether a seed decides every interleaving and the clock is virtual.
  [[nodiscard]] virtual bool cooperative() const = 0;

  // --- The model. These fail on a lost device.
  /// Memory that compute() may write and a producer may read, zeroed. Lives as long as the engine.
  /// On the host device it is device memory, so that what producers read is checked too: asking for
  /// it can be made to fail.
  virtual Result<std::byte*> tensor(std::size_t bytes) = 0;
  /// Like launching a kernel: runs in stream order, or becomes a node of the graph being captured.
  /// On a GPU it runs on a thread of the driver: it may touch tensors and what is atomic or never
  /// changes, and must not call the device.
  virtual Status compute(Stream stream, std::function<void()> kernel) = 0;
  /// From here to end_capture() what is given to the stream becomes nodes. Other streams join, and
  /// are joined back, by events (Device::record, Device::wait).
  virtual Status begin_capture(Stream stream) = 0;
  /// The graph; it lives until the engine goes or somebody destroys it.
  virtual Result<Graph> end_capture(Stream stream) = 0;

  // --- What a test looks at and changes, past the faults.
  [[nodiscard]] virtual std::vector<Node> nodes(Graph graph) const = 0;
  /// Those that are producers of ours.
  [[nodiscard]] virtual std::vector<Node> producers(Graph graph) const = 0;
  [[nodiscard]] virtual Result<bool> enabled(Exec exec, Node node) const = 0;
  /// Makes a producer say that it is another, in a template or in an exec for its later launches.
  /// What it reads becomes `call`'s on the host device and stays as it was on a GPU.
  virtual Status rewrite_producer(Graph graph, Node node, const ProducerCall& call) = 0;
  virtual Status rewrite_producer(Exec exec, Node node, const ProducerCall& call) = 0;

  /// Nodes of an exec made through device(); 0 for one that is gone.
  [[nodiscard]] virtual std::size_t node_count(Exec exec) const = 0;

  // --- Progress.
  /// Runs one piece of one stream's work, if this device leaves that to its caller; false if
  /// nothing was run.
  virtual bool run_one() = 0;
  /// Returns when every stream is empty.
  virtual void run_until_idle() = 0;

  /// The host device itself, for what only it can do; null if this is another.
  [[nodiscard]] virtual HostDevice* host() { return nullptr; }

  // --- What became of it.
  /// Writes to device memory that was never allocated, or that was freed, and errors of a GPU that
  /// nobody ordered, in words. Call when the device is idle.
  [[nodiscard]] virtual std::vector<std::string> violations() = 0;
  [[nodiscard]] virtual std::uint64_t calls(
      Call call) const = 0;                               ///< of the device, failed ones included
  [[nodiscard]] virtual std::uint64_t calls() const = 0;  ///< of all kinds
  /// Calls made although an earlier one had reported the device as lost.
  [[nodiscard]] virtual std::uint64_t calls_after_loss() const = 0;
  [[nodiscard]] virtual std::size_t live_graphs() const = 0;
  [[nodiscard]] virtual std::size_t live_execs() const = 0;
  [[nodiscard]] virtual std::size_t live_events() const = 0;
  /// Device and pinned memory in use, without what was retained and without tensors.
  [[nodiscard]] virtual std::size_t live_allocations() const = 0;
  [[nodiscard]] virtual std::uint64_t allocated_bytes() const = 0;  ///< device memory in use

 protected:
  Engine() = default;
};

/// Throws Error(unavailable) if there is no such device here.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const EngineOptions& options = {});

/// For how long a test waits for what has to happen: under compute-sanitizer (GRAPHTAP_SANITIZER) a
/// GPU is many times slower than by itself.
template <class Duration>
[[nodiscard]] Duration patience(Duration usual) {
  return std::getenv("GRAPHTAP_SANITIZER") != nullptr ? 20 * usual : usual;
}

}  // namespace graphtap::testing

/// For tests that need to say when the device makes progress, or what time it is.
#define GRAPHTAP_NEEDS_A_SCHEDULER(why)                   \
  if (!::graphtap::testing::make_engine()->cooperative()) \
  GTEST_SKIP() << "this device schedules by itself: " << (why)
/// For tests of what only the host device can be made to do.
#define GRAPHTAP_NEEDS_THE_HOST_DEVICE(why)                  \
  if (::graphtap::testing::make_engine()->host() == nullptr) \
  GTEST_SKIP() << "only on the host device: " << (why)
