// D4: from the end of a step until a reader that follows the store has its records, one step after
// another, with the monitor's and the sink's threads. GRAPHTAP_BENCH_DIR chooses the disk,
// GRAPHTAP_BENCH_SAMPLES a file that gets every single time in nanoseconds.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "bench_rig.hpp"
#include "graphtap/store_reader.hpp"
#include "graphtap/store_sink.hpp"

namespace graphtap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHooks = 36;
constexpr std::int64_t kSteps = 10'000;
constexpr std::int64_t kRowBytes = 1 << 10;

/// Says when the store has taken a step.
class Announcing final : public Sink {
 public:
  explicit Announcing(std::shared_ptr<Sink> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  Status write(const DeliveredStep& step) override {
    Status status = inner_->write(step);
    const std::lock_guard lock(mutex_);
    if (status.ok()) ++taken_;
    changed_.notify_all();
    return status;
  }
  Status event(const RequestEvent& event) override { return inner_->event(event); }
  Status flush() override { return inner_->flush(); }
  Status close() override { return inner_->close(); }
  [[nodiscard]] bool wait_for(std::uint64_t steps) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return taken_ >= steps; });
  }

 private:
  const std::shared_ptr<Sink> inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t taken_ = 0;
};

void BM_CaptureToReadable(benchmark::State& state) {
  const char* chosen = std::getenv("GRAPHTAP_BENCH_DIR");
  const std::filesystem::path base =
      chosen ? chosen : std::filesystem::temp_directory_path().string();
  const auto path = base / ("graphtap-latency-" + std::to_string(::getpid()));
  std::filesystem::remove_all(path);
  HookTable table = bench::table_of(kHooks, kRowBytes);
  const auto sink = std::make_shared<Announcing>(open_store_sink(path, table).value_or_throw());
  const auto reader = StoreReader::open(path).value_or_throw();
  const std::uint32_t run = reader->runs().empty() ? 0 : reader->runs().front()->number;
  const auto host = std::make_shared<HostDevice>(HostOptions{});
  std::vector<std::uint64_t> times;
  {
    Monitor monitor(host, std::move(table), {}, {sink});
    const auto lane = monitor.make_lane();
    const auto request = monitor.begin_request("bench");
    std::byte* const tensor = host->allocate(kRowBytes).value();
    const Source source{
        .data = tensor, .rows = 1, .part_bytes = kRowBytes, .row_stride = kRowBytes};
    std::uint64_t step_number = 0;
    for (auto _ : state) {
      const std::vector<RowSpan> spans{{request, static_cast<std::int64_t>(step_number), 1}};
      StepShape shape;
      shape.tokens = spans;
      Step step = lane->begin(shape, inline_stream());
      for (HookId hook = 0; hook < kHooks; ++hook) lane->produce(hook, source, inline_stream());
      const auto begin = Clock::now();  // on the inline stream all of the step's work is done here
      step.end();
      ++step_number;
      const bool taken = sink->wait_for(step_number) && reader->refresh().ok();
      const auto totals = reader->totals(run);
      const auto end = Clock::now();
      if (!taken || !totals.ok() || totals.value()[kHooks - 1].records != step_number) {
        state.SkipWithError("the step is not readable");
        break;
      }
      const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin);
      times.push_back(static_cast<std::uint64_t>(time.count()));
      state.SetIterationTime(static_cast<double>(times.back()) * 1e-9);
    }
  }
  if (const char* samples = std::getenv("GRAPHTAP_BENCH_SAMPLES")) {
    std::ofstream file(samples);
    for (const std::uint64_t time : times) file << time << '\n';
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    const auto at = [&](std::size_t permille) {
      return static_cast<double>(
                 times[std::min(times.size() - 1, times.size() * permille / 1000)]) *
             1e-3;
    };
    state.counters["p50_us"] = at(500);
    state.counters["p99_us"] = at(990);
    state.counters["max_us"] = static_cast<double>(times.back()) * 1e-3;
  }
  std::filesystem::remove_all(path);
}
BENCHMARK(BM_CaptureToReadable)->Iterations(kSteps)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace graphtap

BENCHMARK_MAIN();
