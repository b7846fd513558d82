// What switching costs the host: the desired set, the node gate, the steps themselves, and the
// device's calls.
//
// Plan on an H200: about 35 s, of which 15 s are builds of execs and 5 s the running model beside
// them.
#include "switching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace graphtap::bench {
namespace {

MonitorOptions options_of(GateTier tier) {
  MonitorOptions options;
  options.tier = tier;
  options.settle_launches = 2;
  options.ring_bytes = 256u << 20;
  return options;
}

constexpr std::size_t kSmallKernel = 16u << 10;  // a step whose GPU time is launches only

}  // namespace

BoundModel::BoundModel(const SwitchBench& bench, const ModelShape& shape, GateTier tier, int rows)
    : model(shape),
      monitor(bench.device, table_of(shape.layers), options_of(tier),
              {std::make_shared<CountingSink>()}),
      lane(monitor.make_lane()),
      batch(monitor, rows),
      graph(*bench.device, *lane, model, rows, bench.stream.get()),
      owner(take(bench.device->instantiate(graph.graph(), 0), "instantiate")),
      bound(lane->bind(graph.graph(), owner)),
      device_(*bench.device) {}

BoundModel::~BoundModel() {
  bound.reset();
  device_.destroy_exec(owner);
}

void measure_set_swap(const SwitchBench& bench) {
  for (const int graphs : {1, 24}) {
    BoundModel rig(bench, {36, 1, kSmallKernel, 0}, GateTier::node);
    std::vector<std::unique_ptr<Instrumented>> others;
    std::vector<Exec> execs;
    std::vector<std::shared_ptr<BoundGraph>> bound;
    for (int i = 1; i < graphs; ++i) {
      others.push_back(std::make_unique<Instrumented>(*bench.device, *rig.lane, rig.model, 1,
                                                      bench.stream.get()));
      execs.push_back(take(bench.device->instantiate(others.back()->graph(), 0), "instantiate"));
      bound.push_back(rig.lane->bind(others.back()->graph(), execs.back()));
    }
    const HookSet all = rig.monitor.table().all();
    const HookSet four = HookSet::of(all.universe(), spread(4, 36));
    Samples swap;
    constexpr int kSwaps = 500;
    for (int i = 0; i < bench.count(100); ++i) {
      const Stopwatch watch;
      for (int k = 0; k < kSwaps; ++k) check(rig.monitor.enable(k % 2 == 0 ? four : all), "enable");
      swap.push_back(watch.us() / kSwaps);
    }
    const std::string name = fmt::format("set_swap_{}_graphs", graphs);
    bench.report.add_measure(name, "us", swap);
    bench.report.at_most(fmt::format("swap of the desired set, {} bound graphs", graphs), name,
                         "median", median(swap), 1.0, "us");
    bound.clear();
    for (const Exec exec : execs) bench.device->destroy_exec(exec);
  }
}

// 36 nodes on or off: by Apply::now, by the next launch, and what the driver alone takes for it.
void measure_node_gate(const SwitchBench& bench) {
  BoundModel rig(bench, {}, GateTier::node);
  const HookSet all = rig.monitor.table().all(), none = rig.monitor.table().none();
  const Stream stream = bench.stream.handle();
  const auto launch = [&] {
    Step step = rig.lane->begin(rig.batch.next(), stream);
    const Stopwatch watch;
    check(step.launch(*rig.bound), "launch");
    const double us = watch.us();
    step.end();
    bench.stream.synchronize();
    return us;
  };
  const auto changed_all = [&] {
    if (rig.monitor.stats().nodes_changed_last != 36) fail("a change did not reach 36 nodes");
  };
  for (int i = 0; i < 20; ++i) (void)launch();

  Samples now, catch_up, plain;
  for (int i = 0; i < bench.count(200); ++i) {
    const HookSet& set = i % 2 == 0 ? none : all;
    const Stopwatch watch;
    check(rig.monitor.enable(set, Apply::now), "enable now");
    now.push_back(watch.us());
    changed_all();
    (void)launch();
  }
  check(rig.monitor.enable(all), "enable");
  (void)launch();
  for (int i = 0; i < bench.count(200); ++i) {
    check(rig.monitor.enable(i % 2 == 0 ? none : all), "enable");
    catch_up.push_back(launch());
    changed_all();
    plain.push_back(launch());
  }
  rig.flush();
  check_accounts(rig.monitor.stats());
  bench.report.add_measure("apply_now_36_nodes", "us", now);
  bench.report.add_measure("launch_plain", "us", plain);
  bench.report.add_measure("launch_that_catches_up_36_nodes", "us", catch_up);
  bench.report.add_difference("catch_up_36_nodes_extra", "us", catch_up, plain);

  // The driver's part: the calls, and the launch behind them.
  const Derived raw(*bench.device, rig.graph, {},
                    Derived::How::remove);  // warms the clone path only
  const Exec exec = take(bench.device->instantiate(rig.graph.graph(), 0), "instantiate");
  const auto bare = [&](Exec which) {
    const Stopwatch watch;
    check(cudaGraphLaunch(cuda(which), bench.stream.get()), "launch");
    const double us = watch.us();
    bench.stream.synchronize();
    return us;
  };
  (void)bare(raw.exec());
  for (int i = 0; i < 10; ++i) (void)bare(exec);
  Samples calls, after, before;
  for (int i = 0; i < bench.count(200); ++i) {
    before.push_back(bare(exec));
    const Stopwatch watch;
    for (HookId hook = 0; hook < 36; ++hook) {
      check(bench.device->set_enabled(exec, rig.graph.producer(hook), i % 2 != 0), "set enabled");
    }
    calls.push_back(watch.us());
    after.push_back(bare(exec));
  }
  bench.device->destroy_exec(exec);
  bench.report.add_measure("device_set_enabled_36_nodes", "us", calls);
  bench.report.add_difference("bare_launch_after_set_enabled_extra", "us", after, before);
}

// begin + launch + end, net of a bare launch of the very exec that the step launches.
void measure_host_cost(const SwitchBench& bench) {
  BoundModel rig(bench, {}, GateTier::specialised);
  const std::size_t hooks = rig.monitor.table().size();
  const Stream stream = bench.stream.handle();
  constexpr int kSteps = 8;  // queued at once: far from filling the queue
  for (const auto& [enabled, limit] : {std::pair{0, 0.2}, std::pair{4, 6.0}, std::pair{36, 12.0}}) {
    check(rig.monitor.enable(HookSet::of(hooks, spread(enabled, 36))), "enable");
    if (enabled < 36) settle(*rig.lane, *rig.bound, rig.batch, bench.stream, rig.owner);
    Exec exec{};
    {
      Step step = rig.lane->begin(rig.batch.next(), stream);
      exec = take(step.prepare(*rig.bound), "prepare");
      check(step.launch(*rig.bound), "launch");
      step.end();
    }
    Samples bare, native;
    const auto batch_of = [&](Samples& samples, const std::function<void()>& step) {
      bench.stream.synchronize();
      const Stopwatch watch;
      for (int k = 0; k < kSteps; ++k) step();
      samples.push_back(watch.us() / kSteps);
      bench.stream.synchronize();
      rig.flush();
    };
    const auto launch = [&] { check(cudaGraphLaunch(cuda(exec), bench.stream.get()), "launch"); };
    const auto step = [&] { native_step(*rig.lane, *rig.bound, rig.batch, stream); };
    for (int i = 0; i < bench.count(200); ++i) {
      if (i % 2 == 0) batch_of(bare, launch);
      batch_of(native, step);
      if (i % 2 != 0) batch_of(bare, launch);
    }
    const std::string name = fmt::format("host_step_{}_hooks_net", enabled);
    bench.report.add_difference(name, "us", native, bare);
    bench.report.at_most(
        fmt::format("host cost of a step with {} hooks, net of its launch", enabled), name,
        "median", median(differences(native, bare)), limit, "us");
  }
  check_accounts(rig.monitor.stats());
}

void measure_device_calls(const SwitchBench& bench) {
  Device& device = *bench.device;
  const Stream stream = bench.stream.handle();
  constexpr std::uint32_t kSlots = 36;
  const std::uint64_t bytes = wire::header_bytes(kSlots, 0);
  std::byte* const memory = take(device.allocate(bytes), "allocate a header");
  device.retain(memory);
  auto* const header = reinterpret_cast<wire::StepHeader*>(memory);
  std::byte* const pinned = take(device.allocate_pinned(bytes), "allocate pinned");
  std::byte* const frame = take(device.allocate(1u << 20), "allocate a frame");
  std::byte* const source = take(device.allocate(kRowBytes), "allocate a source");
  const Event event = take(device.create_event(), "create an event");
  const OwnStream other;

  ProducerCall eager;
  eager.source = rows_of(source, 1);
  eager.dtype = DType::bf16;
  eager.ticket = 1;
  eager.frame = frame;
  eager.magic = wire::kMagic;
  eager.plan = {1, 1, wire::kAllRows, kRowBytes / 16};
  ProducerCall off;
  off.source = eager.source;
  off.dtype = DType::bf16;
  off.header = header;

  const auto measure = [&](const std::string& name, const std::function<Status()>& call) {
    constexpr int kCalls = 32;
    Samples samples;
    for (int i = 0; i < bench.count(100); ++i) {
      bench.stream.synchronize();
      other.synchronize();
      const Stopwatch watch;
      for (int k = 0; k < kCalls; ++k) check(call(), name.c_str());
      samples.push_back(watch.us() / kCalls);
    }
    bench.report.add_measure("call_" + name, "us", samples);
  };
  measure("capture_state", [&] { return device.capture_state(stream).status(); });
  measure("record", [&] { return device.record(event, stream); });
  measure("wait", [&] { return device.wait(other.handle(), event); });
  measure("query", [&] { return device.query(event).status(); });
  measure(fmt::format("upload_{}_bytes", bytes),
          [&] { return device.upload(memory, pinned, bytes, stream); });
  measure("zero_census", [&] { return device.zero(frame, wire::census_bytes(kSlots), stream); });
  measure("close_step", [&] { return device.close_step(header, stream); });
  measure("produce_eager_1_row", [&] { return device.produce(eager, stream); });
  measure("produce_header_off", [&] { return device.produce(off, stream); });
  measure(fmt::format("download_{}_bytes", bytes),
          [&] { return device.download(pinned, memory, bytes, stream); });

  bench.stream.synchronize();
  device.destroy_event(event);
  device.free(source);
  device.free(frame);
  device.free_pinned(pinned);
}

namespace {

void body(Report& report, const Settings& settings) {
  const auto device = open_device();
  const OwnStream stream;
  report.extra("device") = device->describe();
  const SwitchBench bench{report, device, stream, settings.quick};
  {
    const DecodeModel model{ModelShape{}};
    BatchTimer timer;
    (void)timer.time(stream.get(), settings.quick ? 10 : 600,
                     [&] { model.run(stream.get()); });  // clocks go up
  }
  const auto part = [](const char* name, void (*measure)(const SwitchBench&),
                       const SwitchBench& with) {
    const Stopwatch watch;
    measure(with);
    say(fmt::format("{}: {:.1f} s", name, watch.us() / 1e6));
  };
  part("desired set", measure_set_swap, bench);
  part("node gate", measure_node_gate, bench);
  part("host cost of a step", measure_host_cost, bench);
  part("device calls", measure_device_calls, bench);
  part("specialising", measure_specialising, bench);
  part("jitter", measure_jitter, bench);
}

}  // namespace
}  // namespace graphtap::bench

int main(int argc, char** argv) {
  using namespace graphtap::bench;
  return run(argc, argv, "switching", "What switching hooks costs", body);
}
