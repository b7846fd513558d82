#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "rig.hpp"

namespace graphtap::bench {

struct DrainBench {
  Report& report;
  const std::shared_ptr<Device>& device;
  const OwnStream& stream;
  bool quick;
  [[nodiscard]] int count(int full) const { return quick ? full / 10 + 2 : full; }
  [[nodiscard]] std::uint64_t memory() const { return quick ? 256u << 20 : 1u << 30; }
};

/// A graph with a hook a layer, bound to a lane of a monitor that others share.
class HookedGraph {
 public:
  HookedGraph(const DrainBench& bench, Monitor& monitor, const DecodeModel& model, int rows)
      : lane_(monitor.make_lane()),
        batch_(monitor, rows),
        graph_(*bench.device, *lane_, model, rows, bench.stream.get()),
        exec_(take(bench.device->instantiate(graph_.graph(), 0), "instantiate")),
        bound_(lane_->bind(graph_.graph(), exec_)),
        device_(*bench.device),
        stream_(bench.stream) {}
  ~HookedGraph() {
    (void)cudaStreamSynchronize(stream_.get());
    bound_.reset();
    device_.destroy_exec(exec_);
  }
  HookedGraph(const HookedGraph&) = delete;
  HookedGraph& operator=(const HookedGraph&) = delete;
  void step() { native_step(*lane_, *bound_, batch_, stream_.handle()); }
  /// The same; what begin() took, in microseconds.
  double step_timing_begin() {
    const StepShape shape = batch_.next();
    const Stopwatch watch;
    Step step = lane_->begin(shape, stream_.handle());
    const double us = watch.us();
    check(step.launch(*bound_), "launch");
    step.end();
    return us;
  }
  [[nodiscard]] const Instrumented& graph() const { return graph_; }
  [[nodiscard]] Exec exec() const { return exec_; }

 private:
  const std::shared_ptr<Lane> lane_;
  DecodeBatch batch_;
  const Instrumented graph_;
  const Exec exec_;
  std::shared_ptr<BoundGraph> bound_;
  Device& device_;
  const OwnStream& stream_;
};

/// Repeats `work` on a thread of its own until it is stopped.
class Background {
 public:
  explicit Background(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          try {
            while (!stop_.load()) work();
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~Background() { join(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Rethrows what ended it.
  void stop() {
    join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void join() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

/// Plain copies from the device to pinned memory, in chunks.
class PlainCopy {
 public:
  PlainCopy(const DrainBench& bench, std::uint64_t bytes);
  ~PlainCopy();
  PlainCopy(const PlainCopy&) = delete;
  PlainCopy& operator=(const PlainCopy&) = delete;
  /// GB/s of copying everything once.
  double rate(std::uint64_t chunk_bytes);
  /// Queues everything once, in chunks, and waits for it.
  void copy(std::uint64_t chunk_bytes);

 private:
  Device& device_;
  const std::uint64_t bytes_;
  std::byte* const from_;
  std::byte* const to_;
  OwnStream stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// The sink and the monitor agree with each other, record by record and byte by byte.
void check_sink(const Stats& stats, const CountingSink& sink);

void measure_sustained(const DrainBench& bench);
void measure_slow_sink(const DrainBench& bench, Policy policy);
void measure_small_copies(const DrainBench& bench);

}  // namespace graphtap::bench
