#pragma once
// A small engine on the device under test and a monitor in manual mode. Each row of each tensor
// says which hook, ordinal, step and row it is, so that a wrong label is always seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/host/random.hpp"
#include "graphtap/monitor.hpp"
#include "support/engine.hpp"

namespace graphtap::testing {

inline constexpr std::uint64_t kRowBytes = 16;

/// What a row holds.
struct Mark {
  std::uint16_t hook = 0, ordinal = 0;
  std::uint32_t row = 0;
  std::uint64_t step = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};
static_assert(sizeof(Mark) == kRowBytes);

/// A delivered step, copied.
struct SeenRecord {
  HookId hook = 0;
  std::uint16_t ordinal = 0;
  std::uint32_t rows = 0;
  std::vector<std::byte> payload;
  std::vector<Slice> slices;
};
struct SeenGap {
  HookId hook = 0;
  std::uint16_t ordinal = 0;
  GapReason reason{};
  std::vector<Slice> slices;
};
struct SeenStep {
  std::uint64_t ticket = 0, step = 0;
  std::uint32_t lane = 0, part = 0;
  StepKind kind{};
  HookSet wanted;
  std::vector<SeenRecord> records;
  std::vector<SeenGap> gaps;
};

class KeepingSink final : public Sink {
 public:
  [[nodiscard]] std::string name() const override { return "keeping"; }
  Status write(const DeliveredStep& step) override {
    if (refuse) return {Code::io_error, "disk full"};
    SeenStep seen{step.ticket, step.step, step.lane, step.part, step.kind, step.wanted, {}, {}};
    for (const Record& record : step.records) {
      seen.records.push_back({record.hook->id,
                              record.ordinal,
                              record.rows,
                              {record.payload.begin(), record.payload.end()},
                              {record.slices.begin(), record.slices.end()}});
    }
    for (const Gap& gap : step.gaps) {
      seen.gaps.push_back(
          {gap.hook->id, gap.ordinal, gap.reason, {gap.slices.begin(), gap.slices.end()}});
    }
    steps.push_back(std::move(seen));
    return {};
  }
  Status event(const RequestEvent& event) override {
    events.push_back(event);
    return {};
  }
  Status flush() override {
    ++flushes;
    return {};
  }
  [[nodiscard]] std::size_t records() const {
    std::size_t count = 0;
    for (const SeenStep& step : steps) count += step.records.size();
    return count;
  }
  [[nodiscard]] std::size_t gaps(GapReason reason) const {
    std::size_t count = 0;
    for (const SeenStep& step : steps) {
      for (const SeenGap& gap : step.gaps) count += gap.reason == reason;
    }
    return count;
  }
  std::vector<SeenStep> steps;
  std::vector<RequestEvent> events;
  int flushes = 0;
  bool refuse = false;
};

struct Captured {
  Graph graph{};
  Exec exec{};
  std::shared_ptr<BoundGraph> bound;
};

/// resid_pre of `layers` layers, then (by choice) a hook that fires twice, then logits.
inline HookTable layered_table(int layers, bool twice = false) {
  HookTable table("small");
  const auto add = [&](const char* type, int layer, std::uint16_t ordinals) {
    HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.row_shape = {4};
    spec.ordinals = ordinals;
    EXPECT_TRUE(table.add(std::move(spec)).ok());
  };
  for (int layer = 0; layer < layers; ++layer) add("resid_pre", layer, 1);
  if (twice) add("mlp_out", 0, 2);
  return table;
}

inline MonitorOptions small_options() {
  MonitorOptions options;
  options.ring_bytes = 64 << 10;
  options.header_slots = 8;
  options.tier = GateTier::soft;
  options.space_timeout = testing::patience(std::chrono::milliseconds(20));
  options.retry = {1, std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  options.manual = true;
  return options;
}

struct RigOptions {
  int layers = 4;
  bool twice = false;           // layered_table
  std::uint32_t capacity = 16;  // rows of the tensors
  double advance = 0.3;
  std::uint64_t seed = 1;
  MonitorOptions monitor = small_options();
};

inline EngineOptions engine_options(const RigOptions& options) {
  EngineOptions engine;
  engine.seed = options.seed;
  engine.advance = options.advance;
  return engine;
}

class Rig {
 public:
  explicit Rig(const RigOptions& options = {})
      : options_(options),
        engine(make_engine(engine_options(options))),
        device(engine->device()),
        sink(std::make_shared<KeepingSink>()),
        monitor(std::make_unique<Monitor>(device, layered_table(options.layers, options.twice),
                                          options.monitor,
                                          std::vector<std::shared_ptr<Sink>>{sink})) {
    stream = device->create_stream().value();
    lane = monitor->make_lane();
    tensors_ = engine->tensor(slots() * options.capacity * kRowBytes).value();
  }
  ~Rig() {
    engine->faults().clear();
    if (!engine->cooperative()) engine->run_until_idle();  // kernels that still run look into this
  }

  [[nodiscard]] const HookTable& table() const { return monitor->table(); }
  [[nodiscard]] std::uint32_t slots() const { return table().slots(); }
  [[nodiscard]] HookSet set(std::initializer_list<HookId> ids) const {
    return HookSet::of(table().size(), std::vector<HookId>(ids));
  }

  // --- the engine ---
  /// Where ordinal `ordinal` of `hook` finds its tensor.
  [[nodiscard]] Mark* tensor(HookId hook, std::uint16_t ordinal) const {
    return reinterpret_cast<Mark*>(tensors_) +
           std::size_t{table()[hook].first_slot + ordinal} * options_.capacity;
  }
  [[nodiscard]] Source source(HookId hook, std::uint16_t ordinal) const {
    Source source;
    source.data = tensor(hook, ordinal);
    source.rows = options_.capacity;
    source.part_bytes = kRowBytes;
    source.row_stride = kRowBytes;
    return source;
  }
  /// The kernel that makes a hook's tensor, from what the stream's step is when it runs.
  Status compute(HookId hook, std::uint16_t ordinal, Stream on) {
    Mark* const out = tensor(hook, ordinal);
    return engine->compute(on, [this, out, hook, ordinal] {
      for (std::uint32_t row = 0; row < options_.capacity; ++row) {
        out[row] = {hook, ordinal, row, running_step.load()};
      }
    });
  }
  Captured capture(const std::vector<HookId>& hooks) {
    Captured captured;
    EXPECT_TRUE(engine->begin_capture(stream).ok());
    std::map<HookId, std::uint16_t> calls;
    for (const HookId hook : hooks) {
      const std::uint16_t ordinal = next_ordinal(calls, hook);
      EXPECT_TRUE(compute(hook, ordinal, stream).ok());
      lane->produce(hook, source(hook, ordinal), stream);
    }
    captured.graph = engine->end_capture(stream).value();
    captured.exec = device->instantiate(captured.graph, 0).value();
    captured.bound = lane->bind(captured.graph, captured.exec);
    return captured;
  }
  /// Every hook, each as often as it may fire.
  [[nodiscard]] std::vector<HookId> firing_order() const {
    std::vector<HookId> hooks;
    for (const Hook& hook : table().hooks()) hooks.insert(hooks.end(), hook.ordinals, hook.id);
    return hooks;
  }
  Captured capture_all() { return capture(firing_order()); }

  // --- steps ---
  [[nodiscard]] Step begin(StepKind kind, const std::vector<RowSpan>& spans, Stream on) {
    StepShape shape;
    shape.kind = kind;
    shape.tokens = spans;
    declare(spans);
    Step step = lane->begin(shape, on);  // from here on the stream is ordered behind the lane
    (void)engine->compute(on, [this, number = next_step] { running_step = number; });
    ++next_step;
    return step;
  }
  /// The next step has these rows, whoever begins it.
  void declare(const std::vector<RowSpan>& spans) { truth_[next_step] = spans; }
  [[nodiscard]] Step begin(StepKind kind, const std::vector<RowSpan>& spans) {
    return begin(kind, spans, stream);
  }
  Status graph_step(const Captured& graph, const std::vector<RowSpan>& spans) {
    Step step = begin(StepKind::graph, spans);
    const Status status = step.launch(*graph.bound);
    step.end();
    return status;
  }
  void eager_step(const std::vector<HookId>& hooks, const std::vector<RowSpan>& spans) {
    Step step = begin(StepKind::eager, spans);
    fire(hooks, stream);
    step.end();
  }
  void fire(const std::vector<HookId>& hooks, Stream on) {
    std::map<HookId, std::uint16_t> calls;
    for (const HookId hook : hooks) {
      const std::uint16_t ordinal = next_ordinal(calls, hook);
      (void)compute(hook, ordinal, on);
      lane->produce(hook, source(hook, ordinal), on);
    }
  }

  // --- what came of it ---
  /// Lets the device and the monitor run until both rest.
  void settle() {
    for (int quiet = 0; quiet < 40;) {
      bool moved = monitor->pump();
      moved |= engine->run_one();
      if (!moved && !engine->cooperative()) engine->run_until_idle();
      quiet = moved ? 0 : quiet + 1;
    }
  }
  /// Every delivered row is what its label says; all is accounted for; nothing was written
  /// elsewhere.
  void verify() {
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint32_t>> last;
    std::uint64_t records = 0, gaps = 0;
    for (const SeenStep& step : sink->steps) {
      SCOPED_TRACE("step " + std::to_string(step.step));
      const std::pair at{step.step, step.part};
      EXPECT_TRUE(!last.contains(step.lane) || last[step.lane] < at) << "I5";
      last[step.lane] = at;
      for (const SeenRecord& record : step.records) check_record(step, record);
      records += step.records.size();
      gaps += step.gaps.size();
    }
    const Stats stats = monitor->stats();
    EXPECT_EQ(stats.total.planned,
              stats.total.delivered + stats.total.missing() + stats.total.shed())
        << "I3";
    EXPECT_EQ(stats.total.delivered, records);
    EXPECT_EQ(stats.total.missing() + stats.total.shed(), gaps);
    if (!engine->cooperative()) engine->run_until_idle();
    EXPECT_EQ(engine->violations(), std::vector<std::string>{}) << "I4";
  }
  void check_record(const SeenStep& step, const SeenRecord& record) {
    ASSERT_EQ(record.payload.size(), record.rows * kRowBytes);
    for (const Slice& slice : record.slices) {
      for (std::uint32_t i = 0; i < slice.rows; ++i) {
        Mark mark;
        std::memcpy(&mark, record.payload.data() + (slice.row + i) * kRowBytes, kRowBytes);
        const std::uint32_t row = row_of(step.step, slice.request, slice.first_token + i);
        const Mark expected{record.hook, record.ordinal, row, step.step};
        ASSERT_EQ(mark, expected) << "I1: hook " << record.hook << '/' << record.ordinal << " row "
                                  << row << " holds hook " << mark.hook << '/' << mark.ordinal
                                  << " row " << mark.row << " of step " << mark.step;
      }
    }
  }
  /// How many rows of (hook, ordinal) step `step` delivered.
  [[nodiscard]] std::vector<std::uint32_t> rows_delivered(std::uint64_t step, HookId hook,
                                                          std::uint16_t ordinal = 0) const {
    std::vector<std::uint32_t> rows;
    for (const SeenStep& seen : sink->steps) {
      if (seen.step != step) continue;
      for (const SeenRecord& record : seen.records) {
        if (record.hook != hook || record.ordinal != ordinal) continue;
        for (const Slice& slice : record.slices) {
          for (std::uint32_t i = 0; i < slice.rows; ++i) {
            rows.push_back(row_of(step, slice.request, slice.first_token + i));
          }
        }
      }
    }
    return rows;
  }

 private:
  /// Calls beyond those planned show the last one's tensor again.
  std::uint16_t next_ordinal(std::map<HookId, std::uint16_t>& calls, HookId hook) const {
    return std::min<std::uint16_t>(calls[hook]++,
                                   static_cast<std::uint16_t>(table()[hook].ordinals - 1));
  }
  /// The row of the step's tensors that held this token.
  [[nodiscard]] std::uint32_t row_of(std::uint64_t step, const Request& request,
                                     std::int64_t token) const {
    std::uint32_t row = 0;
    for (const RowSpan& span : truth_.at(step)) {
      const bool here = span.request == request && token >= span.first_token &&
                        token < span.first_token + span.rows;
      if (here) return row + static_cast<std::uint32_t>(token - span.first_token);
      row += span.rows;
    }
    ADD_FAILURE() << "token " << token << " was not in step " << step;
    return 0;
  }

  const RigOptions options_;

 public:
  const std::unique_ptr<Engine> engine;
  const std::shared_ptr<Device> device;
  const std::shared_ptr<KeepingSink> sink;
  std::unique_ptr<Monitor> monitor;
  std::shared_ptr<Lane> lane;
  Stream stream{};
  std::uint64_t next_step = 0;
  std::atomic<std::uint64_t> running_step{0};  // what kernels see

 private:
  std::byte* tensors_ = nullptr;
  std::map<std::uint64_t, std::vector<RowSpan>> truth_;
};

}  // namespace graphtap::testing
