// The store against the disk: writing as a ratio to a plain sequential write() of the same bytes,
// the time from write() to readable, and finding one request among a million records.
// GRAPHTAP_BENCH_DIR chooses the disk.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "graphtap/store_sink.hpp"

namespace graphtap {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// What something took: on the clock, and of the process's two threads together.
struct Cost {
  double wall = 0;
  double cpu = 0;
};
class Stopwatch {
 public:
  [[nodiscard]] Cost elapsed() const {
    return {seconds(Clock::now() - begin_), cpu_now() - cpu_begin_};
  }

 private:
  static double cpu_now() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  Clock::time_point begin_ = Clock::now();
  double cpu_begin_ = cpu_now();
};

std::filesystem::path bench_path(const char* name) {
  const char* chosen = std::getenv("GRAPHTAP_BENCH_DIR");
  std::filesystem::path base = chosen ? chosen : std::filesystem::temp_directory_path().string();
  return base / ("graphtap-bench-" + std::to_string(::getpid()) + "-" + name);
}

/// A directory that is removed again.
struct Scratch {
  explicit Scratch(const char* name) : path(bench_path(name)) { std::filesystem::remove_all(path); }
  ~Scratch() { std::filesystem::remove_all(path); }
  const std::filesystem::path path;
};

constexpr int kHooks = 36;

HookTable table_of(std::uint64_t record_bytes) {
  HookTable table("bench");
  for (int layer = 0; layer < kHooks; ++layer) {
    static_cast<void>(table
                          .add({"resid_pre",
                                layer,
                                DType::bf16,
                                {static_cast<std::int64_t>(record_bytes / 2)},
                                1,
                                1})
                          .value_or_throw());
  }
  return table;
}

Request request_of(std::uint64_t serial) {
  return std::make_shared<const RequestInfo>(
      RequestInfo{serial, "request " + std::to_string(serial), 16});
}

/// Steps of kHooks records each, whose payloads walk through a staging area larger than the last
/// cache, as they do in a real one.
class Steps {
 public:
  Steps(const HookTable& table, std::uint64_t record_bytes)
      : table_(table),
        record_bytes_(record_bytes),
        staging_(std::max<std::uint64_t>(96 << 20, 2 * step_bytes())) {
    for (std::size_t i = 0; i < staging_.size(); i += 8)
      staging_[i] = static_cast<std::byte>(i >> 3);
    slices_.push_back({request_of(1), 0, 0, 1, RowFlags::none});
    step_.table = &table_;
    step_.wanted = table_.all();
    for (const Hook& hook : table_.hooks())
      step_.records.push_back({&hook, 0, 1, record_bytes, 0, {}, slices_});
  }
  [[nodiscard]] std::uint64_t step_bytes() const { return kHooks * record_bytes_; }
  /// The bytes of the next step, one piece.
  std::span<const std::byte> next_bytes() {
    if (at_ + step_bytes() > staging_.size()) at_ = 0;
    const auto bytes = std::span<const std::byte>(staging_).subspan(at_, step_bytes());
    at_ += step_bytes();
    return bytes;
  }
  const DeliveredStep& next_step() {
    const auto bytes = next_bytes();
    for (std::size_t i = 0; i < kHooks; ++i) {
      step_.records[i].payload = bytes.subspan(i * record_bytes_, record_bytes_);
    }
    ++step_.ticket;
    ++step_.step;
    slices_[0].first_token = static_cast<std::int64_t>(step_.ticket);
    return step_;
  }

 private:
  const HookTable& table_;
  const std::uint64_t record_bytes_;
  std::vector<std::byte> staging_;
  std::size_t at_ = 0;
  std::vector<Slice> slices_;
  DeliveredStep step_;
};

/// write() of the same bytes, a step a call, into one new file.
Cost plain_write(Steps& steps, std::uint64_t bytes) {
  const Scratch scratch("plain");
  const int fd = ::open(scratch.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const Stopwatch watch;
  for (std::uint64_t done = 0; done < bytes; done += steps.step_bytes()) {
    const auto piece = steps.next_bytes();
    if (::write(fd, piece.data(), piece.size()) != static_cast<ssize_t>(piece.size())) std::abort();
  }
  const Cost cost = watch.elapsed();
  ::close(fd);
  return cost;
}

/// The same through the sink, its index and closing included.
Cost store_write(Steps& steps, const HookTable& table, std::uint64_t bytes) {
  const Scratch scratch("store");
  const auto sink = open_store_sink(scratch.path, table).value_or_throw();
  const Stopwatch watch;
  for (std::uint64_t done = 0; done < bytes; done += steps.step_bytes()) {
    if (!sink->write(steps.next_step()).ok()) std::abort();
  }
  if (!sink->close().ok()) std::abort();
  return watch.elapsed();
}

/// Argument: bytes of one record; 36 records a step. `ratio` is what the store reaches of the plain
/// write, `cpu_ratio` the same in processor time, which is the one to look at while others use the
/// machine.
void BM_StoreWrite(benchmark::State& state) {
  const auto record_bytes = static_cast<std::uint64_t>(state.range(0));
  const HookTable table = table_of(record_bytes);
  Steps steps(table, record_bytes);
  constexpr std::uint64_t kBytes = 384ull << 20;
  std::vector<Cost> plain;
  std::vector<Cost> store;
  plain_write(steps, kBytes);  // warms the page allocator for both
  for (auto _ : state) {
    plain.push_back(plain_write(steps, kBytes));
    store.push_back(store_write(steps, table, kBytes));
    state.SetIterationTime(store.back().wall);
  }
  // Medians: on a shared machine a single round may be anything.
  const auto median = [](const std::vector<Cost>& costs, double Cost::*which) {
    std::vector<double> times;
    for (const Cost& cost : costs) times.push_back(cost.*which);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  };
  const double plain_time = median(plain, &Cost::wall);
  const double store_time = median(store, &Cost::wall);
  state.counters["plain_GB/s"] = static_cast<double>(kBytes) / plain_time * 1e-9;
  state.counters["store_GB/s"] = static_cast<double>(kBytes) / store_time * 1e-9;
  state.counters["ratio"] = plain_time / store_time;
  state.counters["cpu_ratio"] = median(plain, &Cost::cpu) / median(store, &Cost::cpu);
}
BENCHMARK(BM_StoreWrite)
    ->Arg(8 << 10)
    ->Arg(512 << 10)
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// From the beginning of write() until a reader that follows the store has the step's rows in hand.
void BM_WriteToReadable(benchmark::State& state) {
  const HookTable table = table_of(8 << 10);
  Steps steps(table, 8 << 10);
  const Scratch scratch("latency");
  const auto sink = open_store_sink(scratch.path, table).value_or_throw();
  const auto reader = StoreReader::open(scratch.path).value_or_throw();
  std::vector<double> times;
  for (auto _ : state) {
    const DeliveredStep& step = steps.next_step();
    const auto begin = Clock::now();
    if (!sink->write(step).ok() || !reader->refresh().ok()) std::abort();
    Query query;
    query.begin = static_cast<std::int64_t>(step.ticket);
    query.request = "request 1";
    RecordCursor cursor = reader->read(query).value_or_throw();
    RecordView view;
    std::size_t rows = 0;
    while (cursor.next(view)) rows += view.rows;
    if (rows != kHooks) std::abort();
    times.push_back(seconds(Clock::now() - begin));
    state.SetIterationTime(times.back());
  }
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2] * 1e6;
  state.counters["p99_us"] = times[times.size() * 99 / 100] * 1e6;
}
BENCHMARK(BM_WriteToReadable)->Iterations(300)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// A store of a million records: 36 hooks, 64 requests in every step, each of them in 500 steps.
class MillionRecords {
 public:
  static const MillionRecords& get() {
    static const MillionRecords store;
    return store;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return scratch_.path; }
  static constexpr std::uint64_t kSteps = 1'000'000 / kHooks;

 private:
  MillionRecords() : scratch_("million") {
    constexpr std::uint64_t kRow = 32;
    constexpr std::uint32_t kRequests = 64;
    const HookTable table = table_of(kRow);
    StoreOptions options;
    options.segment_bytes = 64ull << 20;
    const auto sink = open_store_sink(scratch_.path, table, options).value_or_throw();
    const std::vector<std::byte> rows(kRow * kRequests);
    std::vector<Slice> slices(kRequests);
    DeliveredStep step;
    step.wanted = table.all();
    for (const Hook& hook : table.hooks())
      step.records.push_back({&hook, 0, kRequests, kRow, 0, rows, slices});
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      step.ticket = step.step = i;
      for (std::uint32_t r = 0; r < kRequests; ++r) {
        // Requests come and go one after the other, as under continuous batching.
        const std::uint64_t age = i + r * 500 / kRequests;
        if (i == 0 || age % 500 == 0) {
          slices[r] = {request_of(1 + age / 500 * kRequests + r), 0, r, 1, RowFlags::none};
        }
        slices[r].first_token = static_cast<std::int64_t>(age % 500);
      }
      if (!sink->write(step).ok()) std::abort();
    }
    if (!sink->close().ok()) std::abort();
  }
  Scratch scratch_;
};

void BM_OpenMillionRecords(benchmark::State& state) {
  const auto& path = MillionRecords::get().path();
  for (auto _ : state) benchmark::DoNotOptimize(StoreReader::open(path).value_or_throw());
}
BENCHMARK(BM_OpenMillionRecords)->Unit(benchmark::kMillisecond);

/// Every row of one request, 36 hooks × 500 tokens, out of a million records. With `open`, opening
/// included.
void read_request(benchmark::State& state, bool open) {
  const auto& path = MillionRecords::get().path();
  std::shared_ptr<StoreReader> reader = StoreReader::open(path).value_or_throw();
  std::uint64_t serial = 70;
  std::size_t rows = 0;
  for (auto _ : state) {
    if (open) reader = StoreReader::open(path).value_or_throw();
    Query query;
    query.serial = serial += 7;
    if (serial > 3000) serial = 70;
    RecordCursor cursor = reader->read(query).value_or_throw();
    RecordView view;
    rows = 0;
    while (cursor.next(view)) rows += view.rows;
  }
  state.counters["rows"] = static_cast<double>(rows);
}
void BM_ReadOneRequest(benchmark::State& state) { read_request(state, false); }
void BM_OpenAndReadOneRequest(benchmark::State& state) { read_request(state, true); }
BENCHMARK(BM_ReadOneRequest)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OpenAndReadOneRequest)->Unit(benchmark::kMillisecond);

/// One hook of one request as one buffer.
void BM_GatherOneHook(benchmark::State& state) {
  const auto reader = StoreReader::open(MillionRecords::get().path()).value_or_throw();
  GatherQuery query;
  query.hook = "blocks.20.resid_pre";
  std::uint64_t serial = 70;
  for (auto _ : state) {
    query.serial = serial += 7;
    if (serial > 3000) serial = 70;
    benchmark::DoNotOptimize(reader->gather(query).value_or_throw().data.size());
  }
}
BENCHMARK(BM_GatherOneHook)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace graphtap

BENCHMARK_MAIN();
