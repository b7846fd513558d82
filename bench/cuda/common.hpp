#pragma once
// What the GPU benchmarks share: settings, errors, statistics over raw samples, and the result
// file.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "graphtap/handles.hpp"

namespace graphtap::bench {

using Samples = std::vector<double>;

struct Settings {
  std::string out = ".";
  std::string stamp;    ///< hash of the sources the results depend on
  std::string command;  ///< as it was typed
  bool quick = false;   ///< a smoke run: the numbers mean nothing
  std::uint32_t seed = 1;
};

inline cudaStream_t cuda(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
inline cudaGraph_t cuda(Graph graph) { return reinterpret_cast<cudaGraph_t>(graph); }
inline cudaGraphExec_t cuda(Exec exec) { return reinterpret_cast<cudaGraphExec_t>(exec); }
inline Stream to_stream(cudaStream_t stream) {
  return Stream{reinterpret_cast<std::uintptr_t>(stream)};
}
inline Graph to_graph(cudaGraph_t graph) { return Graph{reinterpret_cast<std::uintptr_t>(graph)}; }
inline Exec to_exec(cudaGraphExec_t exec) { return Exec{reinterpret_cast<std::uintptr_t>(exec)}; }

/// Linear interpolation between order statistics; check_results.py does the same.
[[nodiscard]] double quantile(Samples samples, double q);
[[nodiscard]] double median(const Samples& samples);
/// left[i] - right[i]; samples taken in the same round belong together.
[[nodiscard]] Samples differences(const Samples& left, const Samples& right);
[[nodiscard]] Samples ratios(const Samples& left, const Samples& right);

/// Host time in microseconds.
class Stopwatch {
 public:
  [[nodiscard]] double us() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A stream of our own, non-blocking.
class OwnStream {
 public:
  OwnStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
  }
  ~OwnStream() { (void)cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] Stream handle() const { return to_stream(stream_); }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "synchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// GPU time of a step, by events around a batch. One step is run ahead, so that the batch's first
/// launch is behind work already and its launch latency is not counted.
class BatchTimer {
 public:
  BatchTimer();
  ~BatchTimer();
  BatchTimer(const BatchTimer&) = delete;
  BatchTimer& operator=(const BatchTimer&) = delete;
  /// Microseconds a step.
  template <class StepFunction>
  double time(cudaStream_t stream, int steps, StepFunction&& step) {
    step();
    check(cudaEventRecord(begin_, stream), "record");
    for (int i = 0; i < steps; ++i) step();
    check(cudaEventRecord(end_, stream), "record");
    return elapsed_us() / steps;
  }

 private:
  double elapsed_us();
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// The result file: environment, one entry a measured thing with its raw samples, and targets.
class Report {
 public:
  Report(std::string benchmark, const Settings& settings);

  /// A row of a step-time table: {"rows", "variant", "base", "base_us", "delta_us", "per_hook_us",
  /// "us", …}. `delta_us` is the median of the differences to the base's samples of the same round.
  nlohmann::json& add_variant(int rows, const std::string& variant, const std::string& base,
                              int hooks, const Samples& samples, const Samples& base_samples);
  /// A quantity with median, quartiles, p99, minimum and maximum.
  nlohmann::json& add_measure(const std::string& name, const std::string& unit,
                              const Samples& samples);
  /// The same of left[i] - right[i] or left[i] / right[i]; both are kept.
  nlohmann::json& add_difference(const std::string& name, const std::string& unit,
                                 const Samples& left, const Samples& right);
  nlohmann::json& add_ratio(const std::string& name, const Samples& left, const Samples& right);

  /// value ≤ limit, or value ≥ limit. `of` names the measure and `statistic` ("median", "p99", …)
  /// it comes from.
  void at_most(const std::string& name, const std::string& of, const std::string& statistic,
               double value, double limit, const std::string& unit);
  void at_least(const std::string& name, const std::string& of, const std::string& statistic,
                double value, double limit, const std::string& unit);
  nlohmann::json& extra(const std::string& key) { return file_[key]; }

  void write() const;        ///< OUT/<benchmark>.json
  void print_table() const;  ///< to stdout

 private:
  void target(const std::string& name, const std::string& of, const std::string& statistic,
              double value, double limit, const std::string& unit, bool at_least);
  nlohmann::json& measure(const std::string& name, const std::string& unit, const Samples& samples);
  std::string path_;
  nlohmann::json file_;
};

/// Progress, to stderr.
void say(std::string_view text);

/// Parses the command line, warms the GPU up, runs `body`, writes and prints the report. The exit
/// status.
int run(int argc, char** argv, const char* benchmark, const char* about,
        void (*body)(Report&, const Settings&));

}  // namespace graphtap::bench
