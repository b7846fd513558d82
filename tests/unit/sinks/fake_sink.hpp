#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/sink.hpp"

namespace graphtap::test {

/// A step together with what its spans point into; the aliasing pointer of `make_step` owns both.
struct OwnedStep {
  DeliveredStep step;
  std::vector<std::byte> payload;
  std::vector<Slice> slices;
};

inline Request make_request(std::uint64_t serial) {
  return std::make_shared<RequestInfo>(RequestInfo{serial, "request-" + std::to_string(serial), 0});
}

/// `records` records of 2 rows × 8 bytes; each byte is the ticket. Row 0 is `request`'s token
/// `ticket`, row 1 is nobody's.
inline std::shared_ptr<const DeliveredStep> make_step(std::uint64_t ticket, std::size_t records = 1,
                                                      Request request = nullptr) {
  auto owned = std::make_shared<OwnedStep>();
  owned->payload.assign(16 * records, static_cast<std::byte>(ticket));
  if (request)
    owned->slices.push_back({std::move(request), static_cast<std::int64_t>(ticket), 0, 1});
  owned->slices.push_back({nullptr, 0, 1, 1});
  owned->step.ticket = ticket;
  for (std::size_t i = 0; i < records; ++i) {
    Record record;
    record.ordinal = static_cast<std::uint16_t>(i);
    record.rows = 2;
    record.row_bytes = 8;
    record.payload = std::span<const std::byte>(owned->payload).subspan(16 * i, 16);
    record.slices = owned->slices;
    owned->step.records.push_back(record);
  }
  const DeliveredStep* step = &owned->step;
  return {std::move(owned), step};
}

/// Writes down every call; fails, throws or hangs as told. Calls must not overlap: it checks that.
class FakeSink final : public Sink {
 public:
  enum class Fault { none, status, exception, odd_exception };

  explicit FakeSink(std::string name = "fake") : name_(std::move(name)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  Status write(const DeliveredStep& step) override { return call("write", step.ticket); }
  Status event(const RequestEvent& event) override {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    return call("event", event.request ? event.request->serial : 0);
  }
  Status flush() override { return call("flush", 0); }
  Status close() override { return call("close", 0); }

  /// The next `times` calls fail.
  void fail_next(std::uint64_t times, Fault fault = Fault::status,
                 std::string message = "disk full") {
    const std::lock_guard lock(mutex_);
    fail_ = times;
    fault_ = fault;
    message_ = std::move(message);
  }
  /// Only calls of this kind fail ("": all).
  void only(std::string kind) {
    const std::lock_guard lock(mutex_);
    only_ = std::move(kind);
  }
  void hang() {
    const std::lock_guard lock(mutex_);
    hang_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    hang_ = false;
    changed_.notify_all();
  }
  /// Waits until a call hangs.
  void wait_hanging() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return hanging_; });
  }
  void wait_calls(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return log_.size() >= count; });
  }

  /// Every call so far, "write 3" or "write 3!" when it failed.
  [[nodiscard]] std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  [[nodiscard]] std::vector<RequestEvent> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  [[nodiscard]] bool overlapped() {
    const std::lock_guard lock(mutex_);
    return overlapped_;
  }

 private:
  Status call(const std::string& kind, std::uint64_t which) {
    std::unique_lock lock(mutex_);
    if (inside_) overlapped_ = true;
    inside_ = true;
    hanging_ = hang_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !hang_; });
    hanging_ = false;
    inside_ = false;
    std::string line =
        kind == "write" || kind == "event" ? kind + " " + std::to_string(which) : kind;
    const bool fails = fail_ > 0 && (only_.empty() || only_ == kind);
    log_.push_back(fails ? line + "!" : line);
    changed_.notify_all();
    if (!fails) return {};
    --fail_;
    if (fault_ == Fault::exception) throw std::runtime_error(message_);
    if (fault_ == Fault::odd_exception) throw 42;  // NOLINT(hicpp-exception-baseclass)
    return {Code::io_error, message_};
  }

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> log_;
  std::vector<RequestEvent> events_;
  std::uint64_t fail_ = 0;
  Fault fault_ = Fault::none;
  std::string message_;
  std::string only_;
  bool hang_ = false, hanging_ = false, inside_ = false, overlapped_ = false;
};

using Log = std::vector<std::string>;

}  // namespace graphtap::test
