#include "sinks/sink_runner.hpp"

#include <utility>

#include "sinks/runner_core.hpp"

namespace graphtap {

SinkRunner::SinkRunner(std::shared_ptr<Sink> sink, RetryPolicy retry,
                       std::uint64_t queue_bytes_limit, bool manual,
                       std::function<std::uint64_t()> now_ns, OnLost on_lost,
                       OnProgress on_progress)
    : core_(std::make_shared<Core>(std::move(sink), retry, queue_bytes_limit, manual,
                                   std::move(now_ns), std::move(on_lost), std::move(on_progress))),
      manual_(manual) {
  if (!manual_) thread_ = std::thread([core = core_] { core->run(); });
}

SinkRunner::~SinkRunner() { stop(std::chrono::nanoseconds(0)); }

std::uint64_t SinkRunner::queue_cost(const DeliveredStep& step) noexcept {
  std::uint64_t bytes =
      sizeof(DeliveredStep) + step.records.size() * sizeof(Record) + step.gaps.size() * sizeof(Gap);
  for (const Record& record : step.records) bytes += record.payload.size();
  return bytes;
}

bool SinkRunner::offer(std::shared_ptr<const DeliveredStep> step) {
  return core_->offer(std::move(step));
}
bool SinkRunner::down() const { return core_->down(); }
void SinkRunner::lose(const std::shared_ptr<const DeliveredStep>& step) { core_->lose(step); }
void SinkRunner::offer_event(RequestEvent event) { core_->offer_event(std::move(event)); }
std::uint64_t SinkRunner::enqueued() const { return core_->enqueued(); }
bool SinkRunner::reached(std::uint64_t position) const { return core_->reached(position); }

std::uint64_t SinkRunner::request_flush() { return core_->request_flush(); }
bool SinkRunner::flushed(std::uint64_t position) const { return core_->flushed(position); }
Status SinkRunner::flush_error(std::uint64_t position) const {
  return core_->flush_error(position);
}
Status SinkRunner::wait_flushed(std::uint64_t position, std::chrono::nanoseconds timeout) {
  return core_->wait_flushed(position, timeout);
}

bool SinkRunner::pump() { return core_->pump(); }
std::optional<std::uint64_t> SinkRunner::next_attempt_ns() const {
  return core_->next_attempt_ns();
}

void SinkRunner::begin_stop(std::chrono::nanoseconds deadline) { core_->begin_stop(deadline); }

void SinkRunner::stop(std::chrono::nanoseconds deadline) {
  core_->begin_stop(deadline);
  if (manual_) {
    core_->stop_manual();
    return;
  }
  const std::lock_guard guard(thread_mutex_);
  if (!thread_.joinable()) return;
  // A sink that stops its own monitor is inside a call: waiting for it would be waiting for
  // ourselves.
  const bool own_thread = thread_.get_id() == std::this_thread::get_id();
  if (!own_thread && core_->wait_stopped(deadline)) {
    thread_.join();
  } else {
    core_->abandon();
    thread_.detach();
  }
}

Status SinkRunner::stop_status() const { return core_->stop_status(); }
SinkStats SinkRunner::stats() const { return core_->stats(); }
std::uint64_t SinkRunner::lost_events() const { return core_->lost_events(); }

}  // namespace graphtap
