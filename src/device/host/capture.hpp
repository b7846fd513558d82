#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/host/executor.hpp"
#include "device/host/graph_store.hpp"

namespace graphtap {

/// Where an event was recorded last.
struct EventState {
  PointRef point;             // in a stream's work; null = never recorded, or recorded in a capture
  std::uint64_t capture = 0;  // in that capture, behind `tails`; 0 = not in one
  std::vector<Node> tails;
};

/// The events of a device. Not thread-safe: the device holds its lock.
class Events {
 public:
  Event create();
  void destroy(Event event) { events_.erase(event); }
  [[nodiscard]] EventState* find(Event event);
  [[nodiscard]] Result<EventState*> need(Event event);
  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }

 private:
  std::unordered_map<Event, EventState> events_;
  std::uintptr_t next_ = 1;
};

/// The captures in progress and the streams that take part in them. Not thread-safe.
class Captures {
 public:
  explicit Captures(GraphStore& graphs) : graphs_(graphs) {}

  Status begin(Stream stream);
  Result<Graph> end(Stream stream);
  [[nodiscard]] bool capturing(Stream stream) const { return members_.contains(stream); }
  [[nodiscard]] Result<CaptureState> state(Stream stream) const;
  [[nodiscard]] Result<Node> tail(Stream stream) const;

  /// Adds a node behind what the stream has captured so far.
  Result<Node> add(Stream stream, NodeBody body);
  /// An event recorded in a capturing stream marks where it is.
  Status mark(Stream stream, EventState& event) const;
  /// A stream waits for an event recorded in a capture: it joins the capture there.
  Status join(Stream stream, const EventState& event);
  /// A call that cannot be captured: the capture is lost, as in CUDA, and its end will say why.
  Status refuse(Stream stream, const std::string& why);
  /// The stream is destroyed: a capture that it takes part in is lost.
  void leave(Stream stream);

 private:
  struct Capture {
    Graph graph{};
    Stream origin{};
    std::string invalid;  // why it is lost; empty = it is not
  };
  struct Member {
    std::uint64_t capture = 0;
    std::vector<Node> tails;
  };
  void drop(std::uint64_t capture, bool with_graph);
  [[nodiscard]] Status check(const Capture& capture) const;

  GraphStore& graphs_;
  std::unordered_map<std::uint64_t, Capture> captures_;
  std::unordered_map<Stream, Member> members_;
  std::uint64_t next_ = 1;
};

}  // namespace graphtap
