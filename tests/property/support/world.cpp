#include "property/support/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap::property {
namespace {

constexpr std::uint32_t kMostRows = 24;
constexpr std::uint32_t kExpertRows = 3;

// What a step's kernels read: whose row each row is.
struct InputRow {
  std::uint64_t serial;
  std::int64_t token;
};
struct Input {
  std::uint64_t world_step;
  std::uint32_t tokens;
  std::uint32_t requests;
  InputRow token_rows[kMostRows];
  InputRow request_rows[kMostRows];
};

}  // namespace

World::World(std::uint64_t seed, Trouble trouble, Counts& counts)
    : random_(seed), trouble_(trouble), counts_(counts) {
  HostOptions options;
  options.mode = HostMode::cooperative;
  options.seed = seed * 2 + 1;
  const double advance[] = {0.03, 0.2, 0.5, 0.9};
  options.advance = advance[random_.below(4)];
  options.quarantine = true;
  device_ = std::make_shared<HostDevice>(options);
  make_table();
  make_monitor();
}

World::~World() = default;

void World::make_table() {
  const char* layered[] = {"resid_pre", "q", "mlp_out", "z"};
  const char* global[] = {"embed", "final_logits", "token_ids"};
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f8_e4m3, DType::i64, DType::boolean};
  const auto shape = [&]() -> std::vector<std::int64_t> {
    const auto n = [&](std::uint64_t most) { return static_cast<std::int64_t>(1 + random_.below(most)); };
    if (random_.chance(0.4)) return {n(3), n(9)};
    return {n(40)};
  };
  const int layers = static_cast<int>(1 + random_.below(4));
  const std::size_t kinds = 1 + random_.below(4);
  for (int layer = 0; layer < layers; ++layer) {
    for (std::size_t k = 0; k < kinds; ++k) {
      HookSpec spec;
      spec.type = layered[k];
      spec.layer = layer;
      spec.dtype = dtypes[random_.below(5)];
      spec.row_shape = shape();
      if (random_.chance(0.25)) spec.ordinals = static_cast<std::uint16_t>(2 + random_.below(2));
      (void)table_.add(spec).value_or_throw();
    }
  }
  for (const char* type : global) {
    if (random_.chance(0.5)) {
      (void)table_.add({type, -1, dtypes[random_.below(5)], shape(), 1, 1}).value_or_throw();
    }
  }
}

void World::make_monitor() {
  options_.manual = true;
  const std::uint64_t rings[] = {6 << 10, 12 << 10, 32 << 10, 256 << 10};
  options_.ring_bytes = rings[random_.below(4)];
  options_.staging_bytes = rings[random_.below(4)];
  options_.header_slots = static_cast<std::uint32_t>(1 + random_.below(6));
  options_.max_gather_rows = 256;
  // A sink that is refused has time to recover under `lossless` only.
  options_.policy =
      random_.chance(0.5) && !trouble_.failing_sink ? Policy::shed : Policy::lossless;
  options_.space_timeout = std::chrono::seconds(60);
  options_.eager = std::array{EagerPolicy::same, EagerPolicy::all,
                              EagerPolicy::none}[random_.chance(0.6) ? 0 : random_.below(3)];
  options_.tier = std::array{GateTier::soft, GateTier::node, GateTier::specialised,
                             GateTier::specialised}[random_.below(4)];
  options_.settle_launches = static_cast<std::uint32_t>(1 + random_.below(3));
  options_.retry.first_backoff = options_.retry.longest_backoff = std::chrono::milliseconds(0);
  sink_ = std::make_shared<CheckingSink>(table_);
  sink_->strict = !trouble_.faults && !trouble_.lost;
  if (trouble_.failing_sink) sink_->fail_every = 2 + random_.below(4);
  for (int i = 0; i < 3; ++i) streams_.push_back(device_->create_stream().value());
  despite_refusals([&] {
    monitor_ = std::make_unique<Monitor>(device_, table_, options_,
                                         std::vector<std::shared_ptr<Sink>>{sink_});
  });
  default_lease_.hooks = table_.all();
  lanes_.resize(1 + random_.below(2));
  for (LaneWorld& lane : lanes_) {
    despite_refusals([&] { lane.lane = monitor_->make_lane(); });
    lane.stream = streams_[random_.below(3)];
    lane.eager_input = engine_memory(sizeof(Input));
  }
  for (LaneWorld& lane : lanes_) {
    const std::size_t graphs = 1 + random_.below(3);
    for (std::size_t i = 0; i < graphs; ++i) capture(lane);
  }
}

// What throws when the device refuses leaves nothing behind, and works once the device does.
template <class Work>
void World::despite_refusals(Work work) {
  for (int attempt = 0; trouble_.faults && attempt < 4; ++attempt) {
    for (const Call call : {Call::allocate, Call::allocate_pinned, Call::create_stream}) {
      device_->faults().set_rate(call, 0.3, FaultMode::before);
    }
    try {
      work();
      device_->faults().clear();
      return;
    } catch (const Error&) {
      device_->faults().clear();
    }
  }
  work();
}

template <class Call>
void World::insist(Call call) {
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
    const auto allocated = device_->allocate(bytes);
    if (allocated.ok()) memory = allocated.value();
    return allocated.status();
  });
  if (memory == nullptr) memory = unused_.emplace_back(bytes).data();
  return memory;
}

HookSet World::random_set(double density) {
  std::vector<HookId> ids;
  for (const Hook& hook : table_.hooks()) {
    if (random_.chance(density)) ids.push_back(hook.id);
  }
  return HookSet::of(table_.size(), ids);
}

// ---- Graphs

World::Source_ World::make_source(const Hook& hook, std::uint32_t rows) {
  Source_ source;
  Source& s = source.layout;
  s.rows = rows;
  const bool split = hook.row_shape.size() == 2;
  s.parts = split ? static_cast<std::uint32_t>(hook.row_shape[0]) : 1;
  s.part_bytes = hook.row_bytes() / s.parts;
  s.part_stride = static_cast<std::int64_t>(s.part_bytes + random_.below(3) * 8);
  s.row_stride = s.part_stride * s.parts + static_cast<std::int64_t>(random_.below(4) * 16);
  const auto bytes = static_cast<std::size_t>(s.row_stride) * rows;
  source.data = engine_memory(bytes);
  s.data = source.data;
  if (random_.chance(0.2)) {  // rows stored backwards
    s.data = source.data + s.row_stride * (rows - 1);
    s.row_stride = -s.row_stride;
  }
  return source;
}

// What the model's kernel would do: compute every row from the step's input.
void World::fill_source(const Hook& hook, std::uint16_t ordinal, const Source_& source,
                        const std::byte* input_bytes) const {
  Input input;
  std::memcpy(&input, input_bytes, sizeof(input));
  const Source& s = source.layout;
  std::vector<std::byte> row(hook.row_bytes());
  for (std::uint32_t r = 0; r < s.rows; ++r) {
    InputRow owner{0, r};
    std::uint32_t real = s.rows;
    if (hook.rows == RowBasis::tokens) {
      owner = input.token_rows[r];
      real = input.tokens;
    } else if (hook.rows == RowBasis::requests) {
      owner = input.request_rows[r];
      real = input.requests;
    }
    write_marker(row.data(), row.size(), {hook.id, ordinal}, owner.serial, owner.token,
                 r < real ? input.world_step : ~0ull);
    const auto* base = static_cast<const std::byte*>(s.data) + r * s.row_stride;
    for (std::uint32_t p = 0; p < s.parts; ++p) {
      std::memcpy(const_cast<std::byte*>(base) + p * s.part_stride,
                  row.data() + p * s.part_bytes, s.part_bytes);
    }
  }
}

void World::capture(LaneWorld& lane) {
  auto graph = std::make_unique<Captured>();
  graph->capacity = static_cast<std::uint32_t>(4 + random_.below(kMostRows - 3));
  graph->input = engine_memory(sizeof(Input));
  insist([&] { return device_->begin_capture(lane.stream); });
  std::map<HookId, std::uint16_t> calls;
  for (const Hook& hook : table_.hooks()) {
    if (random_.chance(0.15)) continue;  // A10: graphs with different subsets
    const std::uint64_t times = 1 + (hook.ordinals > 1 ? random_.below(hook.ordinals + 1u) : 0);
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::uint32_t rows = hook.rows == RowBasis::fixed ? hook.fixed_rows : graph->capacity;
      const Source_ source = make_source(hook, rows);
      const std::uint16_t ordinal = calls[hook.id]++;
      insist([&] {
        return device_->compute(lane.stream, [this, &hook, ordinal, source, in = graph->input] {
          fill_source(hook, ordinal, source, in);
        });
      });
      lane.lane->produce(hook.id, source.layout, lane.stream);
      if (ordinal < hook.ordinals) ++graph->fires[{hook.id, ordinal}];
    }
  }
  const auto captured = device_->end_capture(lane.stream);
  if (!captured.ok()) return;  // the device was lost meanwhile
  graph->graph = captured.value();
  insist([&] {
    const auto exec = device_->instantiate(graph->graph, 0);
    if (exec.ok()) graph->exec = exec.value();
    return exec.status();
  });
  if (graph->exec == Exec{}) return;
  if (trouble_.violations && random_.chance(0.15)) swap_ids(*graph);
  if (!random_.chance(0.1)) {  // the others stay unbound: the soft gate serves them
    BindOptions bind;
    bind.name = fmt::format("graph {}", next_name_++);
    bind.current_exec = [raw = graph.get()] { return raw->exec; };
    graph->bound = lane.lane->bind(graph->graph, graph->exec, bind);
  }
  graph->set_changes_seen = set_changes_;
  lane.graphs.push_back(std::move(graph));
}

std::vector<Node> World::producers(Graph graph) {
  std::vector<Node> found;
  for (const Node node : device_->nodes(graph)) {
    const auto kind = device_->kind(graph, node);
    if (kind.ok() && kind.value() == NodeKind::producer) found.push_back(node);
  }
  return found;
}

// A5: a node that says it is another hook's, in the exec and in the template.
void World::swap_ids(Captured& graph) {
  const std::vector<Node> nodes = producers(graph.graph);
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
  insist([&] { return device_->rewrite_producer(graph.exec, victim, call); });
  insist([&] { return device_->rewrite_producer(graph.graph, victim, call); });
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

// ---- Steps

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
    return device_->compute(stream, [to, bytes] { std::memcpy(to, bytes.data(), bytes.size()); });
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
  if (device_->faults().lost()) return;
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
    // Last step's launch comes under this step's header. Where this step's own launches fire the same hooks,
    // the census tells; a late launch in the place of the right one is beyond what a header can know.
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
      const std::vector<Node> nodes = producers(graph->graph);
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
        return device_->compute(lane.stream, [this, &hook, k, source, in = lane.eager_input] {
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

// ---- Switching and trouble

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
  follow(next, lane.stream);  // the engine orders its own buffers; the monitor orders its header by itself
  lane.stream = next;
  ++counts_.stream_changes;
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
  device_->faults().clear();
  if (!on) return;
  for (std::size_t i = 0; i < kCalls; ++i) {
    if (random_.chance(0.5)) continue;
    const auto mode = random_.chance(0.5) ? FaultMode::before : FaultMode::after;
    const auto call = static_cast<Call>(i);
    const bool rare = call == Call::cloneable || call == Call::clone || call == Call::instantiate;
    device_->faults().set_rate(call, rare ? 0.3 : 0.08, mode);
  }
}

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
  if (stats.total.delivered != sink_->records || stats.total.missing() + stats.total.shed() != sink_->gaps) {
    errors_.push_back(fmt::format("{}: counted {} records and {} gaps, the sink saw {} and {}", when,
                                  stats.total.delivered, stats.total.missing() + stats.total.shed(),
                                  sink_->records, sink_->gaps));
  }
  if (!trouble_.faults && !trouble_.lost && stats.ring_used != 0) {
    errors_.push_back(fmt::format("A6: {} bytes of the ring in use after a flush", stats.ring_used));
  }
}

std::vector<std::string> World::run() {
  set_faults(true);
  const std::uint64_t steps = 20 + random_.below(40);
  const std::uint64_t loss = trouble_.lost ? random_.below(steps) : ~0ull;
  for (std::uint64_t i = 0; i < steps; ++i) {
    if (i == loss) {
      const Call calls[] = {Call::record, Call::wait, Call::query, Call::upload, Call::download,
                            Call::close_step, Call::produce, Call::launch, Call::set_enabled,
                            Call::capture_state};
      device_->faults().fail_next(calls[random_.below(std::size(calls))], 1, FaultMode::sticky);
    }
    if (device_->faults().lost()) break;  // the engine is dead too
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
  if (trouble_.lost && device_->faults().lost()) ++counts_.lost_devices;
  for (Serving& serving : serving_) monitor_->finish_request(serving.request);
  device_->faults().clear();
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
  if (!device_->faults().lost()) {
    // A13 and detaching: graphs that keep replaying after the end write nothing, anywhere.
    for (LaneWorld& lane : lanes_) {
      for (const auto& graph : lane.graphs) {
        graph->bound.reset();  // what a failing device kept disabled is tried again here
        for (const Node node : device_->nodes(graph->graph)) {
          const auto on = device_->enabled(graph->exec, node);
          if (on.ok() && !on.value()) errors_.push_back("A13: a node was left disabled");
        }
        (void)device_->launch(graph->exec, lane.stream);
      }
    }
    device_->run_until_idle();
  }
  lanes_.clear();
  for (std::size_t call = 0; call < kCalls; ++call) {
    for (std::size_t mode = 0; mode < kFaultModes; ++mode) {
      counts_.faults[call][mode] +=
          device_->faults().injected(static_cast<Call>(call), static_cast<FaultMode>(mode));
    }
  }
  for (const std::string& violation : device_->violations()) errors_.push_back("I4: " + violation);
  errors_.insert(errors_.end(), sink_->errors.begin(), sink_->errors.end());
}

}  // namespace graphtap::property
