#include "cli/report/run_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace graphtap::cli {

void Durations::add(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  least_ = count_ == 0 ? ns : std::min(least_, ns);
  most_ = std::max(most_, ns);
  ++count_;
  if (bins_.empty()) bins_.resize(kPerDecade * kDecades);
  const double place = std::log10(static_cast<double>(std::max<std::int64_t>(ns, 1))) * kPerDecade;
  ++bins_[std::min(static_cast<std::size_t>(place), bins_.size() - 1)];
}

void Durations::add(const Durations& other) {
  if (other.count_ == 0) return;
  least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
  most_ = std::max(most_, other.most_);
  count_ += other.count_;
  bins_.resize(kPerDecade * kDecades);
  for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
}

double Durations::quantile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  if (rank <= 1) return static_cast<double>(least_);
  if (rank >= count_) return static_cast<double>(most_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    seen += bins_[i];
    if (seen < rank) continue;
    const double middle = std::pow(10.0, (static_cast<double>(i) + 0.5) / kPerDecade);
    return std::clamp(middle, static_cast<double>(least_), static_cast<double>(most_));
  }
  return static_cast<double>(most_);
}

std::vector<std::uint64_t> Durations::histogram(std::size_t bins) const {
  std::vector<std::uint64_t> counts(bins);
  const double low = std::log10(static_cast<double>(std::max<std::int64_t>(least_, 1)));
  const double high = std::log10(static_cast<double>(std::max<std::int64_t>(most_, 1)));
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    const double at = std::clamp((static_cast<double>(i) + 0.5) / kPerDecade, low, high);
    const double share = high > low ? (at - low) / (high - low) : 0.5;
    counts[std::min(static_cast<std::size_t>(share * static_cast<double>(bins)), bins - 1)] +=
        bins_[i];
  }
  return counts;
}

RunHistory::RunHistory(const RunSummary& run)
    : hooks_(run.run->hooks.size()), begin_(run.first_end_unix_ns), end_(run.last_end_unix_ns) {
  // One step a bucket at least, as far as steps come evenly; all of them in one moment need one.
  const std::uint64_t wanted = end_ > begin_ ? run.steps : 1;
  const auto count = static_cast<std::size_t>(std::clamp<std::uint64_t>(wanted, 1, kMostBuckets));
  steps_.resize(count);
  on_.resize(hooks_ * count);
}

std::size_t RunHistory::bucket(std::int64_t unix_ns) const {
  if (end_ <= begin_) return 0;
  const double share = static_cast<double>(unix_ns - begin_) / static_cast<double>(end_ - begin_);
  const auto place = static_cast<std::int64_t>(share * static_cast<double>(buckets()));
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(place, 0, static_cast<std::int64_t>(buckets()) - 1));
}

std::int64_t RunHistory::time(std::size_t bucket) const {
  const double share = static_cast<double>(bucket) / static_cast<double>(buckets());
  return begin_ + static_cast<std::int64_t>(share * static_cast<double>(end_ - begin_));
}

void RunHistory::take(const StepView& step) {
  const StepInfo& info = step.info;
  if (info.end_unix_ns == 0) {
    ++without_time_;
    return;
  }
  const std::size_t last_bucket = bucket(info.end_unix_ns);
  const auto [entry, first] = last_.try_emplace(info.lane);
  Last& last = entry->second;
  if (first) {
    last.counted = lanes_.size() < kMostLanes;
    if (!last.counted) ++other_lanes_;
  }
  const bool another = first || info.step != last.step;  // not a further part of the same step
  const bool follows = !first && info.step == last.step + 1 && info.end_unix_ns >= last.end;
  if (last.counted && another) {
    Lane& lane = lanes_[info.lane];
    ++lane.steps;
    if (follows) lane.intervals.add(info.end_unix_ns - last.end);
  }
  const std::size_t first_bucket =
      follows ? std::min(bucket(last.end) + 1, last_bucket) : last_bucket;
  for (std::size_t i = first_bucket; another && i <= last_bucket; ++i) ++steps_[i];
  for (const HookId hook : step.wanted.ids()) {
    if (hook >= hooks_ || (!another && last.wanted.contains(hook))) continue;
    for (std::size_t i = first_bucket; i <= last_bucket; ++i) ++on_[hook * buckets() + i];
  }
  const bool joins = !another && last.wanted.universe() == step.wanted.universe();
  last.wanted = joins ? last.wanted | step.wanted : step.wanted;
  last.step = info.step;
  last.end = info.end_unix_ns;
  for (const StoredGap& gap : step.gaps) {
    auto& counts = lost_[gap.reason];
    if (counts.empty()) counts.resize(buckets());
    ++counts[last_bucket];
  }
  if (changes_.empty() || info.set_version > newest_version_) {
    newest_version_ = info.set_version;
    if (changes_.size() < kMostChanges) {
      changes_.push_back({info.set_version, info.end_unix_ns, step.wanted.count()});
    } else {
      ++changes_left_out_;
    }
  }
}

RunHistory::On RunHistory::on(HookId hook, std::size_t bucket) const {
  const std::uint32_t wanted = on_[hook * buckets() + bucket];
  if (wanted == 0) return On::no;
  return wanted >= steps_[bucket] ? On::all : On::some;
}

bool RunHistory::ever_on(HookId hook) const {
  const auto from = on_.begin() + static_cast<std::ptrdiff_t>(hook * buckets());
  return std::any_of(from, from + static_cast<std::ptrdiff_t>(buckets()),
                     [](std::uint32_t wanted) { return wanted > 0; });
}

Durations RunHistory::intervals() const {
  Durations all;
  for (const auto& [number, lane] : lanes_) all.add(lane.intervals);
  return all;
}

std::string duration_text(double ns) {
  const auto text = [](double value, const char* unit) {
    return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
  };
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return text(ns / 1e3, "µs");
  if (ns < 1e9) return text(ns / 1e6, "ms");
  if (ns < 120e9) return text(ns / 1e9, "s");
  if (ns < 7200e9) return text(ns / 60e9, "min");
  return text(ns / 3600e9, "h");
}

}  // namespace graphtap::cli
