#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "graphtap/sink.hpp"

namespace graphtap::cli {

/// Passes everything on, and remembers the last refusal with its code, which statistics have in
/// words only.
class WatchedSink final : public Sink {
 public:
  explicit WatchedSink(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}
  [[nodiscard]] std::string name() const override { return sink_->name(); }
  Status write(const DeliveredStep& step) override { return note(sink_->write(step)); }
  Status event(const RequestEvent& event) override { return note(sink_->event(event)); }
  Status flush() override { return note(sink_->flush()); }
  Status close() override { return note(sink_->close()); }

  [[nodiscard]] Status last_error() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  Status note(Status status) {
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      last_ = status;
    }
    return status;
  }

  const std::shared_ptr<Sink> sink_;
  mutable std::mutex mutex_;
  Status last_;
};

}  // namespace graphtap::cli
