// What a hook costs in a decode-shaped graph: 36 layers × 8 kernels that stream 4 MiB each, one
// hook a layer.
//
// Method: every variant is derived from one capture (clone, remove or disable producers,
// instantiate), since two captures of one model may differ by more than the effects. Variants are
// timed in rounds, in random order; a sample is the GPU time of a batch of replays divided by their
// number. Differences are taken within a round.
//
// Plan on an H200: 4 row counts × 7 captures × 8 rounds × 10 variants × 21 steps of 0.74 to 0.95
// ms: 40 s, and up to 35 ms behind each batch at 256 rows until all of it is drained.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "rig.hpp"

namespace graphtap::bench {
namespace {

constexpr const char* kBase = "removed";
constexpr const char* kNever = "never_instrumented";

struct Plan {
  std::vector<int> rows{1, 8, 64, 256};
  int captures = 7, rounds = 8, steps = 20;
};

struct Variant {
  std::string name;
  int hooks = 0;  // its cost is divided by these
  std::function<void()> prepare, step;
};

using Table = std::map<std::string, Samples>;

/// What stays for all captures of one row count.
struct Bench {
  const DecodeModel& model;
  const std::shared_ptr<Device>& device;
  const OwnStream& stream;
  Monitor& monitor;
  DecodeBatch& batch;
  HandWrittenHeader& header;
  BatchTimer& timer;
  int rows;
  std::map<std::string, Counts> drained;  // by variant
};

/// One capture, everything that is derived from it, and its rounds.
void measure_capture(Bench& bench, const Plan& plan, std::mt19937& random, Table& samples) {
  Device& device = *bench.device;
  const Stream stream = bench.stream.handle();
  const int layers = bench.model.shape().layers;
  const std::vector<HookId> all = spread(layers, layers), four = spread(4, layers), none;
  const HookSet all_set = bench.monitor.table().all();
  const HookSet four_set = HookSet::of(all_set.universe(), four);

  const auto lane = bench.monitor.make_lane();
  const Instrumented graph(device, *lane, bench.model, bench.rows, bench.stream.get());
  const Derived inline_exec(device, graph, all, Derived::How::disable);
  const Derived disabled(device, graph, none, Derived::How::disable);
  const Derived removed(device, graph, none, Derived::How::remove);
  const Derived toggled(device, graph, four, Derived::How::disable);
  const Derived specialised(device, graph, four, Derived::How::remove);
  const cudaGraph_t never = bench.model.capture(bench.stream.get());
  const Exec never_exec = take(device.instantiate(to_graph(never), 0), "instantiate");
  // The owner's exec is bound to the template; the lane enables and disables the template's nodes
  // on it.
  const Exec bound_exec = take(device.instantiate(graph.graph(), 0), "instantiate");
  BindOptions binding;
  binding.name = "decode";
  auto bound = lane->bind(graph.graph(), bound_exec, binding);

  const auto write = [&](const std::vector<HookId>& on) {
    return [&] { bench.header.write(graph.header(), on, stream); };
  };
  const auto replay = [&](Exec exec) {
    return [&, exec] { check(device.launch(exec, stream), "launch"); };
  };
  const auto enable = [&](const HookSet& set) {
    return [&] { check(bench.monitor.enable(set), "enable"); };
  };
  const auto native = [&] { native_step(*lane, *bound, bench.batch, stream); };
  std::vector<Variant> variants = {
      {kBase, layers, write(none), replay(removed.exec())},
      {kNever, layers, write(none), replay(never_exec)},
      {"inline_on", layers, write(all), replay(inline_exec.exec())},
      {"soft_off", layers, write(none), replay(inline_exec.exec())},
      {"node_off", layers, write(none), replay(disabled.exec())},
      {"toggled_4_of_36", 4, write(four), replay(toggled.exec())},
      {"specialised_4_of_36", 4, write(four), replay(specialised.exec())},
      {"inline_on_header_drain", layers, enable(all_set), native},
      {"specialised_4_of_36_header_drain", 4, enable(four_set), native},
  };

  check(bench.monitor.enable(four_set), "enable");
  settle(*lane, *bound, bench.batch, bench.stream, bound_exec);
  check(bench.monitor.flush(std::chrono::seconds(20)), "flush");
  for (int round = 0; round < plan.rounds; ++round) {
    std::shuffle(variants.begin(), variants.end(), random);
    for (const Variant& variant : variants) {
      variant.prepare();
      const Counts before = bench.monitor.stats().total;
      samples[variant.name].push_back(
          bench.timer.time(bench.stream.get(), plan.steps, variant.step));
      check(bench.monitor.flush(std::chrono::seconds(20)), "flush");
      const Counts counts = bench.monitor.stats().total - before;
      Counts& sum = bench.drained[variant.name];
      sum.planned += counts.planned;
      sum.delivered += counts.delivered;
      sum.bytes += counts.bytes;
      for (std::size_t i = 0; i < sum.gaps.size(); ++i) sum.gaps[i] += counts.gaps[i];
    }
  }
  check_accounts(bench.monitor.stats());
  bound.reset();
  device.destroy_exec(bound_exec);
  device.destroy_exec(never_exec);
  (void)cudaGraphDestroy(never);
}

void report_rows(Report& report, Bench& bench, const Plan& plan, const Table& samples) {
  const int layers = bench.model.shape().layers;
  for (const auto& [name, values] : samples) {
    const bool is_base = name == kBase;
    const std::string base = is_base ? kNever : kBase;
    const int hooks = name.find("4_of_36") != std::string::npos ? 4 : layers;
    auto& row = report.add_variant(bench.rows, name, base, hooks, values, samples.at(base));
    row["captures"] = plan.captures;
    row["rounds"] = plan.rounds;
    row["steps_a_sample"] = plan.steps;
    if (const Counts& counts = bench.drained[name]; counts.planned > 0) {
      row["records"] = accounts_of(counts);
    }
  }
}

void add_targets(Report& report, const std::map<int, Table>& tables) {
  const auto delta = [&](int rows, const char* variant, const char* base) {
    const Table& table = tables.at(rows);
    return median(differences(table.at(variant), table.at(base)));
  };
  const auto at_most = [&](int rows, const char* variant, const char* base, int hooks, double limit,
                           const char* unit) {
    report.at_most(fmt::format("{} at {} rows over {}", variant, rows, base),
                   fmt::format("{}/{}/{}", rows, variant, base), hooks == 1 ? "delta" : "per_hook",
                   delta(rows, variant, base) / hooks, limit, unit);
  };
  const std::map<int, double> inline_limits = {{1, 1.35}, {8, 1.75}, {64, 2.3}, {256, 3.5}};
  for (const auto& [rows, table] : tables) {
    at_most(rows, "inline_on", kBase, 36, inline_limits.at(rows), "us/hook");
    at_most(rows, kBase, kNever, 36, 0.03, "us/hook");
  }
  at_most(1, "specialised_4_of_36", kBase, 1, 6, "us/step");
  at_most(1, "specialised_4_of_36_header_drain", kBase, 1, 10, "us/step");
  at_most(1, "inline_on_header_drain", "inline_on", 36, 0.15, "us/hook");
}

void body(Report& report, const Settings& settings) {
  Plan plan;
  ModelShape shape;
  if (settings.quick) {
    plan = {{1, 8}, 2, 2, 5};
    shape.kernel_bytes = 256u << 10;
  }
  const auto device = open_device();
  const DecodeModel model(shape);
  const OwnStream stream;
  BatchTimer timer;
  (void)timer.time(stream.get(), settings.quick ? 10 : 600,
                   [&] { model.run(stream.get()); });  // clocks go up
  std::mt19937 random(settings.seed);

  report.extra("device") = device->describe();
  report.extra("graph") = {{"layers", shape.layers},
                           {"kernels_a_layer", shape.kernels},
                           {"bytes_a_kernel", shape.kernel_bytes},
                           {"row_bytes", kRowBytes},
                           {"producers", shape.layers}};
  std::map<int, Table> tables;
  for (const int rows : plan.rows) {
    const Stopwatch watch;
    HandWrittenHeader header(*device, shape.layers, rows);
    MonitorOptions options;
    // A whole batch fits, so that no step waits for the drain and none is shed.
    options.policy = Policy::shed;
    options.ring_bytes = wire::align_up((static_cast<std::uint64_t>(plan.steps) + 2) *
                                        (header.frame_bytes() + 4096));
    options.staging_bytes = std::min<std::uint64_t>(options.ring_bytes, 512u << 20);
    options.settle_launches = 2;
    Monitor monitor(device, table_of(shape.layers), options, {std::make_shared<CountingSink>()});
    DecodeBatch batch(monitor, rows);
    Bench bench{model, device, stream, monitor, batch, header, timer, rows, {}};
    for (int capture = 0; capture < plan.captures; ++capture) {
      measure_capture(bench, plan, random, tables[rows]);
    }
    report_rows(report, bench, plan, tables[rows]);
    check(monitor.close(std::chrono::seconds(20)), "close");
    say(fmt::format("{} rows: {:.1f} s", rows, watch.us() / 1e6));
  }
  add_targets(report, tables);
}

}  // namespace
}  // namespace graphtap::bench

int main(int argc, char** argv) {
  using namespace graphtap::bench;
  return run(argc, argv, "decode_graph", "What a hook costs in a decode-shaped CUDA graph", body);
}
