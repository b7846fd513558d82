#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "graphtap/delivery.hpp"
#include "graphtap/request.hpp"
#include "graphtap/sink.hpp"
#include "graphtap/stats.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// Feeds one sink from a bounded queue, so that a sink that is slow, fails, throws or hangs harms
/// nobody else (requirement D2). Items (steps and request events) are handed over one at a time, in
/// the order in which they were offered; one that fails is tried again with exponential backoff
/// and, after the last attempt, counted lost. The next item then gets its full number of attempts.
///
/// Positions are counts of items: `enqueued()` is the position behind the last one offered.
///
/// Threaded: a thread of its own calls the sink. Manual: `pump()` does, and time is only ever read
/// from `now_ns`, never waited for, so that backoff works on a virtual clock.
///
/// The `finished` event of a request that had rows in a lost step is handed on with valid = false
/// and the lost records counted as gaps; a loss after that event cannot happen, since items stay in
/// order.
///
/// Thread-safety: every member may be called from any thread. Neither callback is called under a
/// lock or after stop() has returned.
class SinkRunner {
 public:
  /// Of a step that this sink will never have; called before its position counts as reached.
  using OnLost = std::function<void(const DeliveredStep&)>;
  /// Something was settled: there may be room in the queue, or a flush may be done.
  using OnProgress = std::function<void()>;

  /// How much longer than its deadline stop() may take: for the call into the sink that is in
  /// progress when the deadline passes, and for Sink::close().
  static constexpr std::chrono::milliseconds kStopGrace{200};

  /// `now_ns`: a monotonic clock in nanoseconds. `sink` must not be null.
  SinkRunner(std::shared_ptr<Sink> sink, RetryPolicy retry, std::uint64_t queue_bytes_limit,
             bool manual, std::function<std::uint64_t()> now_ns, OnLost on_lost = {},
             OnProgress on_progress = {});
  ~SinkRunner();  ///< stop(0)
  SinkRunner(const SinkRunner&) = delete;
  SinkRunner& operator=(const SinkRunner&) = delete;

  /// What a step takes of the queue's limit: its payload and its own size, so that steps without
  /// payload are bounded too.
  [[nodiscard]] static std::uint64_t queue_cost(const DeliveredStep& step) noexcept;

  /// Takes shared ownership; what `step` owns is released when the last runner is done with it.
  /// False (and nothing taken): no room; offer it again later. A step larger than the whole limit
  /// is taken when no other step is queued. After stop() it is taken and counted lost at once.
  [[nodiscard]] bool offer(std::shared_ptr<const DeliveredStep> step);
  /// Gives up on a step that was refused: counted lost, and told to on_lost. It takes no position.
  void lose(const std::shared_ptr<const DeliveredStep>& step);
  /// Never refused: an event holds no staging memory. After stop() it is counted lost.
  void offer_event(RequestEvent event);

  [[nodiscard]] std::uint64_t enqueued() const;
  /// Everything before `position` is written or counted lost.
  [[nodiscard]] bool reached(std::uint64_t position) const;

  /// Asks for Sink::flush() once everything enqueued so far is settled; returns that position.
  std::uint64_t request_flush();
  /// Sink::flush() has returned ok after everything before `position` was settled.
  [[nodiscard]] bool flushed(std::uint64_t position) const;
  /// Why a requested flush up to `position` was given up; ok while it is pending or done.
  [[nodiscard]] Status flush_error(std::uint64_t position) const;
  /// Waits for a flush that was requested. Manual mode pumps as far as it gets without waiting.
  /// Errors: timeout (says how much is left), unavailable (stopped), the sink's own.
  Status wait_flushed(std::uint64_t position, std::chrono::nanoseconds timeout);

  /// Manual mode: one attempt at one item, flush or close. False: nothing to do now (see
  /// next_attempt_ns).
  bool pump();
  /// The last item was given up after all its attempts, and nothing was accepted since.
  [[nodiscard]] bool down() const;
  /// When the current backoff ends, by `now_ns`; nullopt: no backoff is being waited for.
  [[nodiscard]] std::optional<std::uint64_t> next_attempt_ns() const;

  /// Tells the thread to finish within `deadline` and returns at once; for stopping several sinks
  /// in the same time. The first deadline given counts.
  void begin_stop(std::chrono::nanoseconds deadline);
  /// Finishes the queue until the deadline, counts the rest as lost, closes the sink. Never takes
  /// longer than deadline + kStopGrace in threaded mode: a call that hangs is left behind with its
  /// thread, which closes the sink if the call ever returns. Manual mode tries without backoff.
  /// Idempotent.
  void stop(std::chrono::nanoseconds deadline);
  /// After stop(): ok, or timeout (what was left) or the error of Sink::close().
  [[nodiscard]] Status stop_status() const;

  [[nodiscard]] SinkStats stats() const;
  /// Request events given up after the last retry, or left at stop().
  [[nodiscard]] std::uint64_t lost_events() const;

 private:
  class Core;
  std::shared_ptr<Core>
      core_;  // shared with the thread, which may outlive the runner if its sink hangs
  const bool manual_;
  std::mutex thread_mutex_;
  std::thread thread_;
};

}  // namespace graphtap
