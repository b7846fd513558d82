#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtap/store_records.hpp"

namespace graphtap::cli {

/// How often each duration came, in bins of 2.3 % width: memory does not grow with what is counted.
class Durations {
 public:
  static constexpr int kPerDecade = 100, kDecades = 13;  // 1 ns to about 3 hours

  void add(std::int64_t ns);
  void add(const Durations& other);
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t least() const noexcept { return least_; }
  [[nodiscard]] std::int64_t most() const noexcept { return most_; }
  /// The value (ns) that a share of all values do not exceed, off by 1.2 % at most; exact at 0 and
  /// 1; 0 of nothing.
  [[nodiscard]] double quantile(double share) const;
  /// Counts in `bins` bins of equal width on a logarithmic axis from least() to most().
  [[nodiscard]] std::vector<std::uint64_t> histogram(std::size_t bins) const;

 private:
  std::vector<std::uint64_t> bins_;
  std::uint64_t count_ = 0;
  std::int64_t least_ = 0, most_ = 0;
};

/// One run over time: which hooks were wanted, what was lost and when, and the time between steps.
/// Steps are taken in stored order; memory is hooks × buckets, whatever the number of steps.
///
/// A step stands for the time from the end of the step before it in its lane to its own end. A step
/// for which nothing was switched on is not stored, so after a hole in the step numbers the next
/// step stands for its own bucket only, and the time before it stays empty.
class RunHistory {
 public:
  static constexpr std::size_t kMostBuckets = 240, kMostChanges = 500, kMostLanes = 32;

  /// How much of a bucket's steps wanted a hook.
  enum class On : std::uint8_t { no, some, all };
  struct Change {
    std::uint64_t version = 0;
    std::int64_t unix_ns = 0;  ///< end of the first stored step planned from it
    std::size_t hooks = 0;     ///< wanted by that step
  };
  struct Lane {
    std::uint64_t steps = 0;
    Durations intervals;  ///< between the ends of consecutive steps
  };

  explicit RunHistory(const RunSummary& run);
  void take(const StepView& step);

  [[nodiscard]] std::size_t buckets() const noexcept { return steps_.size(); }
  [[nodiscard]] std::int64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::int64_t end() const noexcept { return end_; }
  /// Where bucket `index` begins, in ns of the epoch.
  [[nodiscard]] std::int64_t time(std::size_t bucket) const;
  [[nodiscard]] On on(HookId hook, std::size_t bucket) const;
  [[nodiscard]] std::uint64_t steps_in(std::size_t bucket) const { return steps_[bucket]; }
  [[nodiscard]] bool ever_on(HookId hook) const;
  /// Records lost in each bucket, by reason; only reasons that came.
  [[nodiscard]] const std::map<GapReason, std::vector<std::uint64_t>>& lost() const noexcept {
    return lost_;
  }
  /// The first kMostChanges versions in the order in which they were first stored.
  [[nodiscard]] const std::vector<Change>& changes() const noexcept { return changes_; }
  [[nodiscard]] std::uint64_t changes_left_out() const noexcept { return changes_left_out_; }
  [[nodiscard]] const std::map<std::uint32_t, Lane>& lanes() const noexcept { return lanes_; }
  [[nodiscard]] std::uint64_t lanes_left_out() const noexcept { return other_lanes_; }
  [[nodiscard]] Durations intervals() const;
  /// Steps that carry no end time: in no bucket.
  [[nodiscard]] std::uint64_t steps_without_time() const noexcept { return without_time_; }

 private:
  struct Last {
    std::uint64_t step = 0;
    std::int64_t end = 0;
    HookSet wanted;        ///< by the parts of that step so far
    bool counted = false;  ///< its lane has a Lane of its own
  };
  [[nodiscard]] std::size_t bucket(std::int64_t unix_ns) const;

  std::size_t hooks_;
  std::int64_t begin_, end_;
  std::vector<std::uint64_t> steps_;  // by bucket
  std::vector<std::uint32_t> on_;     // by hook, then bucket
  std::map<GapReason, std::vector<std::uint64_t>> lost_;
  std::vector<Change> changes_;
  std::uint64_t changes_left_out_ = 0, newest_version_ = 0, without_time_ = 0, other_lanes_ = 0;
  std::map<std::uint32_t, Lane> lanes_;
  std::unordered_map<std::uint32_t, Last> last_;  // by lane
};

/// "850 ns", "1.25 ms", "3.2 s", "2.1 h".
[[nodiscard]] std::string duration_text(double ns);

}  // namespace graphtap::cli
