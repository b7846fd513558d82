#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "graphtap/monitor.hpp"
#include "graphtap/sink.hpp"
#include "graphtap/stats.hpp"

namespace graphtap::cli {

/// Passes everything on to a store, remembers the last refusal with its code (statistics have it in
/// words only), and notices when trying again does not help, so that the command can end instead of
/// going on capturing for a full disk.
class WatchedSink final : public Sink {
 public:
  explicit WatchedSink(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}
  [[nodiscard]] std::string name() const override { return sink_->name(); }
  Status write(const DeliveredStep& step) override;
  Status event(const RequestEvent& event) override { return note(sink_->event(event)); }
  Status flush() override { return note(sink_->flush()); }
  Status close() override { return note(sink_->close()); }

  /// How often the command tries before a step is given up: 0.3 s in all.
  [[nodiscard]] static RetryPolicy retry() noexcept;
  /// True once a step was refused every time it was tried.
  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }
  /// Why steps were given up and how many, if `stats` (of the monitor that fed it) say so; else ok.
  [[nodiscard]] Status lost(const Stats& stats) const;

 private:
  Status note(Status status);

  const std::shared_ptr<Sink> sink_;
  std::uint32_t refusals_ = 0;  // in a row; the sink's thread only
  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;
  Status last_;
};

/// Delivers what is in flight and closes `monitor`: within `deadline`, or soon after `store` (may
/// be null) turned out to take nothing any more. Errors: those of Monitor::close.
Status close_monitor(Monitor& monitor, const WatchedSink* store, std::chrono::seconds deadline);

}  // namespace graphtap::cli
