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

#include "device/host/host_device.hpp"
#include "gate/bound_graph.hpp"
#include "gate/capture_recorder.hpp"
#include "gate/registry.hpp"
#include "plan/wire.hpp"

namespace graphtap::testing {

inline constexpr std::uint64_t kMagic = wire::kMagic ^ 0x5eed;
inline constexpr std::uint64_t kPayload = 16;

struct RigOptions {
  std::size_t hooks = 4;
  GateTier tier = GateTier::specialised;
  std::uint32_t settle = 2;
  std::uint64_t budget = 1ull << 40;
  bool manual = true;
  HostOptions host{HostMode::cooperative, 1, 0.5, true, 0};
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

/// A model with graphs on the host device, and a lane that drives the gate as the monitor does.
class Rig {
 public:
  explicit Rig(const RigOptions& options = {})
      : options_(options), host(std::make_shared<HostDevice>(options.host)) {
    GateOptions gate;
    for (std::size_t i = 0; i < options.hooks; ++i) {
      gate.hook_names.push_back("h" + std::to_string(i));
    }
    gate.tier = options.tier;
    gate.settle_launches = options.settle;
    gate.specialised_budget_bytes = options.budget;
    gate.manual = options.manual;
    registry = Registry::make(host, std::move(gate));
    make_lane();
  }
  /// Another lane of the same device and registry.
  Rig(const RigOptions& options, Rig& other)
      : options_(options), host(other.host), registry(other.registry) {
    make_lane();
  }
  ~Rig() { host->faults().clear(); }

  [[nodiscard]] HookSet set(std::initializer_list<HookId> ids) const {
    return HookSet::of(options_.hooks, std::vector<HookId>(ids));
  }
  [[nodiscard]] HookSet all() const { return HookSet::all(options_.hooks); }
  [[nodiscard]] HookSet none() const { return HookSet::none(options_.hooks); }
  [[nodiscard]] GateTotals totals() const { return registry->totals(); }

  /// What Lane::produce does while a stream is capturing.
  void produce(HookId hook) {
    const CaptureState state = host->capture_state(stream).value();
    const ProducerId id{hook, recorder.next_ordinal(state, hook), hook};
    ASSERT_TRUE(host->produce(call(id), stream).ok());
    recorder.record(*host, state, stream, id, header);
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
    EXPECT_TRUE(host->begin_capture(stream).ok());
    for (const HookId hook : hooks) {
      std::byte* tensor = tensors_ + hook * kPayload;
      EXPECT_TRUE(
          host->compute(stream, [tensor, hook] { std::memset(tensor, hook + 1, kPayload); }).ok());
      produce(hook);
    }
    EXPECT_TRUE(host->compute(stream, [this] { model_runs.fetch_add(1); }).ok());
    if (before_end) before_end();
    captured.graph = host->end_capture(stream).value();
    captured.exec = host->instantiate(captured.graph, 0).value();
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
    step.header_image = host->allocate_pinned(header_bytes_).value();
    const auto slots = static_cast<std::uint32_t>(options_.hooks);
    const std::uint64_t census = wire::census_bytes(slots);
    step.frame = host->allocate(census + options_.hooks * wire::record_bytes(kPayload)).value();
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
    ASSERT_TRUE(
        host->upload(reinterpret_cast<std::byte*>(header), step.header_image, header_bytes_, stream)
            .ok());
    ASSERT_TRUE(host->launch(exec, stream).ok());
    ASSERT_TRUE(host->close_step(header, stream).ok());
    steps_.push_back(std::move(step));
  }

  /// Waits for all launches. Every planned record must be there and right, unless its launch was
  /// counted as short. Returns how many were missing.
  std::uint64_t verify() {
    host->run_until_idle();
    std::uint64_t missing = 0;
    for (const Launched& step : steps_) {
      for (const HookId hook : step.expected) missing += verify_record(step, hook) ? 0u : 1u;
      host->free(step.frame);
      host->free_pinned(step.header_image);
    }
    EXPECT_EQ(host->containment_violations(), 0u);
    EXPECT_EQ(model_runs.load(), expected_model_runs_ += steps_.size())
        << "a specialised exec lost a node of the model";
    steps_.clear();
    return missing;
  }

  /// Nodes of the owner's exec that are disabled.
  [[nodiscard]] std::size_t disabled(const Captured& captured, Exec exec = {}) const {
    std::size_t count = 0;
    for (const Node node : host->nodes(captured.graph)) {
      const auto on = host->enabled(exec == Exec{} ? captured.exec : exec, node);
      if (on.ok() && !on.value()) ++count;
    }
    return count;
  }
  /// The producer nodes of a template, in the order of capture.
  [[nodiscard]] std::vector<Node> producers(Graph graph) const {
    std::vector<Node> found;
    for (const Node node : host->nodes(graph)) {
      if (host->kind(graph, node).value() == NodeKind::producer) found.push_back(node);
    }
    return found;
  }
  void pump_all() {
    while (registry->pump()) {
    }
  }

 private:
  const RigOptions options_;

 public:
  const std::shared_ptr<HostDevice> host;
  std::shared_ptr<Registry> registry;
  CaptureRecorder recorder;
  Stream stream{};
  wire::StepHeader* header = nullptr;
  std::atomic<std::uint64_t> model_runs{0};

 private:
  void make_lane() {
    stream = host->create_stream().value();
    header_bytes_ = wire::header_bytes(static_cast<std::uint32_t>(options_.hooks), 0);
    header = reinterpret_cast<wire::StepHeader*>(host->allocate(header_bytes_).value());
    tensors_ = host->allocate(options_.hooks * kPayload).value();
  }
  [[nodiscard]] std::uint64_t offset(HookId hook) const {
    return wire::census_bytes(static_cast<std::uint32_t>(options_.hooks)) +
           hook * wire::record_bytes(kPayload);
  }
  bool verify_record(const Launched& step, HookId hook) {
    wire::RecordHead head{};
    const std::byte* record = step.frame + offset(hook);
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
  std::vector<Launched> steps_;
  std::uint64_t ticket_ = 0;
  std::uint64_t expected_model_runs_ = 0;
};

}  // namespace graphtap::testing
