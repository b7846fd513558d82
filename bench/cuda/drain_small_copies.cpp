// How long a small copy of the engine's own (4 KiB to pinned memory, on its own stream) waits for
// ours.
#include <fmt/format.h>

#include <optional>

#include "drain.hpp"

namespace graphtap::bench {
namespace {

/// From the call to the end of the wait, as an engine that samples tokens sees it.
/// Where a wait is long, fewer of them.
Samples small_copies(const DrainBench& bench, const OwnStream& stream, std::byte* to,
                     const std::byte* from) {
  Samples waits;
  const Stopwatch all;
  for (int i = 0; i < bench.count(2000) && all.us() < 4e6; ++i) {
    const Stopwatch watch;
    check(cudaMemcpyAsync(to, from, 4096, cudaMemcpyDeviceToHost, stream.get()), "copy");
    stream.synchronize();
    waits.push_back(watch.us());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return waits;
}

}  // namespace

void measure_small_copies(const DrainBench& bench) {
  constexpr int kRows = 256;  // 75 MB a step: the copy stream never rests
  std::byte* const from = take(bench.device->allocate(4096), "allocate");
  std::byte* const to = take(bench.device->allocate_pinned(4096), "allocate pinned");
  const OwnStream own;
  const auto measure = [&](const std::string& name) {
    const Samples waits = small_copies(bench, own, to, from);
    bench.report.add_measure("small_copy_" + name, "us", waits);
    say(fmt::format("small copies, {}: {} of them, median {:.0f} us, p99 {:.0f} us", name,
                    waits.size(), median(waits), quantile(waits, 0.99)));
  };
  (void)small_copies(bench, own, to, from);
  measure("idle_gpu");
  {
    const auto sink = std::make_shared<CountingSink>();
    MonitorOptions options;
    options.policy = Policy::lossless;
    options.ring_bytes = bench.memory();
    options.staging_bytes = bench.memory() / 2;
    Monitor monitor(bench.device, table_of(36), options, {sink});
    const DecodeModel model{ModelShape{}};
    HookedGraph graph(bench, monitor, model, kRows);
    // At most a few steps in flight, so that the engine's thread does not run far ahead.
    const auto step = [&, n = 0]() mutable {
      graph.step();
      if (++n % 4 == 0) bench.stream.synchronize();
    };
    check(monitor.enable(monitor.table().none()), "enable");
    {
      Background engine(step);
      measure("model_alone");
      engine.stop();
    }
    check(monitor.enable(monitor.table().all()), "enable");
    {
      Background engine(step);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(bench.quick ? 20 : 200));  // until the ring is full
      const Stats before = monitor.stats();
      const Stopwatch watch;
      measure("during_drain");
      const Counts counts = monitor.stats().total - before.total;
      bench.report.extra("during_small_copies_gb_s") =
          static_cast<double>(counts.bytes) / watch.us() / 1e3;
      engine.stop();
    }
    check(monitor.flush(std::chrono::seconds(30)), "flush");
    check_accounts(monitor.stats());
    check_sink(monitor.stats(), *sink);
    check(monitor.close(std::chrono::seconds(10)), "close");
  }
  {
    PlainCopy plain(bench, bench.memory() / 4);
    for (const std::uint64_t mib : {2u, 64u}) {
      Background copies([&] { plain.copy(mib << 20); });
      measure(fmt::format("during_plain_copies_of_{}_mib", mib));
      copies.stop();
    }
  }
  bench.device->free_pinned(to);
  bench.device->free(from);
}

}  // namespace graphtap::bench
