#pragma once
#include <mutex>
#include <vector>

#include "device/device.hpp"

namespace graphtap {

/// Events of one device, kept for reuse: creating one costs more than recording it. Thread-safe.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  ~EventPool() {
    for (const Event event : free_) device_.destroy_event(event);
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// An event recorded at the end of `stream` now.
  Result<Event> record(Stream stream) {
    Event event{};
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        event = free_.back();
        free_.pop_back();
      }
    }
    if (event == Event{}) {
      Result<Event> created = device_.create_event();
      if (!created.ok()) return created;
      event = created.value();
    }
    if (Status status = device_.record(event, stream); !status.ok()) {
      device_.destroy_event(event);  // whether it was recorded is unknown: never reuse it
      return status;
    }
    return event;
  }

  /// The device is lost: no call is made for the events that are here or come back later.
  void forget() noexcept {
    const std::lock_guard lock(mutex_);
    forgotten_ = true;
    free_.clear();
  }

  void give_back(Event event) {
    if (event == Event{}) return;
    const std::lock_guard lock(mutex_);
    if (!forgotten_) free_.push_back(event);
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<Event> free_;
  bool forgotten_ = false;
};

}  // namespace graphtap
