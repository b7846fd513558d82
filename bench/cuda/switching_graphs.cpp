// Specialised execs: what building one takes, what one occupies, and what a model that runs
// meanwhile feels of it.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <exception>
#include <thread>

#include "switching.hpp"

namespace graphtap::bench {
namespace {

constexpr std::size_t kSmallKernel = 16u << 10;

struct Size {
  int nodes;
  ModelShape shape;
};
// 36 producers each.
const std::array<Size, 2> kSizes = {Size{330, {36, 8, kSmallKernel, 6}},
                                    Size{2500, {36, 68, kSmallKernel, 16}}};

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "memory info");
  return free;
}

/// Our copy of a template, as made when a graph is bound.
class Private {
 public:
  Private(Device& device, const Instrumented& from)
      : device_(device), clone_(take(device.clone(from.graph()), "clone")) {
    for (HookId hook = 0; hook < from.hooks(); ++hook) {
      producers_.push_back(
          take(device.find_in_clone(clone_, from.producer(hook)), "find in the clone"));
    }
  }
  ~Private() { device_.destroy_graph(clone_); }
  Private(const Private&) = delete;
  Private& operator=(const Private&) = delete;

  struct Times {
    double clone = 0, remove = 0, instantiate = 0;
    [[nodiscard]] double total() const { return clone + remove + instantiate; }
  };
  /// An exec without any producer; the caller destroys it. `times`, if given, gets what its parts
  /// took.
  Exec build(Times* times = nullptr) const {
    Times taken;
    const Stopwatch clone_watch;
    const Graph graph = take(device_.clone(clone_), "clone");
    taken.clone = clone_watch.us();
    const Stopwatch remove_watch;
    for (const Node node : producers_) {
      check(device_.remove_node(graph, take(device_.find_in_clone(graph, node), "find")),
            "remove a node");
    }
    taken.remove = remove_watch.us();
    const Stopwatch instantiate_watch;
    const Exec exec = take(device_.instantiate(graph, 0), "instantiate");
    taken.instantiate = instantiate_watch.us();
    device_.destroy_graph(graph);
    if (times) *times = taken;
    return exec;
  }

 private:
  Device& device_;
  Graph clone_;
  std::vector<Node> producers_;
};

std::size_t nodes_of(const Instrumented& graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(cuda(graph.graph()), nullptr, &count), "count nodes");
  return count;
}

}  // namespace

void measure_specialising(const SwitchBench& bench) {
  for (const Size& size : kSizes) {
    const BoundModel rig(bench, size.shape, GateTier::soft);
    if (nodes_of(rig.graph) != static_cast<std::size_t>(size.nodes))
      fail("a graph has another number of nodes");
    const Private from(*bench.device, rig.graph);
    const std::string suffix = fmt::format("_{}_nodes", size.nodes);

    Samples clone, remove, instantiate, total, destroy;
    for (int i = 0; i < bench.count(50); ++i) {
      Private::Times times;
      const Exec exec = from.build(&times);
      const Stopwatch watch;
      bench.device->destroy_exec(exec);
      destroy.push_back(watch.us());
      clone.push_back(times.clone);
      remove.push_back(times.remove);
      instantiate.push_back(times.instantiate);
      total.push_back(times.total());
    }
    bench.report.add_measure("specialise" + suffix, "us", total);
    bench.report.add_measure("specialise_clone" + suffix, "us", clone);
    bench.report.add_measure("specialise_remove_36" + suffix, "us", remove);
    bench.report.add_measure("specialise_instantiate" + suffix, "us", instantiate);
    bench.report.add_measure("specialise_destroy_exec" + suffix, "us", destroy);

    constexpr int kExecs = 32;
    Samples memory, estimate;
    for (int repeat = 0; repeat < bench.count(5); ++repeat) {
      const std::size_t before = free_memory();
      std::vector<Exec> execs;
      for (int i = 0; i < kExecs; ++i) {
        execs.push_back(from.build());
        check(cudaGraphUpload(cuda(execs.back()), bench.stream.get()), "upload an exec");
        estimate.push_back(static_cast<double>(bench.device->exec_bytes(execs.back())) / 1024);
      }
      bench.stream.synchronize();
      const std::size_t after = free_memory();
      memory.push_back(static_cast<double>(before > after ? before - after : 0) / 1024 / kExecs);
      for (const Exec exec : execs) bench.device->destroy_exec(exec);
    }
    bench.report.add_measure("exec_memory" + suffix, "KiB", memory);
    bench.report.add_measure("exec_memory_by_device" + suffix, "KiB", estimate);
  }
}

namespace {

/// Builds execs back to back on a thread of its own until it goes.
class Builder {
 public:
  Builder(Device& device, const Private& from)
      : thread_([this, &device, &from] {
          try {
            while (!stop_.load()) {
              device.destroy_exec(from.build());
              built_.fetch_add(1);
            }
          } catch (const std::exception& error) {
            say(fmt::format("the builder ended: {}", error.what()));
            failed_.store(true);
          }
        }) {}
  ~Builder() { stop(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  int stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    if (failed_.load()) return -1;
    return built_.load();
  }

 private:
  std::atomic<bool> stop_{false}, failed_{false};
  std::atomic<int> built_{0};
  std::thread thread_;
};

struct Jitter {
  Samples launch;  // host time of Step::launch
  Samples step;    // of begin + launch + end
  Samples
      period;  // from the end of one step on the GPU to the end of the next, as the host sees it
};

Jitter run_model(const SwitchBench& bench, BoundModel& rig, int steps) {
  constexpr std::size_t kDepth = 2;  // steps in flight
  std::array<cudaEvent_t, kDepth> events{};
  for (cudaEvent_t& event : events)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  Jitter jitter;
  Stopwatch last_end;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i) {
    cudaEvent_t& event = events[i % kDepth];
    if (i >= kDepth) {
      check(cudaEventSynchronize(event), "synchronize");
      if (i > kDepth) jitter.period.push_back(last_end.us());
      last_end = Stopwatch();
    }
    const Stopwatch whole;
    Step step = rig.lane->begin(rig.batch.next(), bench.stream.handle());
    const Stopwatch launch;
    check(step.launch(*rig.bound), "launch");
    jitter.launch.push_back(launch.us());
    step.end();
    jitter.step.push_back(whole.us());
    check(cudaEventRecord(event, bench.stream.get()), "record");
  }
  bench.stream.synchronize();
  for (const cudaEvent_t event : events) check(cudaEventDestroy(event), "destroy an event");
  rig.flush();
  return jitter;
}

}  // namespace

void measure_jitter(const SwitchBench& bench) {
  BoundModel rig(bench, {}, GateTier::specialised);
  const std::size_t hooks = rig.monitor.table().size();
  check(rig.monitor.enable(HookSet::of(hooks, spread(4, 36))), "enable");
  settle(*rig.lane, *rig.bound, rig.batch, bench.stream, rig.owner);
  const int steps = bench.count(1500);
  (void)run_model(bench, rig, steps / 10 + 4);
  const auto report = [&](const std::string& name, const Jitter& jitter) {
    bench.report.add_measure("launch_" + name, "us", jitter.launch);
    bench.report.add_measure("host_step_" + name, "us", jitter.step);
    bench.report.add_measure("step_period_" + name, "us", jitter.period);
  };
  report("alone", run_model(bench, rig, steps));
  for (const Size& size : kSizes) {
    const BoundModel other(bench, size.shape, GateTier::soft);
    const Private from(*bench.device, other.graph);
    Builder builder(*bench.device, from);
    const Jitter jitter = run_model(bench, rig, steps);
    const int built = builder.stop();
    if (built <= 0) fail("nothing was built meanwhile");
    const std::string name = fmt::format("while_specialising_{}_nodes", size.nodes);
    report(name, jitter);
    bench.report.extra("execs_built_meanwhile")[name] = built;
  }
  check_accounts(rig.monitor.stats());
}

}  // namespace graphtap::bench
