#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gate/bound_graph.hpp"
#include "gate/capture_recorder.hpp"
#include "gate/registry.hpp"
#include "plan/wire.hpp"
#include "support/engine.hpp"

namespace graphtap::testing {

inline constexpr std::uint64_t kMagic = wire::kMagic ^ 0x5eed;
inline constexpr std::uint64_t kPayload = 16;

struct RigOptions {
  std::size_t hooks = 4;
  GateTier tier = GateTier::specialised;
  std::uint32_t settle = 2;
  std::uint64_t budget = 1ull << 40;
  bool manual = true;
  EngineOptions engine;
};

/// A captured decoder: for each hook a node that computes its tensor, then its producer.
struct Captured {
  Graph graph{};
  Exec exec{};
  std::vector<HookId> hooks;
};

/// One launch: what was planned and where its records must be.
struct Launched {
  std::uint64_t ticket = 0;
  std::vector<HookId> expected;  // hooks of the plan that the graph holds
  std::byte* header_image = nullptr;
  std::byte* frame = nullptr;
  std::uint64_t model_runs = 0;  // of the graph's model, this launch included
  bool may_lack = false;         // the gate counted the launch as short
};

/// A model with graphs on the device under test, and a lane that drives the gate as the monitor
/// does.
class Rig {
 public:
  explicit Rig(const RigOptions& options = {})
      : options_(options), engine(make_engine(options.engine)), device(engine->device()) {
    GateOptions gate;
    for (std::size_t i = 0; i < options.hooks; ++i) {
      gate.hook_names.push_back("h" + std::to_string(i));
    }
    gate.tier = options.tier;
    gate.settle_launches = options.settle;
    gate.specialised_budget_bytes = options.budget;
    gate.manual = options.manual;
    registry = Registry::make(device, std::move(gate));
    make_lane();
  }
  /// Another lane of the same device and registry.
  Rig(const RigOptions& options, Rig& other)
      : options_(options), engine(other.engine), device(other.device), registry(other.registry) {
    make_lane();
  }
  ~Rig() {
    engine->faults().clear();
    if (!engine->cooperative()) engine->run_until_idle();  // kernels that still run count here
  }

  [[nodiscard]] HookSet set(std::initializer_list<HookId> ids) const {
    return HookSet::of(options_.hooks, std::vector<HookId>(ids));
  }
  [[nodiscard]] HookSet all() const { return HookSet::all(options_.hooks); }
  [[nodiscard]] HookSet none() const { return HookSet::none(options_.hooks); }
  [[nodiscard]] GateTotals totals() const { return registry->totals(); }

  /// What Lane::produce does while a stream is capturing.
  void produce(HookId hook) {
    const CaptureState state = device->capture_state(stream).value();
    const ProducerId id{hook, recorder.next_ordinal(state, hook), hook};
    ASSERT_TRUE(device->produce(call(id), stream).ok());
    recorder.record(*device, state, stream, id, header);
  }
  [[nodiscard]] ProducerCall call(const ProducerId& id) const {
    ProducerCall call;
    call.id = id;
    call.source.data = tensors_ + id.hook * kPayload;
    call.source.rows = 1;
    call.source.part_bytes = kPayload;
    call.source.row_stride = kPayload;
    call.header = header;
    return call;
  }
  /// Captures a graph that fires `hooks` in that order; `before_end` may add nodes.
  Captured capture(std::vector<HookId> hooks, const std::function<void()>& before_end = {}) {
    Captured captured;
    EXPECT_TRUE(engine->begin_capture(stream).ok());
    for (const HookId hook : hooks) {
      std::byte* tensor = tensors_ + hook * kPayload;
      EXPECT_TRUE(
          engine->compute(stream, [tensor, hook] { std::memset(tensor, hook + 1, kPayload); })
              .ok());
      produce(hook);
    }
    EXPECT_TRUE(engine->compute(stream, [this] { model_runs.fetch_add(1); }).ok());
    if (before_end) before_end();
    captured.graph = engine->end_capture(stream).value();
    captured.exec = device->instantiate(captured.graph, 0).value();
    captured.hooks = std::move(hooks);
    return captured;
  }
  Captured capture_all() {
    std::vector<HookId> hooks;
    for (std::size_t i = 0; i < options_.hooks; ++i) hooks.push_back(static_cast<HookId>(i));
    return capture(std::move(hooks));
  }
  std::shared_ptr<BoundGraph> bind(const Captured& captured, BindOptions options = {},
                                   std::uint32_t lane = 0) {
    if (options.name.empty()) options.name = "decode";
    return registry->bind(
        {lane, captured.graph, captured.exec, std::move(options), recorder.take(captured.graph)});
  }

  /// A step planned with `plan_set`: header upload, prepare, launch, close.
  Exec step(BoundGraph& graph, const HookSet& plan_set) {
    const std::uint64_t short_before = totals().launches_short;
    const Exec exec = graph.prepare(plan_set);
    if (exec == Exec{}) return exec;
    launch(exec, graph.hooks(), plan_set, totals().launches_short > short_before);
    graph.launched();
    return exec;
  }
  void launch(Exec exec, const HookSet& held, const HookSet& plan_set, bool may_lack = false) {
    Launched step;
    step.ticket = ++ticket_;
    step.may_lack = may_lack;
    step.header_image = device->allocate_pinned(header_bytes_).value();
    const auto slots = static_cast<std::uint32_t>(options_.hooks);
    step.frame = device->allocate(frame_bytes()).value();
    std::memset(step.header_image, 0, header_bytes_);
    const wire::StepHeader plan{step.ticket, reinterpret_cast<std::uintptr_t>(step.frame), kMagic,
                                slots, 0};
    std::memcpy(step.header_image, &plan, sizeof(plan));
    for (const HookId hook : plan_set.ids()) {
      const wire::SlotPlan slot{static_cast<std::uint32_t>(offset(hook) / wire::kAlign), 1,
                                wire::kAllRows, kPayload / wire::kAlign};
      std::memcpy(step.header_image + wire::slots_offset() + hook * sizeof(slot), &slot,
                  sizeof(slot));
      if (held.contains(hook)) step.expected.push_back(hook);
    }
    ASSERT_TRUE(device->zero(step.frame, wire::census_bytes(slots), stream).ok());
    ASSERT_TRUE(
        device
            ->upload(reinterpret_cast<std::byte*>(header), step.header_image, header_bytes_, stream)
            .ok());
    ASSERT_TRUE(device->launch(exec, stream).ok());
    ASSERT_TRUE(device->close_step(header, stream).ok());
    steps_.push_back(std::move(step));
  }

  /// Waits for all launches. Every planned record must be there and right, unless its launch was
  /// counted as short. Returns how many were missing.
  std::uint64_t verify() {
    engine->run_until_idle();
    std::uint64_t missing = 0;
    for (const Launched& step : steps_) {
      fetch(step);
      for (const HookId hook : step.expected) missing += verify_record(step, hook) ? 0u : 1u;
      device->free(step.frame);
      device->free_pinned(step.header_image);
    }
    EXPECT_EQ(engine->violations(), std::vector<std::string>{});
    EXPECT_EQ(model_runs.load(), expected_model_runs_ += steps_.size())
        << "a specialised exec lost a node of the model";
    steps_.clear();
    return missing;
  }

  /// Nodes of the owner's exec that are disabled.
  [[nodiscard]] std::size_t disabled(const Captured& captured, Exec exec = {}) const {
    std::size_t count = 0;
    for (const Node node : engine->nodes(captured.graph)) {
      const auto on = engine->enabled(exec == Exec{} ? captured.exec : exec, node);
      if (on.ok() && !on.value()) ++count;
    }
    return count;
  }
  /// The producer nodes of a template, in the order of capture.
  [[nodiscard]] std::vector<Node> producers(Graph graph) const { return engine->producers(graph); }
  void pump_all() {
    while (registry->pump()) {
    }
  }

 private:
  const RigOptions options_;

 public:
  const std::shared_ptr<Engine> engine;
  const std::shared_ptr<Device> device;
  std::shared_ptr<Registry> registry;
  CaptureRecorder recorder;
  Stream stream{};
  wire::StepHeader* header = nullptr;
  std::atomic<std::uint64_t> model_runs{0};

 private:
  void make_lane() {
    stream = device->create_stream().value();
    header_bytes_ = wire::header_bytes(static_cast<std::uint32_t>(options_.hooks), 0);
    header = reinterpret_cast<wire::StepHeader*>(device->allocate(header_bytes_).value());
    tensors_ = engine->tensor(options_.hooks * kPayload).value();
  }
  [[nodiscard]] std::uint64_t offset(HookId hook) const {
    return wire::census_bytes(static_cast<std::uint32_t>(options_.hooks)) +
           hook * wire::record_bytes(kPayload);
  }
  [[nodiscard]] std::uint64_t frame_bytes() const {
    return wire::census_bytes(static_cast<std::uint32_t>(options_.hooks)) +
           options_.hooks * wire::record_bytes(kPayload);
  }
  /// Copies a step's frame to where the host can read it.
  void fetch(const Launched& step) {
    if (fetched_ == nullptr) {
      fetched_ = device->allocate_pinned(frame_bytes()).value();
      done_ = device->create_event().value();
    }
    ASSERT_TRUE(device->download(fetched_, step.frame, frame_bytes(), stream).ok());
    ASSERT_TRUE(device->record(done_, stream).ok());
    ASSERT_TRUE(device->synchronize(done_).ok());
  }
  bool verify_record(const Launched& step, HookId hook) {
    wire::RecordHead head{};
    const std::byte* record = fetched_ + offset(hook);
    std::memcpy(&head, record, sizeof(head));
    if (head.magic == 0) {  // never written
      EXPECT_TRUE(step.may_lack) << "hook " << hook << " did not fire in step " << step.ticket;
      return false;
    }
    EXPECT_EQ(head.magic, kMagic);
    EXPECT_EQ(head.ticket, step.ticket);
    EXPECT_EQ(head.hook, hook);
    EXPECT_EQ(head.rows, 1u);
    for (std::size_t i = 0; i < kPayload; ++i) {
      EXPECT_EQ(std::to_integer<int>(record[sizeof(head) + i]), hook + 1);
    }
    return true;
  }

  std::uint64_t header_bytes_ = 0;
  std::byte* tensors_ = nullptr;
  std::byte* fetched_ = nullptr;  // a frame, in pinned memory
  Event done_{};
  std::vector<Launched> steps_;
  std::uint64_t ticket_ = 0;
  std::uint64_t expected_model_runs_ = 0;
};

}  // namespace graphtap::testing
