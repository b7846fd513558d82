// The way out: what the drain sustains against a plain copy, and what shed and lossless do under a
// slow sink.
//
// Plan on an H200: sustained 4 row counts × 2 graphs × 3 runs of 0.8 s: 25 s; slow sinks 5 s; small
// copies 5 s.
#include "drain.hpp"

#include <fmt/format.h>

namespace graphtap::bench {

PlainCopy::PlainCopy(const DrainBench& bench, std::uint64_t bytes)
    : device_(*bench.device),
      bytes_(bytes),
      from_(take(device_.allocate(bytes), "allocate")),
      to_(take(device_.allocate_pinned(bytes), "allocate pinned")) {
  check(cudaEventCreate(&begin_), "create an event");
  check(cudaEventCreate(&end_), "create an event");
}

PlainCopy::~PlainCopy() {
  (void)cudaStreamSynchronize(stream_.get());
  (void)cudaEventDestroy(begin_);
  (void)cudaEventDestroy(end_);
  device_.free_pinned(to_);
  device_.free(from_);
}

void PlainCopy::copy(std::uint64_t chunk_bytes) {
  check(cudaEventRecord(begin_, stream_.get()), "record");
  for (std::uint64_t at = 0; at < bytes_; at += chunk_bytes) {
    const std::uint64_t bytes = std::min(chunk_bytes, bytes_ - at);
    check(cudaMemcpyAsync(to_ + at, from_ + at, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "copy");
  }
  check(cudaEventRecord(end_, stream_.get()), "record");
  stream_.synchronize();
}

double PlainCopy::rate(std::uint64_t chunk_bytes) {
  copy(chunk_bytes);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed time");
  return static_cast<double>(bytes_) / (static_cast<double>(ms) * 1e6);
}

void check_sink(const Stats& stats, const CountingSink& sink) {
  const Counts& total = stats.total;
  if (sink.records.load() != total.delivered || sink.bytes.load() != total.bytes ||
      sink.gaps.load() != total.missing() + total.shed()) {
    fail(fmt::format("the sink has {} records, {} bytes, {} gaps; the monitor {}, {}, {}",
                     sink.records.load(), sink.bytes.load(), sink.gaps.load(), total.delivered,
                     total.bytes, total.missing() + total.shed()));
  }
}

void measure_sustained(const DrainBench& bench) {
  PlainCopy plain(bench, bench.memory() / 2);
  (void)plain.rate(64u << 20);
  Samples in_large, in_small;
  for (int i = 0; i < bench.count(10); ++i) {
    in_large.push_back(plain.rate(64u << 20));
    in_small.push_back(plain.rate(2u << 20));
  }
  bench.report.add_measure("plain_copy_64_mib_chunks", "GB/s", in_large);
  bench.report.add_measure("plain_copy_2_mib_chunks", "GB/s", in_small);

  const auto sink = std::make_shared<CountingSink>();
  MonitorOptions options;
  options.policy = Policy::lossless;
  options.ring_bytes = bench.memory();
  Monitor monitor(bench.device, table_of(36), options, {sink});
  const DecodeModel decode{ModelShape{}};
  ModelShape no_kernels;
  no_kernels.kernels = 0;  // producers alone: more than any model offers
  const DecodeModel hooks_only(no_kernels);
  BatchTimer timer;
  for (const auto& [graph_name, model] :
       {std::pair{"decode", &decode}, std::pair{"hooks_only", &hooks_only}}) {
    for (const int rows : {1, 8, 64, 256}) {
      HookedGraph graph(bench, monitor, *model, rows);
      // What the GPU offers: the same graph with its header ON and nothing behind it.
      HandWrittenHeader header(*bench.device, 36, rows);
      header.write(graph.graph().header(), spread(36, 36), bench.stream.handle());
      const double step_bytes = 36.0 * rows * static_cast<double>(kRowBytes);
      Samples offered, delivered, beside, stalled;
      for (int i = 0; i < 5; ++i) {
        const double us = timer.time(bench.stream.get(), bench.count(30), [&] {
          check(bench.device->launch(graph.exec(), bench.stream.handle()), "launch");
        });
        offered.push_back(step_bytes / us / 1e3);
      }
      header.write(graph.graph().header(), {}, bench.stream.handle());
      std::uint64_t stalls = 0, steps = 0;
      for (int repeat = 0; repeat < 3; ++repeat) {
        beside.push_back(plain.rate(64u << 20));
        const Stats before = monitor.stats();
        const Stopwatch watch;
        const double duration_us = bench.quick ? 0.05e6 : 0.8e6;
        while (watch.us() < duration_us) graph.step();
        check(monitor.flush(std::chrono::seconds(30)), "flush");
        const double seconds = watch.us() / 1e6;
        const Stats after = monitor.stats();
        check_accounts(after);
        check_sink(after, *sink);
        const Counts counts = after.total - before.total;
        if (counts.shed() != 0) fail("lossless has shed");
        delivered.push_back(static_cast<double>(counts.bytes) / seconds / 1e9);
        stalled.push_back(static_cast<double>(after.stalled_ns - before.stalled_ns) / 1e9 /
                          seconds);
        stalls += after.stalls - before.stalls;
        steps += counts.planned / 36;
      }
      const std::string name = fmt::format("sustained_{}_{}_rows", graph_name, rows);
      const bool saturated = median(offered) >= median(beside);
      bench.report.add_measure(name + "_offered", "GB/s", offered);
      auto& entry = bench.report.add_measure(name, "GB/s", delivered);
      entry["saturated"] = saturated;
      entry["stalls"] = stalls;
      entry["steps"] = steps;
      bench.report.add_measure(name + "_stalled_share", "1", stalled);
      bench.report.add_ratio(name + "_against_plain", delivered, beside);
      if (saturated) {
        bench.report.at_least(fmt::format("{} at {} rows against a plain copy", graph_name, rows),
                              name + "_against_plain", "median", median(ratios(delivered, beside)),
                              0.9, "x");
      }
      say(fmt::format("{}: {:.1f} GB/s of {:.1f} offered, plain {:.1f}", name, median(delivered),
                      median(offered), median(beside)));
    }
  }
  bench.report.extra("records")["sustained"] = accounts_of(monitor.stats().total);
  check(monitor.close(std::chrono::seconds(10)), "close");
}

void measure_slow_sink(const DrainBench& bench, Policy policy) {
  constexpr int kRows = 64;
  const std::string name = policy == Policy::shed ? "shed" : "lossless";
  const auto sink = std::make_shared<CountingSink>(std::chrono::milliseconds(5));  // a step
  MonitorOptions options;
  options.policy = policy;
  options.ring_bytes = 192u << 20;  // ten steps
  options.staging_bytes = 96u << 20;
  Monitor monitor(bench.device, table_of(36), options, {sink});
  const DecodeModel model{ModelShape{}};
  HookedGraph graph(bench, monitor, model, kRows);
  Samples begin;
  const Stopwatch watch;
  for (int i = 0; i < bench.count(300); ++i) begin.push_back(graph.step_timing_begin());
  bench.stream.synchronize();
  const double engine_us = watch.us();
  check(monitor.flush(std::chrono::seconds(30)), "flush");
  const Stats stats = monitor.stats();
  check_accounts(stats);
  check_sink(stats, *sink);
  if (policy == Policy::lossless && (stats.total.shed() != 0 || stats.stalls == 0)) {
    fail("lossless under a slow sink has to stall, and to shed nothing");
  }
  if (policy == Policy::shed && (stats.total.shed() == 0 || stats.stalls != 0)) {
    fail("shed under a slow sink has to shed, and never to stall");
  }
  bench.report.add_measure("slow_sink_" + name + "_begin", "us", begin);
  auto& accounts = bench.report.extra("records")["slow_sink_" + name];
  accounts = accounts_of(stats.total);
  accounts["steps"] = begin.size();
  accounts["engine_s"] = engine_us / 1e6;
  accounts["stalls"] = stats.stalls;
  accounts["stalled_s"] = static_cast<double>(stats.stalled_ns) / 1e9;
  accounts["sink_records"] = sink->records.load();
  accounts["sink_gaps"] = sink->gaps.load();
  say(fmt::format("slow sink, {}: {} planned, {} delivered, {} shed, {} stalls", name,
                  stats.total.planned, stats.total.delivered, stats.total.shed(), stats.stalls));
  check(monitor.close(std::chrono::seconds(10)), "close");
}

namespace {

void body(Report& report, const Settings& settings) {
  const auto device = open_device();
  const OwnStream stream;
  report.extra("device") = device->describe();
  const DrainBench bench{report, device, stream, settings.quick};
  measure_sustained(bench);
  measure_slow_sink(bench, Policy::shed);
  measure_slow_sink(bench, Policy::lossless);
  measure_small_copies(bench);
}

}  // namespace
}  // namespace graphtap::bench

int main(int argc, char** argv) {
  using namespace graphtap::bench;
  return run(argc, argv, "drain", "What the drain sustains, and what others feel of it", body);
}
