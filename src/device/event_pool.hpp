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

  void give_back(Event event) {
    if (event == Event{}) return;
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<Event> free_;
};

}  // namespace graphtap
