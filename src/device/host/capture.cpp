#include "device/host/capture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/edges.hpp"

namespace graphtap {
namespace {

Status not_capturing(Stream stream) {
  return {Code::invalid_argument,
          fmt::format("cudaErrorIllegalState: stream {} is not capturing", std::uintptr_t(stream))};
}

}  // namespace

Event Events::create() {
  const Event event{next_++};
  events_[event];
  return event;
}

EventState* Events::find(Event event) {
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : &found->second;
}

Result<EventState*> Events::need(Event event) {
  EventState* state = find(event);
  if (!state) {
    return Status(Code::invalid_argument,
                  fmt::format("cudaErrorInvalidResourceHandle: event {} was destroyed or never was",
                              std::uintptr_t(event)));
  }
  return state;
}

Status Captures::check(const Capture& capture) const {
  if (capture.invalid.empty()) return {};
  return {Code::device_error, "cudaErrorStreamCaptureInvalidated: " + capture.invalid};
}

Status Captures::begin(Stream stream) {
  if (capturing(stream)) {
    return {Code::invalid_argument,
            fmt::format("cudaErrorIllegalState: stream {} is already capturing",
                        std::uintptr_t(stream))};
  }
  const std::uint64_t id = next_++;
  captures_[id] = {graphs_.create(), stream, {}};
  members_[stream] = {id, {}};
  return {};
}

Result<Graph> Captures::end(Stream stream) {
  const auto member = members_.find(stream);
  if (member == members_.end()) return not_capturing(stream);
  const std::uint64_t id = member->second.capture;
  const Capture capture = captures_.at(id);
  if (capture.origin != stream) {
    return Status(
        Code::invalid_argument,
        fmt::format("cudaErrorStreamCaptureUnmatched: the capture began on stream {}, not on {}",
                    std::uintptr_t(capture.origin), std::uintptr_t(stream)));
  }
  Status outcome = check(capture);
  GraphState* graph = graphs_.find(capture.graph);
  if (!graph)
    outcome = {Code::device_error, "cudaErrorStreamCaptureInvalidated: its graph was destroyed"};
  if (outcome.ok()) {
    const std::vector<Node>& ends = member->second.tails;
    for (const auto& [other, state] : members_) {
      if (state.capture != id) continue;
      for (const Node tail : state.tails) {
        const bool joined = std::any_of(ends.begin(), ends.end(), [&](Node end) {
          return end == tail || reaches(graph->edges, tail, end);
        });
        if (!joined) {
          outcome = {Code::device_error,
                     fmt::format("cudaErrorStreamCaptureUnjoined: unjoined work on stream {}",
                                 std::uintptr_t(other))};
        }
      }
    }
  }
  drop(id, !outcome.ok());
  if (!outcome.ok()) return outcome;
  graph->building = false;
  return capture.graph;
}

void Captures::drop(std::uint64_t capture, bool with_graph) {
  if (with_graph) graphs_.take(captures_.at(capture).graph);
  std::erase_if(members_,
                [capture](const auto& member) { return member.second.capture == capture; });
  captures_.erase(capture);
}

Result<CaptureState> Captures::state(Stream stream) const {
  const auto member = members_.find(stream);
  if (member == members_.end()) return CaptureState{};
  const Capture& capture = captures_.at(member->second.capture);
  if (Status status = check(capture); !status.ok()) return status;
  return CaptureState{true, member->second.capture, capture.graph};
}

Result<Node> Captures::tail(Stream stream) const {
  const auto member = members_.find(stream);
  if (member == members_.end()) return not_capturing(stream);
  if (Status status = check(captures_.at(member->second.capture)); !status.ok()) return status;
  const std::vector<Node>& tails = member->second.tails;
  if (tails.size() != 1) {
    return Status(Code::unsupported, fmt::format("stream {} has {} tail dependencies, not one",
                                                 std::uintptr_t(stream), tails.size()));
  }
  return tails.front();
}

Result<Node> Captures::add(Stream stream, NodeBody body) {
  const auto member = members_.find(stream);
  if (member == members_.end()) return not_capturing(stream);
  const Capture& capture = captures_.at(member->second.capture);
  if (Status status = check(capture); !status.ok()) return status;
  GraphState* graph = graphs_.find(capture.graph);
  if (!graph)
    return refuse(stream, "cudaErrorInvalidValue: the graph being captured was destroyed");
  const Node node = graphs_.add(*graph, std::move(body), member->second.tails);
  member->second.tails = {node};
  return node;
}

Status Captures::mark(Stream stream, EventState& event) const {
  const Member& member = members_.at(stream);
  if (Status status = check(captures_.at(member.capture)); !status.ok()) return status;
  event = {nullptr, member.capture, member.tails};
  return {};
}

Status Captures::join(Stream stream, const EventState& event) {
  const auto capture = captures_.find(event.capture);
  if (capture == captures_.end()) {
    return {Code::device_error,
            "cudaErrorCapturedEvent: the event was last recorded in a capture that is over"};
  }
  if (Status status = check(capture->second); !status.ok()) return status;
  Member& member = members_[stream];
  if (member.capture == 0) member.capture = event.capture;
  if (member.capture != event.capture) {
    return refuse(stream, "cudaErrorStreamCaptureMerge: a wait would join two captures");
  }
  for (const Node tail : event.tails) {
    if (std::find(member.tails.begin(), member.tails.end(), tail) == member.tails.end()) {
      member.tails.push_back(tail);
    }
  }
  return {};
}

Status Captures::refuse(Stream stream, const std::string& why) {
  Capture& capture = captures_.at(members_.at(stream).capture);
  if (capture.invalid.empty()) capture.invalid = why;
  return {Code::device_error, why};
}

void Captures::leave(Stream stream) {
  const auto member = members_.find(stream);
  if (member == members_.end()) return;
  const std::uint64_t id = member->second.capture;
  Capture& capture = captures_.at(id);
  if (capture.origin == stream) return drop(id, true);
  if (capture.invalid.empty()) capture.invalid = "a stream of the capture was destroyed";
  members_.erase(member);
}

}  // namespace graphtap
