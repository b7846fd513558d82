// What happens between the steps: switching, leases, and everything that may go wrong.
#include "property/support/world.hpp"

#include <fmt/format.h>

#include <array>

namespace graphtap::property {
void World::switch_hooks() {
  ++set_changes_;
  const double density[] = {0.0, 0.3, 0.7, 1.0};
  default_lease_ = {};
  default_lease_.hooks = random_set(density[random_.below(4)]);
  const Apply apply = random_.chance(0.5) ? Apply::now : Apply::at_next_launch;
  const Status status = monitor_->enable(default_lease_.hooks, apply);
  if (!status.ok() && !trouble_.faults && !trouble_.lost) errors_.push_back(status.message());
}

void World::change_leases() {
  if (!leases_.empty() && random_.chance(0.5)) {
    leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(random_.below(leases_.size())));
    ++set_changes_;
    return;
  }
  LeaseSpec spec;
  spec.hooks = random_set(0.4);
  if (spec.hooks.empty()) return;
  if (random_.chance(0.5)) spec.requests = {fmt::format("user{}", random_.below(6))};
  if (random_.chance(0.5)) {
    TokenWindow window;
    window.begin = static_cast<std::int64_t>(random_.below(8));
    window.end = window.begin + 1 + static_cast<std::int64_t>(random_.below(8));
    window.from = random_.chance(0.5) ? TokenWindow::From::response : TokenWindow::From::sequence;
    spec.windows = {window};
  }
  spec.sampling.every_step = static_cast<std::uint32_t>(1 + random_.below(3));
  spec.sampling.every_request = static_cast<std::uint32_t>(1 + random_.below(2));
  spec.sampling.phase = std::array{Sampling::Phase::any, Sampling::Phase::decode,
                                   Sampling::Phase::prefill}[random_.below(3)];
  spec.priority = static_cast<int>(random_.below(5));
  if (!spec.unfiltered()) ++counts_.filtered_leases;
  leases_.emplace_back(monitor_->watch(spec), spec);
  ++set_changes_;
}

// A5: a node that says it is another hook's, in the exec and in the template.
void World::swap_ids(Captured& graph) {
  const std::vector<Node> nodes = engine_->producers(graph.graph);
  if (nodes.empty() || table_.size() < 2) return;
  const Node victim = nodes[random_.below(nodes.size())];
  const auto inspected = device_->inspect(graph.graph, victim);
  if (!inspected.ok()) return;  // the device was lost meanwhile
  const NodeInfo info = inspected.value();
  ProducerCall call;
  call.id = info.id;
  call.id.hook = static_cast<std::uint16_t>((info.id.hook + 1) % table_.size());
  call.header = const_cast<wire::StepHeader*>(info.header);
  call.source = make_source(table_[info.id.hook], graph.capacity).layout;
  call.dtype = table_[info.id.hook].dtype;
  insist([&] { return engine_->rewrite_producer(graph.exec, victim, call); });
  insist([&] { return engine_->rewrite_producer(graph.graph, victim, call); });
  graph.corrupt = true;
  ++counts_.swapped_ids;
}

void World::replace_exec(Captured& graph) {
  const auto fresh = device_->instantiate(graph.graph, 0);
  if (!fresh.ok()) return;
  device_->destroy_exec(graph.exec);
  graph.exec = fresh.value();
  ++counts_.replaced_execs;
}

void World::disturb(LaneWorld& lane) {
  switch (random_.below(8)) {
    case 0:
      if (lane.graphs.size() < 5) {
        capture(lane);  // A9
        ++counts_.late_graphs;
      }
      break;
    case 1:
      if (lane.owed == nullptr) replace_exec(*lane.graphs[random_.below(lane.graphs.size())]);
      break;
    case 2:
      if (random_.chance(0.3)) {
        const Status status = lane.lane->clear();
        if (!status.ok() && !trouble_.faults && !trouble_.lost) errors_.push_back(status.message());
        ++counts_.cleared;
      }
      break;
    case 3:
      if (random_.chance(0.3)) {
        (void)monitor_->resize_ring((8u + random_.below(40)) << 10);
        ++counts_.ring_resizes;
      }
      break;
    case 4:
      if (trouble_.violations) {
        Captured& graph = *lane.graphs[random_.below(lane.graphs.size())];
        if (device_->launch(graph.exec, lane.stream).ok()) ++counts_.unplanned_launches;
      }
      break;
    default:
      for (std::uint64_t i = random_.below(30); i > 0; --i) monitor_->pump();
  }
}

void World::set_faults(bool on) {
  if (!trouble_.faults || trouble_.lost) return;
  engine_->faults().clear();
  if (!on) return;
  for (std::size_t i = 0; i < kCalls; ++i) {
    if (random_.chance(0.5)) continue;
    const auto mode = random_.chance(0.5) ? FaultMode::before : FaultMode::after;
    const auto call = static_cast<Call>(i);
    const bool rare = call == Call::cloneable || call == Call::clone || call == Call::instantiate;
    engine_->faults().set_rate(call, rare ? 0.3 : 0.08, mode);
  }
}

// What throws when the device refuses leaves nothing behind, and works once the device does.
void World::despite_refusals(const std::function<void()>& work) {
  for (int attempt = 0; trouble_.faults && attempt < 4; ++attempt) {
    for (const Call call : {Call::allocate, Call::allocate_pinned, Call::create_stream}) {
      engine_->faults().set_rate(call, 0.3, FaultMode::before);
    }
    try {
      work();
      engine_->faults().clear();
      return;
    } catch (const Error&) {
      engine_->faults().clear();
    }
  }
  work();
}

void World::insist(const std::function<Status()>& call) {
  for (int i = 0; i < 2000; ++i) {
    const Status status = call();
    if (status.ok() || status.code() == Code::device_lost) return;
  }
  errors_.push_back("the engine's own device call never went through");
}

// The engine allocates until it succeeds; on a lost device nothing will run, so any memory will do.
std::byte* World::engine_memory(std::size_t bytes) {
  std::byte* memory = nullptr;
  insist([&] {
    const auto allocated = engine_->tensor(bytes);
    if (allocated.ok()) memory = allocated.value();
    return allocated.status();
  });
  if (memory == nullptr) memory = unused_.emplace_back(bytes).data();
  return memory;
}

}  // namespace graphtap::property
