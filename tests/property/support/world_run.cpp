// A whole schedule, and what must be true whenever it rests and at its end.
#include "property/support/world.hpp"

#include <fmt/format.h>

namespace graphtap::property {
void World::check_quiet(const char* when) {
  const Status flushed = monitor_->flush(std::chrono::seconds(300));
  ++counts_.flushes;
  if (!flushed.ok() && flushed.code() != Code::device_lost) {
    errors_.push_back(fmt::format("{}: flush: {}", when, flushed.message()));
  }
  const Stats stats = monitor_->stats();
  for (const Hook& hook : table_.hooks()) {
    const graphtap::Counts& c = stats.hooks[hook.id];
    if (c.planned != c.delivered + c.missing() + c.shed()) {
      errors_.push_back(fmt::format("I3: {} {}: planned {} delivered {} missing {} shed {}", when,
                                    hook.name, c.planned, c.delivered, c.missing(), c.shed()));
    }
  }
  if (stats.total.delivered != sink_->records ||
      stats.total.missing() + stats.total.shed() != sink_->gaps) {
    errors_.push_back(fmt::format(
        "{}: counted {} records and {} gaps, the sink saw {} and {}", when, stats.total.delivered,
        stats.total.missing() + stats.total.shed(), sink_->records, sink_->gaps));
  }
  if (!trouble_.faults && !trouble_.lost && stats.ring_used != 0) {
    errors_.push_back(
        fmt::format("A6: {} bytes of the ring in use after a flush", stats.ring_used));
  }
}

std::vector<std::string> World::run() {
  set_faults(true);
  const std::uint64_t steps = 20 + random_.below(40);
  const std::uint64_t loss = trouble_.lost ? random_.below(steps) : ~0ull;
  for (std::uint64_t i = 0; i < steps; ++i) {
    if (i == loss) {
      const Call calls[] = {Call::record,      Call::wait,         Call::query,   Call::upload,
                            Call::download,    Call::close_step,   Call::produce, Call::launch,
                            Call::set_enabled, Call::capture_state};
      engine_->faults().fail_next(calls[random_.below(std::size(calls))], 1, FaultMode::sticky);
    }
    if (engine_->faults().lost()) break;  // the engine is dead too
    if (random_.chance(0.25)) switch_hooks();
    if (random_.chance(0.15)) change_leases();
    const auto lane = static_cast<std::uint32_t>(random_.below(lanes_.size()));
    if (random_.chance(0.4)) disturb(lanes_[lane]);
    step(lane);
    for (std::size_t s = 0; s < serving_.size();) {
      if (serving_[s].next >= serving_[s].length) {
        monitor_->finish_request(serving_[s].request);
        serving_.erase(serving_.begin() + static_cast<std::ptrdiff_t>(s));
      } else {
        ++s;
      }
    }
    if (random_.chance(0.05)) check_quiet("midway");
    if (errors_.size() + sink_->errors.size() > 10) break;
  }
  finish();
  return errors_;
}

void World::finish() {
  if (trouble_.lost && engine_->faults().lost()) ++counts_.lost_devices;
  for (Serving& serving : serving_) monitor_->finish_request(serving.request);
  engine_->faults().clear();
  check_quiet("at the end");
  sink_->check_complete();
  const Stats stats = monitor_->stats();
  counts_.wraps += stats.ring_wraps;
  counts_.sheds += stats.total.shed();
  counts_.exec_swaps += stats.exec_swaps;
  counts_.records += sink_->records;
  counts_.gaps += sink_->gaps;
  counts_.ordinals += sink_->ordinals;
  for (const SinkStats& sink : stats.sinks) {
    counts_.sink_failures += sink.failures;
    if (sink.lost_steps > 0) {
      errors_.push_back(fmt::format("the sink lost {} steps", sink.lost_steps));
    }
  }
  const Status closed = monitor_->close(std::chrono::seconds(60));
  if (!closed.ok() && closed.code() != Code::device_lost && !trouble_.lost) {
    errors_.push_back("close: " + closed.message());
  }
  if (!engine_->faults().lost()) {
    // A13 and detaching: graphs that keep replaying after the end write nothing, anywhere.
    for (LaneWorld& lane : lanes_) {
      for (const auto& graph : lane.graphs) {
        graph->bound.reset();  // what a failing device kept disabled is tried again here
        for (const Node node : engine_->nodes(graph->graph)) {
          const auto on = engine_->enabled(graph->exec, node);
          if (on.ok() && !on.value()) errors_.push_back("A13: a node was left disabled");
        }
        (void)device_->launch(graph->exec, lane.stream);
      }
    }
  }
  engine_->run_until_idle();
  lanes_.clear();
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (std::size_t mode = 0; mode < kFaultModes; ++mode) {
      counts_.faults[call][mode] +=
          engine_->faults().injected(static_cast<Call>(call), static_cast<FaultMode>(mode));
    }
  }
  for (const std::string& violation : engine_->violations()) errors_.push_back("I4: " + violation);
  errors_.insert(errors_.end(), sink_->errors.begin(), sink_->errors.end());
}

}  // namespace graphtap::property
