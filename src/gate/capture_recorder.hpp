#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/device.hpp"
#include "gate/recorded_producer.hpp"
#include "graphtap/hook_set.hpp"

namespace graphtap {

/// Remembers the producers that were captured into graphs, until these are bound.
///
/// A capture that is never bound (thrown away by its owner, or served by the soft gate alone) stays
/// until newer ones push it out: at most `capacity` captures are kept. A graph handle that comes
/// back with another capture means that the older graph is gone; what was recorded for it is
/// dropped. Thread-safe. No device call is made under its lock.
class CaptureRecorder {
 public:
  static constexpr std::size_t kDefaultCapacity = 4096;
  explicit CaptureRecorder(std::size_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  /// How often `hook` was called before in this capture; counts this call. Stays at 65,535 once
  /// there.
  [[nodiscard]] std::uint16_t next_ordinal(const CaptureState& capture, HookId hook);

  /// Call right after Device::produce added the producer `id` to the capture: looks at the stream's
  /// tail and keeps the node. What cannot be verified to be this producer is kept as unmanaged,
  /// with the reason (A8). Calls: captured_tail, inspect.
  void record(Device& device, const CaptureState& capture, Stream stream, const ProducerId& id,
              const wire::StepHeader* header);

  /// Hands over (and forgets) what was captured into `graph`, in the order of the calls; empty if
  /// nothing was.
  [[nodiscard]] std::vector<RecordedProducer> take(Graph graph);

  [[nodiscard]] std::size_t captures() const;   ///< kept now
  [[nodiscard]] std::uint64_t dropped() const;  ///< captures with producers that were never bound

 private:
  struct Recording {
    std::uint64_t capture = 0;
    Graph graph{};
    std::unordered_map<HookId, std::uint16_t> calls;
    std::vector<RecordedProducer> producers;
  };
  Recording& recording(const CaptureState& capture);  // precondition: mutex_ held
  void drop(std::list<Recording>::iterator which);    // precondition: mutex_ held

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Recording> recordings_;  // oldest first
  std::unordered_map<std::uint64_t, std::list<Recording>::iterator> by_capture_;
  std::uint64_t dropped_ = 0;
};

}  // namespace graphtap
