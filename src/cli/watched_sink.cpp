#include "cli/watched_sink.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/values.hpp"

namespace graphtap::cli {

RetryPolicy WatchedSink::retry() noexcept {
  RetryPolicy policy;
  policy.attempts = 6;
  return policy;
}

Status WatchedSink::write(const DeliveredStep& step) {
  Status status = note(sink_->write(step));
  refusals_ = status.ok() ? 0 : refusals_ + 1;
  if (refusals_ >= retry().attempts) broken_.store(true, std::memory_order_relaxed);
  return status;
}

Status WatchedSink::note(Status status) {
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    last_ = status;
  }
  return status;
}

Status WatchedSink::lost(const Stats& stats) const {
  for (const SinkStats& sink : stats.sinks) {
    if (sink.name != name() || sink.lost_steps == 0) continue;
    const std::lock_guard lock(mutex_);
    return {last_.ok() ? Code::io_error : last_.code(),
            fmt::format("{}; {} with {} given up", last_.ok() ? sink.last_error : last_.message(),
                        counted(sink.lost_steps, "step"), counted(sink.lost_records, "record"))};
  }
  return {};
}

Status close_monitor(Monitor& monitor, const WatchedSink* store, std::chrono::seconds deadline) {
  constexpr std::chrono::milliseconds kSlice{250}, kGivenUp{1000};
  const auto until = std::chrono::steady_clock::now() + deadline;
  const auto broken = [store] { return store && store->broken(); };
  while (!broken() && std::chrono::steady_clock::now() < until) {
    if (monitor.flush(kSlice).code() != Code::timeout) break;
  }
  const std::chrono::nanoseconds left = until - std::chrono::steady_clock::now();
  return monitor.close(broken() ? kGivenUp : std::max<std::chrono::nanoseconds>(left, kGivenUp));
}

}  // namespace graphtap::cli
