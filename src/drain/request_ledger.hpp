#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "drain/outstanding.hpp"
#include "graphtap/delivery.hpp"
#include "graphtap/request.hpp"

namespace graphtap {

/// Tallies records and gaps by request, and holds back events until every step begun before them
/// was delivered, so that a completion follows the request's last record (D2, flush semantics).
/// Thread-safe.
class RequestLedger {
 public:
  /// `records` delivered records and `gaps` gaps had these rows.
  void tally(std::span<const Slice> slices, std::uint64_t records, std::uint64_t gaps);
  /// `event` comes after every step up to `barrier`.
  void hold(RequestEvent event, std::uint64_t barrier);
  /// Events whose barrier was reached, in order; a finished one carries its request's tally.
  [[nodiscard]] std::vector<RequestEvent> take_ready(const Outstanding& outstanding);
  /// Whatever is still held, when nothing more will be delivered: finished requests are not valid,
  /// since what they wait for will be missing.
  [[nodiscard]] std::vector<RequestEvent> take_rest();
  [[nodiscard]] bool holds_through(std::uint64_t barrier) const;

 private:
  struct Tally {
    std::uint64_t records = 0;
    std::uint64_t gaps = 0;
    std::uint64_t call = 0;  // of tally(), which saw the request last
  };
  RequestEvent take_front();  // precondition: mutex_ held
  struct Held {
    RequestEvent event;
    std::uint64_t barrier = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Tally> tallies_;  // by request serial
  std::uint64_t calls_ = 0;
  std::deque<Held> held_;  // barriers do not fall
};

}  // namespace graphtap
