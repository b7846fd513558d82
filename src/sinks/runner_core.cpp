#include "sinks/runner_core.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

namespace graphtap {
namespace {

std::string name_of(Sink& sink) {
  try {
    return sink.name();
  } catch (const std::exception&) {
    return "unnamed";
  }
}

std::uint64_t backoff_ns(const RetryPolicy& retry, std::uint32_t failures) {
  const auto first = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::nanoseconds(retry.first_backoff).count()));
  const auto longest = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::nanoseconds(retry.longest_backoff).count()));
  std::uint64_t wait = std::min(first, longest);
  for (std::uint32_t i = 1; i < failures && wait < longest; ++i) wait = std::min(wait * 2, longest);
  return wait;
}

}  // namespace

SinkRunner::Core::Core(std::shared_ptr<Sink> sink, RetryPolicy retry,
                       std::uint64_t queue_bytes_limit, bool manual,
                       std::function<std::uint64_t()> now_ns, OnLost on_lost,
                       OnProgress on_progress)
    : sink_(std::move(sink)),
      retry_(retry),
      limit_(queue_bytes_limit),
      manual_(manual),
      now_ns_(std::move(now_ns)),
      on_lost_(std::move(on_lost)),
      on_progress_(std::move(on_progress)) {
  stats_.name = name_of(*sink_);
}

// ---- Taking items

bool SinkRunner::Core::offer(std::shared_ptr<const DeliveredStep> step) {
  Lock lock(mutex_);
  Item item{std::move(step), {}};
  item.bytes = SinkRunner::queue_cost(*item.step);
  if (stopped_) {
    ++enqueued_;
    lock.unlock();
    if (on_lost_) on_lost_(*item.step);
    lock.lock();
    count_lost(item);
    ++settled_;
    return true;
  }
  if (queued_bytes_ > 0 && queued_bytes_ + item.bytes > limit_) return false;
  queued_bytes_ += item.bytes;
  ++enqueued_;
  ++stats_.queued_steps;
  queue_.push_back(std::move(item));
  changed_.notify_all();
  return true;
}

void SinkRunner::Core::lose(const std::shared_ptr<const DeliveredStep>& step) {
  if (on_lost_) on_lost_(*step);
  const Lock lock(mutex_);
  count_lost(Item{step, {}});
}

bool SinkRunner::Core::down() {
  const Lock lock(mutex_);
  return down_;
}

void SinkRunner::Core::offer_event(RequestEvent event) {
  const Lock lock(mutex_);
  ++enqueued_;
  if (stopped_) {
    ++lost_events_;
    ++settled_;
    return;
  }
  queue_.push_back(Item{nullptr, std::move(event)});
  changed_.notify_all();
}

std::uint64_t SinkRunner::Core::enqueued() {
  const Lock lock(mutex_);
  return enqueued_;
}

bool SinkRunner::Core::reached(std::uint64_t position) {
  const Lock lock(mutex_);
  return settled_ >= position;
}

// ---- Flushing

std::uint64_t SinkRunner::Core::request_flush() {
  const Lock lock(mutex_);
  const bool asked = !flush_marks_.empty() && flush_marks_.back() == enqueued_;
  if (!stopped_ && !asked && flushed_ < enqueued_) {
    flush_marks_.push_back(enqueued_);
    if (flush_given_up_ >= enqueued_) flush_given_up_ = 0;  // this is the next try
    changed_.notify_all();
  }
  return enqueued_;
}

bool SinkRunner::Core::flushed(std::uint64_t position) {
  const Lock lock(mutex_);
#ifdef GRAPHTAP_BUG_sink_flush_early
  return flushed_ >= position || settled_ + 1 >= position;
#else
  return flushed_ >= position;
#endif
}

Status SinkRunner::Core::flush_error(std::uint64_t position) {
  const Lock lock(mutex_);
  return flushed_ < position && flush_given_up_ >= position ? flush_error_ : Status{};
}

Status SinkRunner::Core::wait_flushed(std::uint64_t position, Nanoseconds timeout) {
  while (manual_ && !flushed(position) && pump()) {
  }
  Lock lock(mutex_);
  const auto given_up = [&] { return flush_given_up_ >= position || stopped_; };
  if (!manual_) {
    changed_.wait_for(lock, timeout, [&] { return flushed_ >= position || given_up(); });
  }
  if (flushed_ >= position) return {};
  if (flush_given_up_ >= position) return flush_error_;
  if (stopped_) {
    return {Code::unavailable,
            fmt::format("sink {} is stopped: it cannot be flushed", stats_.name)};
  }
  return {Code::timeout,
          fmt::format("sink {} was not flushed in time: {}", stats_.name, what_is_left())};
}

// ---- Working

SinkRunner::Core::Work SinkRunner::Core::next_work() {
  if (stopped_ || working_) return Work::nothing;
  const bool flush_due = !flush_marks_.empty() && settled_ >= flush_marks_.front();
  if (!flush_due && queue_.empty() && !stopping_) return Work::nothing;
  // Nobody advances a virtual clock during stop(), so manual mode stops without backoff.
  if (not_before_ns_ > 0 && now_ns_() < not_before_ns_ && !(manual_ && stopping_))
    return Work::backoff;
  if (flush_due) return Work::flush;
  return queue_.empty() ? Work::close : Work::item;
}

void SinkRunner::Core::work(Lock& lock, Work what) {
  working_ = true;
  not_before_ns_ = 0;
  switch (what) {
    case Work::item:
      give_item(lock);
      break;
    case Work::flush:
      flush_sink(lock);
      break;
    case Work::close:
      close_sink(lock);
      break;
    case Work::backoff:
    case Work::nothing:
      break;
  }
  if (abandoned_) return;
  progressed(lock);
  working_ = false;
  changed_.notify_all();
}

template <class Call>
Status SinkRunner::Core::call(Lock& lock, Call&& function) {
  lock.unlock();
  Status status;
  try {
    status = function();
  } catch (const std::exception& error) {
    status = {Code::unavailable, error.what()};
  } catch (...) {
    status = {Code::unavailable, "threw something that is not a std::exception"};
  }
  lock.lock();
  return status;
}

void SinkRunner::Core::give_item(Lock& lock) {
  // A copy: stop() may take the queue away while the sink still reads what the step owns.
  const Item item = queue_.front();
  const Status status = call(lock, [&] {
    return item.step ? sink_->write(*item.step) : sink_->event(as_this_sink_saw_it(item.event));
  });
  if (abandoned_) return;
  if (status.ok()) {
    succeeded();
    accepted(item);
    settle_front();
  } else if (failed(status)) {
#ifdef GRAPHTAP_BUG_sink_drop_on_error
    settle_front();
#else
    lose_front(lock);
#endif
  }
}

void SinkRunner::Core::flush_sink(Lock& lock) {
  const std::uint64_t position = settled_;
  const Status status = call(lock, [&] { return sink_->flush(); });
  if (abandoned_) return;
  if (status.ok()) {
    succeeded();
    flushed_ = position;
  } else {
    if (!failed(status)) return;
    flush_given_up_ = position;
    flush_error_ = {status.code(),
                    fmt::format("sink {} could not be flushed: {}", stats_.name, status.message())};
  }
  while (!flush_marks_.empty() && flush_marks_.front() <= position) flush_marks_.pop_front();
}

void SinkRunner::Core::close_sink(Lock& lock) {
  const Status status = call(lock, [&] { return sink_->close(); });
  if (abandoned_) return;
  if (status.ok()) {
    succeeded();
    flushed_ = settled_;
  } else {
    // Past the deadline there is one attempt.
    if (!failed(status) && now_ns_() < deadline_ns_) return;
    if (stop_status_.ok()) {
      stop_status_ = {status.code(), fmt::format("sink {} could not be closed: {}", stats_.name,
                                                 status.message())};
    }
  }
  // What was offered while close() ran is refused by the sink from now on.
  lose_rest(lock);
  if (!abandoned_) stopped_ = true;
}

bool SinkRunner::Core::failed(const Status& status) {
  ++stats_.failures;
  stats_.last_error = status.message().empty() ? to_string(status.code()) : status.message();
  if (stats_.last_error != logged_error_) {
    logged_error_ = stats_.last_error;
    to_log_ = stats_.last_error;
  }
#ifdef GRAPHTAP_BUG_sink_drop_on_error
  return true;
#endif
  if (++attempts_made_ >= std::max<std::uint32_t>(1, retry_.attempts)) {
    attempts_made_ = 0;
    return true;
  }
  not_before_ns_ = now_ns_() + backoff_ns(retry_, attempts_made_);
  return false;
}

void SinkRunner::Core::succeeded() {
  attempts_made_ = 0;
  down_ = false;
  stats_.last_error.clear();
}

void SinkRunner::Core::accepted(const Item& item) {
  if (!item.step) return;
  ++stats_.steps;
  stats_.records += item.step->records.size();
  for (const Record& record : item.step->records) stats_.bytes += record.payload.size();
}

// ---- Losing

void SinkRunner::Core::lose_front(Lock& lock) {
  const Item item = queue_.front();
  if (item.step && on_lost_ && !std::exchange(queue_.front().reported, true)) {
    const bool before = abandoned_;
    lock.unlock();
    on_lost_(*item.step);
    lock.lock();
    if (abandoned_ != before) return;  // stop() has taken over what is left
  }
  down_ = true;
  count_lost(item);
  settle_front();
}

void SinkRunner::Core::count_lost(const Item& item) {
  if (!item.step) {
    ++lost_events_;
    return;
  }
  ++stats_.lost_steps;
  stats_.lost_records += item.step->records.size();
  note_lost_rows(*item.step);
}

void SinkRunner::Core::settle_front() {
  const Item& item = queue_.front();
  if (!item.step && item.event.kind == RequestEvent::Kind::finished && item.event.request) {
    lost_rows_.erase(item.event.request->serial);
  }
  queued_bytes_ -= item.bytes;
  if (item.step) --stats_.queued_steps;
  queue_.pop_front();
  ++settled_;
}

void SinkRunner::Core::lose_rest(Lock& lock) {
  const bool before = abandoned_;
  while (!queue_.empty() && abandoned_ == before) lose_front(lock);
}

void SinkRunner::Core::drop_if_past_deadline(Lock& lock) {
  if (!stopping_ || stopped_ || working_ || now_ns_() < deadline_ns_) return;
  if (!queue_.empty() && stop_status_.ok()) {
    stop_status_ = {Code::timeout, fmt::format("sink {}: the deadline passed with {}", stats_.name,
                                               what_is_left())};
  }
  working_ = true;
  lose_rest(lock);
  if (abandoned_) return;
  working_ = false;
  attempts_made_ = 0;
  not_before_ns_ = 0;
  flush_marks_.clear();  // Sink::close() flushes
}

void SinkRunner::Core::note_lost_rows(const DeliveredStep& step) {
  std::unordered_set<std::uint64_t> requests;
  for (const Record& record : step.records) {
    requests.clear();
    for (const Slice& slice : record.slices) {
      if (slice.request && requests.insert(slice.request->serial).second) {
        ++lost_rows_[slice.request->serial];
      }
    }
  }
}

RequestEvent SinkRunner::Core::as_this_sink_saw_it(RequestEvent event) {
  if (event.kind != RequestEvent::Kind::finished || !event.request) return event;
  const Lock lock(mutex_);
  const auto lost = lost_rows_.find(event.request->serial);
  if (lost == lost_rows_.end()) return event;
  event.valid = false;
  event.gaps += lost->second;
  event.records -= std::min(event.records, lost->second);
  return event;
}

void SinkRunner::Core::progressed(Lock& lock) {
  if (!on_progress_ && to_log_.empty()) return;
  const std::string error = std::exchange(to_log_, {});
  changed_.notify_all();
  lock.unlock();
  if (!error.empty()) spdlog::warn("sink {}: {}", stats_.name, error);
  if (on_progress_) on_progress_();
  lock.lock();
}

std::string SinkRunner::Core::what_is_left() const {
  std::string text = fmt::format("{} of {} items left ({} steps)", enqueued_ - settled_, enqueued_,
                                 stats_.queued_steps);
  if (!stats_.last_error.empty()) text += fmt::format("; its last error: {}", stats_.last_error);
  return text;
}

// ---- Driving and stopping

bool SinkRunner::Core::pump() {
  Lock lock(mutex_);
  if (!manual_) return false;
  drop_if_past_deadline(lock);
  const Work what = next_work();
  if (what == Work::nothing || what == Work::backoff) return false;
  work(lock, what);
  return true;
}

std::optional<std::uint64_t> SinkRunner::Core::next_attempt_ns() {
  const Lock lock(mutex_);
  return not_before_ns_ > 0 ? std::optional{not_before_ns_} : std::nullopt;
}

void SinkRunner::Core::run() {
  Lock lock(mutex_);
  while (!stopped_ && !abandoned_) {
    drop_if_past_deadline(lock);
    if (abandoned_) break;
    const Work what = next_work();
    if (what == Work::nothing) {
      changed_.wait(lock);
    } else if (what == Work::backoff) {
      std::uint64_t until = not_before_ns_;
      if (stopping_) until = std::min(until, deadline_ns_);
      const std::uint64_t now = now_ns_();
      changed_.wait_for(lock, Nanoseconds(until > now ? until - now : 0));
    } else {
      work(lock, what);
    }
  }
  if (!abandoned_) return;
  // stop() gave up on a call that has returned by now: the sink still gets to close its files.
  static_cast<void>(call(lock, [&] { return sink_->close(); }));
}

void SinkRunner::Core::begin_stop(Nanoseconds deadline) {
  const Lock lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  deadline_ns_ =
      now_ns_() + static_cast<std::uint64_t>(std::max<std::int64_t>(0, deadline.count()));
  changed_.notify_all();
}

void SinkRunner::Core::stop_manual() {
  while (pump()) {
  }
}

bool SinkRunner::Core::wait_stopped(Nanoseconds deadline) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, std::max(Nanoseconds(0), deadline) + kStopGrace,
                           [&] { return stopped_; });
}

void SinkRunner::Core::abandon() {
  Lock lock(mutex_);
  if (stopped_) return;
  if (stop_status_.ok()) {
    stop_status_ = {Code::timeout, fmt::format("sink {}: a call hangs and was left behind, with {}",
                                               stats_.name, what_is_left())};
  }
  abandoned_ = true;  // from here on the thread leaves the queue to us
  lose_rest(lock);
  flush_marks_.clear();
  stopped_ = true;
  changed_.notify_all();
}

Status SinkRunner::Core::stop_status() {
  const Lock lock(mutex_);
  return stop_status_;
}

SinkStats SinkRunner::Core::stats() {
  const Lock lock(mutex_);
  return stats_;
}

std::uint64_t SinkRunner::Core::lost_events() {
  const Lock lock(mutex_);
  return lost_events_;
}

}  // namespace graphtap
