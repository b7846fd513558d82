#include "cli/graph/graph_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "cli/graph/decoder_maths.hpp"
#include "cli/interrupt.hpp"
#include "plan/planner.hpp"
#include "plan/wire.hpp"

namespace graphtap::cli {
namespace {

constexpr std::size_t kStepsAhead = 4;  // launches in flight, as an engine would have

constexpr std::chrono::seconds kDeadline{120};  // to deliver what is in flight at the end

using Clock = std::chrono::steady_clock;

double micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One tier's run.
class GraphRun {
 public:
  GraphRun(const GraphOptions& options, const HookTable& table, const Schedule& schedule,
           GateTier tier, std::shared_ptr<WatchedSink> store)
      : options_(options),
        table_(table),
        schedule_(schedule),
        device_(std::make_shared<HostDevice>()),
        stream_(device_->create_stream().value_or_throw()),
        traffic_(options.traffic),
        checker_(std::make_shared<Checker>(table, options.shape)),
        totals_(std::make_shared<TotalsSink>(table)),
        store_(std::move(store)),
        decoder_(device_, table_, options.shape,
                 std::max(options.batches.back(), options.traffic.chunk), stream_) {
    MonitorOptions monitor;
    monitor.selection = schedule.switches().front().selection.text();
    monitor.ring_bytes = options.ring_bytes;
    monitor.policy = options.policy;
    monitor.eager = options.eager;
    monitor.tier = tier;
    monitor.retry = WatchedSink::retry();
    monitor.settle_launches = options.settle;
    std::vector<std::shared_ptr<Sink>> sinks{checker_, totals_};
    if (store_) sinks.push_back(store_);
    monitor_ = std::make_unique<Monitor>(device_, table, std::move(monitor), std::move(sinks));
    lane_ = monitor_->make_lane();
    for (const std::uint32_t rows : options.batches) decoder_.capture(*lane_, rows);
    result_.tier = tier;
    for (const Switch& entry : schedule.switches()) {
      GraphPhase phase;
      phase.first_step = entry.step;
      phase.set = in_words(entry.selection);
      phase.hooks = entry.hooks.count();
      result_.phases.push_back(std::move(phase));
    }
    times_.resize(result_.phases.size());
    launch_times_.resize(result_.phases.size());
  }
  ~GraphRun() { device_->run_until_idle(); }
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;

  GraphTierResult run(const std::function<void(std::uint64_t)>& progress);

 private:
  void step(const TrafficStep& work);
  void prefill(const StepShape& shape, std::uint32_t rows);
  void decode(const StepShape& shape, std::size_t phase);
  void note_launch(const CapturedDecode& decode, Exec exec, GraphPhase& phase);
  void wait_for_room();
  void finish();

  const GraphOptions& options_;
  const HookTable& table_;
  const Schedule& schedule_;
  const std::shared_ptr<HostDevice> device_;
  const Stream stream_;
  Traffic traffic_;
  const std::shared_ptr<Checker> checker_;
  const std::shared_ptr<TotalsSink> totals_;
  const std::shared_ptr<WatchedSink> store_;
  std::unique_ptr<Monitor> monitor_;
  std::shared_ptr<Lane> lane_;
  Decoder decoder_;  // before monitor and device
  std::map<std::uint64_t, Request> requests_;
  std::deque<Event> in_flight_;
  GraphTierResult result_;
  std::vector<std::vector<double>> times_, launch_times_;
};

GraphTierResult GraphRun::run(const std::function<void(std::uint64_t)>& progress) {
  while (options_.most_steps == 0 || result_.steps < options_.most_steps) {
    if (InterruptGuard::asked()) {
      result_.interrupted = true;
      break;
    }
    if (store_ && store_->broken()) break;
    const auto work = traffic_.next();
    if (!work) break;
    // Step 0's set is the monitor's own; every later switch is one call, between two launches.
    if (const Switch* entry = schedule_.at(result_.steps); entry && result_.steps > 0) {
      if (Status status = monitor_->enable(entry->selection.text(), options_.apply); !status.ok()) {
        throw Error(status);
      }
    }
    step(*work);
    ++result_.steps;
    progress(result_.steps);
  }
  finish();
  return std::move(result_);
}

void GraphRun::step(const TrafficStep& work) {
  const std::size_t phase = schedule_.phase(result_.steps);
  const Switch& holds = schedule_.switches()[phase];
  std::vector<RowSpan> spans;
  std::vector<DecoderRow> inputs;
  StepTruth truth;
  truth.phase = phase;
  truth.enabled = holds.hooks;
  truth.exact = holds.selection.sampling() == Sampling{};
  if (work.prefill && options_.eager == EagerPolicy::all) truth.enabled = table_.all();
  if (work.prefill && options_.eager == EagerPolicy::none) truth.enabled = table_.none();
  for (const std::uint64_t number : work.joined) {
    const TrafficRequest& request = traffic_.requests()[number];
    requests_[number] = monitor_->begin_request(fmt::format("request-{}", number), request.prompt);
    ++result_.joined;
  }
  result_.preempted += work.preempted.size();
  for (const TrafficSpan& span : work.spans) {
    const Request& request = requests_[span.request];
    spans.push_back({request, span.first, span.rows, RowFlags::none});
    for (std::uint32_t i = 0; i < span.rows; ++i) {
      const std::int64_t position = span.first + i;
      const std::int32_t token =
          decoder_maths::token_at(options_.traffic.seed, span.request, position);
      inputs.push_back({token, position});
      truth.rows.push_back({request->serial, token, position});
    }
    truth.logit_rows.push_back(static_cast<std::uint32_t>(inputs.size()) - 1);
  }
  checker_->expect(std::move(truth));
  wait_for_room();
  decoder_.set_inputs(inputs);
  StepShape shape;
  shape.kind = work.prefill ? StepKind::eager : StepKind::graph;
  shape.tokens = spans;
  if (work.prefill) {
    prefill(shape, static_cast<std::uint32_t>(inputs.size()));
    ++result_.phases[phase].eager_steps;
  } else {
    decode(shape, phase);
    ++result_.phases[phase].graph_steps;
  }
  const Event event = device_->create_event().value_or_throw();
  if (const Status status = device_->record(event, stream_); !status.ok()) throw Error(status);
  in_flight_.push_back(event);
  for (const std::uint64_t number : work.finished) {
    monitor_->finish_request(requests_[number]);
    requests_.erase(number);
    ++result_.finished;
  }
}

void GraphRun::prefill(const StepShape& shape, std::uint32_t rows) {
  Step step = lane_->begin(shape, stream_);
  decoder_.run_eager(*lane_, rows);
  step.end();
}

void GraphRun::decode(const StepShape& shape, std::size_t phase) {
  CapturedDecode* const decode = decoder_.decode_for(shape.tokens.size());
  const auto begin = Clock::now();
  Step step = lane_->begin(shape, stream_);
  const Exec exec = step.prepare(*decode->bound).value_or_throw();
  const auto launch = Clock::now();
  const Status status = device_->launch(exec, stream_);
  const auto launched = Clock::now();
  step.end();
  times_[phase].push_back(micros(Clock::now() - begin));
  launch_times_[phase].push_back(micros(launched - launch));
  if (!status.ok()) throw Error(status);
  note_launch(*decode, exec, result_.phases[phase]);
}

void GraphRun::note_launch(const CapturedDecode& decode, Exec exec, GraphPhase& phase) {
  std::size_t nodes = device_->node_count(exec);
  if (exec == decode.exec) {
    ++phase.owner_launches;
    if (result_.tier != GateTier::soft) {
      for (const Node node : device_->nodes(decode.graph)) {
        const auto enabled = device_->enabled(exec, node);
        if (enabled.ok() && !enabled.value()) --nodes;
      }
    }
  } else {
    ++phase.specialised_launches;
  }
  const bool first = phase.owner_launches + phase.specialised_launches == 1;
  phase.least_nodes = first ? nodes : std::min(phase.least_nodes, nodes);
  phase.most_nodes = first ? nodes : std::max(phase.most_nodes, nodes);
}

void GraphRun::wait_for_room() {
  while (in_flight_.size() >= kStepsAhead) {
    const Event event = in_flight_.front();
    in_flight_.pop_front();
    const Status status = device_->synchronize(event);
    device_->destroy_event(event);
    if (!status.ok()) throw Error(status);
  }
}

void GraphRun::finish() {
  if (!result_.interrupted) {
    for (const auto& [number, request] : requests_) monitor_->finish_request(request);
  }
  device_->run_until_idle();
  for (const Event event : in_flight_) device_->destroy_event(event);
  in_flight_.clear();
  result_.closed = close_monitor(*monitor_, store_.get(), kDeadline);
  checker_->finish();
  result_.stats = monitor_->stats();
  if (store_) result_.stored = store_->lost(result_.stats);
  result_.totals = group_totals(totals_->totals());
  result_.examples = checker_->examples();
  const CapturedDecode& decode = decoder_.decodes().front();
  result_.graph_nodes = decode.nodes;
  result_.producer_nodes = table_.size();
  for (std::size_t i = 0; i < result_.phases.size(); ++i) {
    GraphPhase& phase = result_.phases[i];
    phase.check = checker_->counts(i);
    phase.step_us = median(times_[i]);
    phase.launch_us = median(launch_times_[i]);
  }
}

}  // namespace

CheckCounts GraphTierResult::check() const {
  CheckCounts sum;
  for (const GraphPhase& phase : phases) sum += phase.check;
  return sum;
}

const char* to_string(GateTier tier) noexcept {
  switch (tier) {
    case GateTier::soft:
      return "soft";
    case GateTier::node:
      return "node";
    case GateTier::specialised:
      return "specialised";
  }
  return "unknown";
}

std::uint64_t largest_graph_step(const GraphOptions& options, const HookTable& table,
                                 const Schedule& schedule) {
  std::uint64_t largest = 0;
  for (const Switch& entry : schedule.switches()) {
    std::uint64_t bytes = frame_prologue(StepKind::graph, table.slots());
    for (const HookId id : entry.hooks.ids()) {
      bytes += wire::record_bytes(table[id].row_bytes() * options.batches.back());
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

GraphTierResult run_graphs(const GraphOptions& options, const HookTable& table,
                           const Schedule& schedule, GateTier tier,
                           const std::shared_ptr<WatchedSink>& store,
                           const std::function<void(std::uint64_t)>& progress) {
  return GraphRun(options, table, schedule, tier, store).run(progress);
}

}  // namespace graphtap::cli
