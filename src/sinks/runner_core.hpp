#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "sinks/sink_runner.hpp"

namespace graphtap {

/// The state machine behind SinkRunner. One unit of work is one call into the sink; `mutex_` is
/// never held during it, nor during our callbacks. Only one thread at a time is inside work().
class SinkRunner::Core {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  using Clock = std::chrono::steady_clock;

  Core(std::shared_ptr<Sink> sink, RetryPolicy retry, std::uint64_t queue_bytes_limit, bool manual,
       std::function<std::uint64_t()> now_ns, OnLost on_lost, OnProgress on_progress);

  bool offer(std::shared_ptr<const DeliveredStep> step);
  void lose(const std::shared_ptr<const DeliveredStep>& step);
  void offer_event(RequestEvent event);
  bool down();
  std::uint64_t enqueued();
  bool reached(std::uint64_t position);

  std::uint64_t request_flush();
  bool flushed(std::uint64_t position);
  Status flush_error(std::uint64_t position);
  Status wait_flushed(std::uint64_t position, Nanoseconds timeout);

  bool pump();
  std::optional<std::uint64_t> next_attempt_ns();
  void run();  ///< the thread's life

  void begin_stop(Nanoseconds deadline);
  void stop_manual();
  /// True: the thread has ended or is about to. False: it is inside a call and was left behind.
  bool wait_stopped(Nanoseconds deadline);
  void abandon();
  Status stop_status();

  SinkStats stats();
  std::uint64_t lost_events();

 private:
  struct Item {
    std::shared_ptr<const DeliveredStep> step;  // null: an event
    RequestEvent event;
    std::uint64_t bytes = 0;
    bool reported = false;  // on_lost was told
  };
  enum class Work { item, flush, close, backoff, nothing };
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] Work next_work();
  void work(Lock& lock, Work what);
  void give_item(Lock& lock);
  void flush_sink(Lock& lock);
  void close_sink(Lock& lock);
  /// Calls the sink unlocked; exceptions become a Status.
  template <class Call>
  Status call(Lock& lock, Call&& function);
  /// Counts the failure and sets the backoff. True: that was the last attempt.
  bool failed(const Status& status);
  void succeeded();
  void settle_front();
  void lose_front(Lock& lock);
  void lose_rest(Lock& lock);
  void drop_if_past_deadline(Lock& lock);
  void progressed(Lock& lock);
  void accepted(const Item& item);
  void count_lost(const Item& item);
  void note_lost_rows(const DeliveredStep& step);
  [[nodiscard]] RequestEvent as_this_sink_saw_it(RequestEvent event);
  [[nodiscard]] std::string what_is_left() const;

  const std::shared_ptr<Sink> sink_;
  const RetryPolicy retry_;
  const std::uint64_t limit_;
  const bool manual_;
  const std::function<std::uint64_t()> now_ns_;
  const OnLost on_lost_;
  const OnProgress on_progress_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;  // the front stays in until it is settled
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t enqueued_ = 0;
  std::uint64_t settled_ = 0;
  std::deque<std::uint64_t> flush_marks_;  // rising
  std::uint64_t flushed_ = 0;
  std::uint64_t flush_given_up_ = 0;
  Status flush_error_;

  std::uint32_t attempts_made_ = 0;  // at the current item, flush or close
  std::uint64_t not_before_ns_ = 0;  // 0: no backoff
  bool working_ = false;             // a thread is inside work()

  bool stopping_ = false;
  bool stopped_ = false;    // close() was called and has returned, or the sink was left behind
  bool abandoned_ = false;  // the thread may still be in a call: it must touch nothing but close()
  std::uint64_t deadline_ns_ = 0;
  Status stop_status_;

  SinkStats stats_;
  bool down_ = false;
  std::uint64_t lost_events_ = 0;
  std::string logged_error_;
  std::string to_log_;                                          // written once the lock is released
  std::unordered_map<std::uint64_t, std::uint64_t> lost_rows_;  // request serial → records lost
};

}  // namespace graphtap
