#include "gate/capture_recorder.hpp"

#include <iterator>
#include <limits>
#include <utility>

namespace graphtap {

std::uint16_t CaptureRecorder::next_ordinal(const CaptureState& capture, HookId hook) {
  const std::lock_guard lock(mutex_);
  std::uint16_t& calls = recording(capture).calls[hook];
  if (calls == std::numeric_limits<std::uint16_t>::max()) return calls;
  return calls++;
}

void CaptureRecorder::record(Device& device, const CaptureState& capture, Stream stream,
                             const ProducerId& id, const wire::StepHeader* header) {
  RecordedProducer producer;
  producer.id = id;
  producer.header = header;
  const Result<Node> tail = device.captured_tail(stream);
  if (tail.ok()) {
    producer.node = tail.value();
    producer.reason = why_unverified(device.inspect(capture.graph, producer.node), id, header);
  } else {
    producer.reason = "its node is not known: " + tail.status().message();
  }
  producer.managed = producer.reason.empty();
  const std::lock_guard lock(mutex_);
  recording(capture).producers.push_back(std::move(producer));
}

std::vector<RecordedProducer> CaptureRecorder::take(Graph graph) {
  const std::lock_guard lock(mutex_);
  for (auto it = recordings_.begin(); it != recordings_.end(); ++it) {
    if (it->graph != graph) continue;
    std::vector<RecordedProducer> producers = std::move(it->producers);
    by_capture_.erase(it->capture);
    recordings_.erase(it);
    return producers;
  }
  return {};
}

std::size_t CaptureRecorder::captures() const {
  const std::lock_guard lock(mutex_);
  return recordings_.size();
}

std::uint64_t CaptureRecorder::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

CaptureRecorder::Recording& CaptureRecorder::recording(const CaptureState& capture) {
  if (const auto known = by_capture_.find(capture.id); known != by_capture_.end()) {
    return *known->second;
  }
  for (auto it = recordings_.begin(); it != recordings_.end();) {
    const auto next = std::next(it);
    if (it->graph == capture.graph) drop(it);
    it = next;
  }
  if (recordings_.size() >= capacity_ && !recordings_.empty()) drop(recordings_.begin());
  Recording fresh;
  fresh.capture = capture.id;
  fresh.graph = capture.graph;
  const auto it = recordings_.insert(recordings_.end(), std::move(fresh));
  by_capture_.emplace(capture.id, it);
  return *it;
}

void CaptureRecorder::drop(std::list<Recording>::iterator which) {
  if (!which->producers.empty()) ++dropped_;
  by_capture_.erase(which->capture);
  recordings_.erase(which);
}

}  // namespace graphtap
