// What the engine does step by step: choosing rows, feeding and launching graphs, running eagerly.
#include "property/support/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap::property {
std::vector<RowSpan> World::choose_rows(std::uint32_t lane_index, std::uint32_t most) {
  while (serving_.size() < 3 || random_.chance(0.2)) {
    Serving serving;
    const auto prompt = static_cast<std::int64_t>(1 + random_.below(12));
    // Two requests may share an id (C3).
    serving.request = monitor_->begin_request(fmt::format("user{}", random_.below(6)), prompt);
    serving.length = prompt + static_cast<std::int64_t>(random_.below(12));
    serving.lane = static_cast<std::uint32_t>(random_.below(lanes_.size()));
    requests_[serving.request->serial] = serving.request;
    serving_.push_back(std::move(serving));
    if (serving_.size() > 8) break;
  }
  std::vector<RowSpan> spans;
  std::uint32_t left = most;
  for (std::size_t i = 0; i < serving_.size() && left > 0; ++i) {
    Serving& serving = serving_[i];
    if (serving.lane != lane_index || random_.chance(0.2)) continue;
    if (random_.chance(0.05)) serving.next = 0;  // preempted: computed again from the start
    const std::int64_t want = serving.next < serving.request->prompt_tokens
                                  ? serving.request->prompt_tokens - serving.next
                                  : 1;
    const auto rows = static_cast<std::uint32_t>(
        std::min<std::int64_t>({want, left, static_cast<std::int64_t>(1 + random_.below(10))}));
    spans.push_back({serving.request, serving.next, rows, RowFlags::none});
    serving.next += rows;
    left -= rows;
  }
  if (random_.chance(0.3)) std::reverse(spans.begin(), spans.end());
  return spans;
}

StepTruth World::describe(const LaneWorld& lane, StepKind kind, const std::vector<RowSpan>& spans) {
  StepTruth truth;
  truth.world_step = ++world_step_;
  truth.kind = kind;
  std::vector<LeaseSpec> leases{default_lease_};
  for (const auto& [lease, spec] : leases_) leases.push_back(spec);
  HookSet enabled = table_.none();
  for (const LeaseSpec& lease : leases) enabled = enabled | lease.hooks;
  const bool eager = kind == StepKind::eager;
  if (eager && options_.eager == EagerPolicy::all) {
    leases = {LeaseSpec{}};
    leases[0].hooks = enabled = table_.all();
  }
  if (eager && options_.eager == EagerPolicy::none) enabled = table_.none();
  for (const RowSpan& span : spans) {
    for (std::uint32_t i = 0; i < span.rows; ++i) {
      const std::int64_t token = span.first_token + i;
      const bool again = !enabled.empty() && token < computed_until_[span.request->serial];
      if (again) ++counts_.recomputed_rows;
      truth.tokens.push_back({span.request->serial, token, again});
    }
    truth.requests.push_back(truth.tokens.back());
    if (!enabled.empty()) {
      auto& until = computed_until_[span.request->serial];
      until = std::max(until, span.first_token + span.rows);
    }
  }
  truth.expert_rows = kExpertRows;
  if (enabled.empty()) return truth;
  for (const HookId id : enabled.ids()) {
    const auto rows = wanted_rows_naively(leases, table_[id], truth, lane.steps, requests_);
    if (rows.empty()) continue;
    for (std::uint16_t k = 0; k < table_[id].ordinals; ++k) truth.wanted[{id, k}] = rows;
  }
  return truth;
}

std::vector<std::byte> World::input_of(const StepTruth& truth) const {
  Input input{};
  input.world_step = truth.world_step;
  input.tokens = static_cast<std::uint32_t>(truth.tokens.size());
  input.requests = static_cast<std::uint32_t>(truth.requests.size());
  for (std::size_t i = 0; i < truth.tokens.size(); ++i) {
    input.token_rows[i] = {truth.tokens[i].serial, truth.tokens[i].token};
  }
  for (std::size_t i = 0; i < truth.requests.size(); ++i) {
    input.request_rows[i] = {truth.requests[i].serial, truth.requests[i].token};
  }
  std::vector<std::byte> bytes(sizeof(input));
  std::memcpy(bytes.data(), &input, sizeof(input));
  return bytes;
}

void World::upload(std::byte* to, const std::vector<std::byte>& bytes, Stream stream) {
  insist([&] {
    return engine_->compute(stream, [to, bytes] { std::memcpy(to, bytes.data(), bytes.size()); });
  });
}

void World::step(std::uint32_t lane_index) {
  LaneWorld& lane = lanes_[lane_index];
  if (random_.chance(0.1)) change_stream(lane);
  const bool eager = random_.chance(0.3);
  std::vector<Captured*> run;
  std::uint32_t most = kMostRows;
  if (!eager) {
    const std::size_t pieces = random_.chance(0.7) ? 1 : 2;  // piecewise models launch several
    for (std::size_t i = 0; i < pieces; ++i) {
      run.push_back(lane.graphs[random_.below(lane.graphs.size())].get());
      most = std::min(most, run.back()->capacity);
    }
  }
  const std::vector<RowSpan> spans = choose_rows(lane_index, most);
  const StepKind kind = eager ? StepKind::eager : StepKind::graph;
  StepTruth& truth = sink_->truth[{lane_index, lane.steps}];
  truth = describe(lane, kind, spans);
  truth.anything_goes = trouble_.faults || trouble_.lost;
  ++lane.steps;
  ++counts_.steps;
  StepShape shape;
  shape.kind = kind;
  shape.tokens = spans;
  shape.expert_rows = kExpertRows;
  Step step = lane.lane->begin(shape, lane.stream);
  if (engine_->faults().lost()) return;
  if (eager) {
    eager_step(lane, truth, std::move(step));
  } else {
    graph_step(lane, truth, std::move(step), run);
  }
}

void World::graph_step(LaneWorld& lane, StepTruth& truth, Step step,
                       const std::vector<Captured*>& run) {
  const std::vector<std::byte> input = input_of(truth);
  bool late = false;
  const auto launch = [&](Captured& graph, const std::vector<std::byte>& its_input) {
    upload(graph.input, its_input, lane.stream);
    if (set_changes_ >= graph.set_changes_seen + 2) ++counts_.doubly_stale;
    graph.set_changes_seen = set_changes_;
    Status launched;
    if (graph.bound) {
      launched = step.launch(*graph.bound);
    } else {
      launched = device_->launch(graph.exec, lane.stream);
    }
    if (!launched.ok() || graph.corrupt) truth.anything_goes = true;
    for (const auto& [firing, times] : graph.fires) truth.fired[firing] += times;
  };
  if (lane.owed != nullptr) {
    // Last step's launch comes under this step's header. Where this step's own launches fire the
    // same hooks, the census tells; a late launch in the place of the right one is beyond what a
    // header can know.
    std::map<Firing, int> own;
    for (const Captured* graph : run) own.insert(graph->fires.begin(), graph->fires.end());
    const bool covered = std::all_of(lane.owed->fires.begin(), lane.owed->fires.end(),
                                     [&](const auto& fire) { return own.count(fire.first) != 0; });
    if (covered && !trouble_.faults && !trouble_.lost) {
      launch(*lane.owed, lane.owed_input);
      late = true;
      ++counts_.late_launches;
    }
    lane.owed = nullptr;
  }
  const double violation = trouble_.violations ? 0.06 : 0.0;
  const bool leave_out = !late && random_.chance(violation);
  for (Captured* graph : run) {
    if (leave_out) continue;
    if (random_.chance(violation)) {  // a node off that the plan has on
      const std::vector<Node> nodes = engine_->producers(graph->graph);
      const Node node = nodes.empty() ? Node{} : nodes[random_.below(nodes.size())];
      if (!late && !nodes.empty()) {
        truth.anything_goes = true;
        (void)device_->set_enabled(graph->exec, node, false);
        launch(*graph, input);
        insist([&] { return device_->set_enabled(graph->exec, node, true); });
        ++counts_.nodes_off;
        continue;
      }
    }
    launch(*graph, input);
    if (random_.chance(violation)) {
      launch(*graph, input);
      ++counts_.double_launches;
    }
  }
  if (leave_out) {
    ++counts_.missed_launches;
    if (random_.chance(0.5)) {
      lane.owed = run[0];
      lane.owed_input = input;
    }
  }
  if (random_.chance(violation / 2)) {
    truth.anything_goes = true;
    ++counts_.aborted;
    return;  // the step goes out of scope unended
  }
  step.end();
}

void World::eager_step(LaneWorld& lane, StepTruth& truth, Step step) {
  ++counts_.eager_steps;
  upload(lane.eager_input, input_of(truth), lane.stream);
  const Stream side = streams_[random_.below(streams_.size())];
  for (const Hook& hook : table_.hooks()) {
    if (trouble_.violations && random_.chance(0.05)) continue;
    for (std::uint16_t k = 0; k < hook.ordinals; ++k) {
      const auto rows = hook.rows == RowBasis::fixed      ? hook.fixed_rows
                        : hook.rows == RowBasis::requests ? truth.requests.size()
                                                          : truth.tokens.size();
      if (rows == 0) continue;
      const Source_ source = make_source(hook, static_cast<std::uint32_t>(rows));
      insist([&] {
        return engine_->compute(lane.stream, [this, &hook, k, source, in = lane.eager_input] {
          fill_source(hook, k, source, in);
        });
      });
      Stream stream = lane.stream;
      if (side != lane.stream && random_.chance(0.3)) {  // a side stream
        follow(side, lane.stream);
        stream = side;
      }
      lane.lane->produce(hook.id, source.layout, stream);
      ++truth.fired[{hook.id, k}];
    }
  }
  step.end();
}

void World::follow(Stream stream, Stream first) {
  Event event{};
  insist([&] {
    const auto created = device_->create_event();
    if (created.ok()) event = created.value();
    return created.status();
  });
  if (event == Event{}) return;  // a lost device
  insist([&] { return device_->record(event, first); });
  insist([&] { return device_->wait(stream, event); });
  device_->destroy_event(event);
}

void World::change_stream(LaneWorld& lane) {
  const Stream next = streams_[random_.below(streams_.size())];
  if (next == lane.stream) return;
  follow(
      next,
      lane.stream);  // the engine orders its own buffers; the monitor orders its header by itself
  lane.stream = next;
  ++counts_.stream_changes;
}

}  // namespace graphtap::property
