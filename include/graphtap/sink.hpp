#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "graphtap/delivery.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// Where records go. A monitor calls one sink from one thread at a time, in step order per lane.
/// Every call may fail: the monitor retries it with backoff, shows and counts the error, and other
/// sinks go on. Exceptions are caught and count as failures.
class Sink {
 public:
  virtual ~Sink() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Takes a step. Must be idempotent by `ticket` and `part`: after a failure it is called again.
  virtual Status write(const DeliveredStep& step) = 0;
  virtual Status event(const RequestEvent&) { return {}; }
  /// After it returns ok, everything written before is where readers find it.
  virtual Status flush() { return {}; }
  virtual Status close() { return flush(); }
};

/// How often a failing sink is tried again before what it missed is counted as lost.
struct RetryPolicy {
  std::uint32_t attempts = 8;                   ///< per step, the first included
  std::chrono::milliseconds first_backoff{10};  ///< doubles each time
  std::chrono::milliseconds longest_backoff{2000};
};

/// What a callback sees: one record's rows of one request. Borrowed: copy what you keep.
struct CallbackSlice {
  const DeliveredStep& step;
  const Record& record;
  const Slice& slice;
  std::span<const std::byte> data;  ///< slice.rows × record.row_bytes
};

/// Calls `on_slice` for each slice of each record (attributed rows only), `on_gap` for each gap and
/// `on_event` for each request event; empty functions are skipped.
struct Callbacks {
  std::function<void(const CallbackSlice&)> on_slice;
  std::function<void(const DeliveredStep&, const Gap&)> on_gap;
  std::function<void(const RequestEvent&)> on_event;
};
[[nodiscard]] std::shared_ptr<Sink> make_callback_sink(std::string name, Callbacks callbacks);

/// Takes everything and keeps nothing; for measuring.
[[nodiscard]] std::shared_ptr<Sink> make_null_sink();

}  // namespace graphtap
