#include "cli/graph/traffic.hpp"

#include <algorithm>

namespace graphtap::cli {

Traffic::Traffic(const Options& options) : options_(options), random_(options.seed) {
  std::uint64_t arrives = 0;
  for (std::uint32_t i = 0; i < options.requests; ++i) {
    TrafficRequest request;
    request.number = i;
    request.arrives = arrives;
    request.prompt = 3 + static_cast<std::int64_t>(random_.below(30));
    request.length = request.prompt + 8 + static_cast<std::int64_t>(random_.below(56));
    requests_.push_back(request);
    // Bursts of two or three, then a pause, so that the batch grows and shrinks.
    arrives += random_.chance(0.6) ? random_.below(2) : 6 + random_.below(18);
  }
}

std::optional<TrafficStep> Traffic::next() {
  for (TrafficRequest& request : requests_) {
    if (!request.begun && request.arrives <= step_) {
      request.begun = true;
      waiting_.push_back(request.number);
    }
  }
  if (running_.empty() && waiting_.empty()) {  // a pause: the next arrival ends it
    const auto late = std::find_if(requests_.begin(), requests_.end(),
                                   [](const TrafficRequest& r) { return !r.begun; });
    if (late == requests_.end()) return std::nullopt;
    late->begun = true;
    waiting_.push_back(late->number);
  }
  TrafficStep step;
  ++step_;
  maybe_preempt(step);
  for (const std::uint64_t number : running_) {  // a prompt that was begun is finished first
    if (prefill(number, step)) return step;
  }
  if (!waiting_.empty() && running_.size() < options_.most_running && step.preempted.empty()) {
    const std::uint64_t number = waiting_.front();
    waiting_.erase(waiting_.begin());
    running_.push_back(number);
    if (requests_[number].computed == 0) step.joined.push_back(number);
    (void)prefill(number, step);
    return step;
  }
  const std::vector<std::uint64_t> rows = running_;
  for (const std::uint64_t number : rows) advance(number, 1, step);
  return step;
}

void Traffic::maybe_preempt(TrafficStep& step) {
  if (running_.size() < 3 || !random_.chance(options_.preempt)) return;
  const std::uint64_t number = running_.back();
  running_.pop_back();
  waiting_.insert(waiting_.begin(), number);
  requests_[number].cached = 0;
  step.preempted.push_back(number);
}

// A chunk of the prompt, or of everything again after a preemption. False: it is decoding already.
bool Traffic::prefill(std::uint64_t number, TrafficStep& step) {
  TrafficRequest& request = requests_[number];
  if (request.cached >= request.known()) return false;
  step.prefill = true;
  const std::int64_t left = request.known() - request.cached;
  advance(number, static_cast<std::uint32_t>(std::min<std::int64_t>(left, options_.chunk)), step);
  return true;
}

void Traffic::advance(std::uint64_t number, std::uint32_t rows, TrafficStep& step) {
  TrafficRequest& request = requests_[number];
  step.spans.push_back({number, request.cached, rows});
  request.cached += rows;
  request.computed = std::max(request.computed, request.cached);
  if (request.computed == request.length) {
    step.finished.push_back(number);
    std::erase(running_, number);
  }
}

}  // namespace graphtap::cli
