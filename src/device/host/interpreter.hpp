#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/host/node.hpp"

namespace graphtap {

class DeviceMemory;

/// Carries out what nodes and operations say. It looks at every address first: what is not live
/// memory is a recorded violation, and that operation does nothing. Thread-safe.
class Interpreter {
 public:
  using Choose = std::function<std::size_t(std::size_t)>;
  Interpreter(DeviceMemory& memory, Choose choose) : memory_(memory), choose_(std::move(choose)) {}

  void run(const NodeBody& body);
  /// Runs one node of the walk if `enabled` says so (null = all are); true when that was the last.
  bool step(GraphWalk& walk, const std::function<bool(std::uint32_t)>& enabled);
  /// The operation's steps. A copy is made in two halves, so that what others do in between shows.
  [[nodiscard]] std::function<bool()> steps_of(NodeBody body);

  [[nodiscard]] std::uint64_t producers_run() const noexcept { return producers_run_.load(); }

 private:
  void produce(const ProducerCall& call);
  void copy(const CopyBody& body);
  void fill(const FillBody& body);
  void close_step(wire::StepHeader* header);
  // Whether a header with its slots and row lists lies in one live allocation.
  [[nodiscard]] bool header_is_live(const wire::StepHeader* header, const char* who);

  DeviceMemory& memory_;
  Choose choose_;
  std::atomic<std::uint64_t> producers_run_{0};
};

}  // namespace graphtap
