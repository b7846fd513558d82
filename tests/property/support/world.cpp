#include "property/support/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace graphtap::property {
namespace {

testing::EngineOptions engine_options(std::uint64_t seed, double advance) {
  testing::EngineOptions options;
  options.seed = seed * 2 + 1;
  options.advance = advance;
  return options;
}

}  // namespace

World::World(std::uint64_t seed, Trouble trouble, Counts& counts)
    : random_(seed), trouble_(trouble), counts_(counts) {
  const double advance[] = {0.03, 0.2, 0.5, 0.9};
  engine_ = testing::make_engine(engine_options(seed, advance[random_.below(4)]));
  device_ = engine_->device();
  make_table();
  make_monitor();
}

// Kernels that still run read what goes now.
World::~World() { engine_->run_until_idle(); }

void World::make_table() {
  const char* layered[] = {"resid_pre", "q", "mlp_out", "z"};
  const char* global[] = {"embed", "final_logits", "token_ids"};
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f8_e4m3, DType::i64, DType::boolean};
  const auto shape = [&]() -> std::vector<std::int64_t> {
    const auto n = [&](std::uint64_t most) {
      return static_cast<std::int64_t>(1 + random_.below(most));
    };
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
  options_.policy = random_.chance(0.5) && !trouble_.failing_sink ? Policy::shed : Policy::lossless;
  // Virtual seconds, or real ones; then the step is shed.
  options_.space_timeout = std::chrono::seconds(engine_->cooperative() ? 60 : 3);
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

HookSet World::random_set(double density) {
  std::vector<HookId> ids;
  for (const Hook& hook : table_.hooks()) {
    if (random_.chance(density)) ids.push_back(hook.id);
  }
  return HookSet::of(table_.size(), ids);
}

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
      std::memcpy(const_cast<std::byte*>(base) + p * s.part_stride, row.data() + p * s.part_bytes,
                  s.part_bytes);
    }
  }
}

void World::capture(LaneWorld& lane) {
  auto graph = std::make_unique<Captured>();
  graph->capacity = static_cast<std::uint32_t>(4 + random_.below(kMostRows - 3));
  graph->input = engine_memory(sizeof(Input));
  insist([&] { return engine_->begin_capture(lane.stream); });
  std::map<HookId, std::uint16_t> calls;
  for (const Hook& hook : table_.hooks()) {
    if (random_.chance(0.15)) continue;  // A10: graphs with different subsets
    const std::uint64_t times = 1 + (hook.ordinals > 1 ? random_.below(hook.ordinals + 1u) : 0);
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::uint32_t rows = hook.rows == RowBasis::fixed ? hook.fixed_rows : graph->capacity;
      const Source_ source = make_source(hook, rows);
      const std::uint16_t ordinal = calls[hook.id]++;
      insist([&] {
        return engine_->compute(lane.stream, [this, &hook, ordinal, source, in = graph->input] {
          fill_source(hook, ordinal, source, in);
        });
      });
      lane.lane->produce(hook.id, source.layout, lane.stream);
      if (ordinal < hook.ordinals) ++graph->fires[{hook.id, ordinal}];
    }
  }
  const auto captured = engine_->end_capture(lane.stream);
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

}  // namespace graphtap::property
