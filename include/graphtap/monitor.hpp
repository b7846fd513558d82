#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/delivery.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/hook_table.hpp"
#include "graphtap/lease.hpp"
#include "graphtap/options.hpp"
#include "graphtap/request.hpp"
#include "graphtap/sink.hpp"
#include "graphtap/source.hpp"
#include "graphtap/stats.hpp"
#include "graphtap/step_shape.hpp"

namespace graphtap {

class Device;

class Lane;
class Step;
class BoundGraph;
class MonitorCore;
class LaneCore;
struct StepPlan;

/// Watches one model on one device: plans its steps, switches its hooks, delivers what they see.
///
/// Thread-safety: everything may be called from any thread; calls for one lane's steps (begin,
/// produce, launch, end) must not overlap each other. Errors of misuse throw Error; trouble on the
/// device or in a sink never does: it is counted, shows up as gaps, and the engine goes on.
class Monitor {
 public:
  /// Errors (thrown): invalid_argument (selection, ring smaller than a header), exhausted,
  /// device_error.
  Monitor(std::shared_ptr<Device> device, HookTable table, MonitorOptions options = {},
          std::vector<std::shared_ptr<Sink>> sinks = {});
  ~Monitor();  ///< close(5 s)
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  [[nodiscard]] const HookTable& table() const noexcept;

  // Requests.
  [[nodiscard]] Request begin_request(std::string id, std::int64_t prompt_tokens = 0);
  void not_computed(const Request& request, std::int64_t begin, std::int64_t end);
  void rejected(const Request& request, std::int64_t begin, std::int64_t end);
  /// Its completion event follows its last record into every sink.
  void finish_request(const Request& request);

  // Switching. The default lease covers all active hooks unless MonitorOptions::selection says
  // else.
  /// Sets the default lease to `selection`. Throws Error(invalid_argument) and changes nothing if
  /// it is wrong. With Apply::now the status says whether every bound exec could be flipped; on an
  /// error the graph stays stale, is retried at its next launch, and the soft gate keeps records
  /// right (A7).
  Status enable(std::string_view selection, Apply apply = Apply::at_next_launch);
  Status enable(const HookSet& hooks, Apply apply = Apply::at_next_launch);
  [[nodiscard]] HookSet enabled() const;  ///< union of all leases
  /// A further consumer's claim. Throws Error(invalid_argument).
  [[nodiscard]] Lease watch(LeaseSpec spec);
  /// Parses and resolves against this model; throws Error(invalid_argument).
  [[nodiscard]] Selection parse(std::string_view selection) const;

  // Steps.
  /// A lane owns a step header; graphs captured through a lane bake its address in.
  [[nodiscard]] std::shared_ptr<Lane> make_lane();

  /// Everything planned before the call is in the sinks, and the sinks are flushed, when it returns
  /// ok. Errors: timeout (says how much is left), unavailable (closed), device_lost.
  Status flush(std::chrono::nanoseconds timeout);
  /// Delivers what was captured, within the deadline; then writes OFF, frees ring and staging and
  /// stops its threads. Graphs that keep replaying write nothing. Idempotent. Errors: timeout
  /// (names what was left).
  Status close(std::chrono::nanoseconds deadline = std::chrono::seconds(5));
  /// Replaces the payload ring while graphs keep replaying; frames in flight stay in the old one,
  /// which is freed behind them. Errors: exhausted (the old ring stays), invalid_argument,
  /// unavailable (closed).
  Status resize_ring(std::uint64_t bytes);
  [[nodiscard]] Stats stats() const;

  /// Manual mode: one unit of background work. True if something was done.
  bool pump();

 private:
  std::shared_ptr<MonitorCore> core_;
};

/// One sequence of steps that use one step header, in order. Created by Monitor::make_lane.
class Lane {
 public:
  explicit Lane(std::shared_ptr<LaneCore> core) noexcept;
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Plans a step, reserves its frame and, for a graph step, uploads the header to `stream`. Never
  /// fails: trouble becomes gaps. While `stream` is capturing the step delivers nothing
  /// (GapReason::capture).
  [[nodiscard]] Step begin(const StepShape& shape, Stream stream);

  /// One producer call, in the model's code. While `stream` is capturing: records this hook's node.
  /// In an open eager step: copies the rows the plan asks for. Otherwise: nothing.
  /// The nth call for one hook in a step (or capture) is its ordinal n. Never throws, never fails.
  void produce(HookId hook, const Source& source, Stream stream) noexcept;

  /// Makes a captured graph known: node gate and specialised execs need it, the soft gate does not.
  /// `graph` must outlive the returned handle; `exec` is the owner's.
  [[nodiscard]] std::shared_ptr<BoundGraph> bind(Graph graph, Exec exec, BindOptions options = {});
  /// Forgets all graphs of the lane; every node that was disabled is enabled first (A13).
  Status clear();

  [[nodiscard]] std::uint32_t index() const noexcept;

 private:
  std::shared_ptr<LaneCore> core_;
};

/// A planned step. end() it after its last launch; destroying it unended gives it up
/// (GapReason::aborted).
class Step {
 public:
  Step() = default;
  Step(Step&& other) noexcept;
  Step& operator=(Step&& other) noexcept;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step();

  /// Brings `graph` up to date with the plan and launches the best exec for it on the step's
  /// stream. Errors: the device's, if the launch itself failed.
  Status launch(BoundGraph& graph);
  /// The same without the launch, for engines that launch themselves: the exec to launch now. An
  /// Apply::now from another thread may come between this and the launch; what it switched off is
  /// then missing in this step.
  [[nodiscard]] Result<Exec> prepare(BoundGraph& graph);
  /// The engine ran something else than was planned: nothing of this step is delivered.
  void invalidate(GapReason reason = GapReason::mismatch) noexcept;
  /// Turns the header OFF in stream order and hands the step to the drain. Never blocks.
  void end() noexcept;

  [[nodiscard]] bool empty() const noexcept;  ///< nothing is captured in this step
  [[nodiscard]] bool captures(HookId hook) const noexcept;
  [[nodiscard]] std::uint64_t ticket() const noexcept;

 private:
  friend class Lane;
  Step(std::shared_ptr<LaneCore> lane, std::shared_ptr<StepPlan> plan, Stream stream) noexcept;
  std::shared_ptr<LaneCore> lane_;
  std::shared_ptr<StepPlan> plan_;  // null: nothing is captured
  Stream stream_{};
};

}  // namespace graphtap
