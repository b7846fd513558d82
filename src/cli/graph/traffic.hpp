#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/host/random.hpp"

namespace graphtap::cli {

/// A synthetic request: when it arrives and how long it is.
struct TrafficRequest {
  std::uint64_t number = 0;
  std::uint64_t arrives = 0;  ///< before this step
  std::int64_t prompt = 0;    ///< tokens
  std::int64_t length = 0;    ///< tokens whose rows are computed, prompt included
  std::int64_t cached = 0;    ///< tokens in its cache; 0 again after a preemption
  std::int64_t computed = 0;  ///< most that was ever in it
  bool begun = false;

  /// Tokens that exist before the next step: one more than were computed, once it decodes.
  [[nodiscard]] std::int64_t known() const noexcept {
    return computed < prompt ? prompt : computed;
  }
};

/// Consecutive tokens [first, first + rows) of one request that a step computes.
struct TrafficSpan {
  std::uint64_t request = 0;
  std::int64_t first = 0;
  std::uint32_t rows = 0;
};

/// What one step computes: a chunk of one prompt (prefill), or one token of each running request.
struct TrafficStep {
  bool prefill = false;
  std::vector<TrafficSpan> spans;        ///< in row order
  std::vector<std::uint64_t> joined;     ///< requests whose first step this is
  std::vector<std::uint64_t> finished;   ///< requests whose last step this is
  std::vector<std::uint64_t> preempted;  ///< lost their cache before this step; will be recomputed
};

/// Continuous batching with made-up requests: they arrive, are prefilled in chunks, decode
/// together, are preempted now and then (and recomputed from their first token), and leave.
class Traffic {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::uint32_t requests = 16;
    std::uint32_t most_running = 8;
    std::uint32_t chunk = 16;  ///< most rows of a prefill step
    double preempt = 0.02;     ///< chance a step
  };
  explicit Traffic(const Options& options);

  /// The next step; nothing when every request is finished.
  [[nodiscard]] std::optional<TrafficStep> next();
  [[nodiscard]] const std::vector<TrafficRequest>& requests() const noexcept { return requests_; }
  /// Begun and not finished, in the order of their rows.
  [[nodiscard]] const std::vector<std::uint64_t>& running() const noexcept { return running_; }

 private:
  void maybe_preempt(TrafficStep& step);
  bool prefill(std::uint64_t request, TrafficStep& step);
  void advance(std::uint64_t request, std::uint32_t rows, TrafficStep& step);

  const Options options_;
  Random random_;
  std::vector<TrafficRequest> requests_;
  std::vector<std::uint64_t> waiting_;  // in order of arrival; preempted ones in front
  std::vector<std::uint64_t> running_;
  std::uint64_t step_ = 0;
};

}  // namespace graphtap::cli
