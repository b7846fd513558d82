#include "drain/request_ledger.hpp"

#include <utility>

namespace graphtap {

void RequestLedger::tally(std::span<const Slice> slices, std::uint64_t records,
                          std::uint64_t gaps) {
  if (records == 0 && gaps == 0) return;
  const std::lock_guard lock(mutex_);
  ++calls_;
  for (const Slice& slice : slices) {
    if (!slice.request) continue;
    Tally& tally = tallies_[slice.request->serial];
    if (std::exchange(tally.call, calls_) == calls_)
      continue;  // its rows may lie in several slices
    tally.records += records;
    tally.gaps += gaps;
  }
}

void RequestLedger::hold(RequestEvent event, std::uint64_t barrier) {
  const std::lock_guard lock(mutex_);
  held_.push_back({std::move(event), barrier});
}

std::vector<RequestEvent> RequestLedger::take_ready(const Outstanding& outstanding) {
  std::vector<RequestEvent> ready;
  const std::lock_guard lock(mutex_);
  while (!held_.empty() && outstanding.settled_through(held_.front().barrier)) {
    ready.push_back(take_front());
  }
  return ready;
}

std::vector<RequestEvent> RequestLedger::take_rest() {
  std::vector<RequestEvent> rest;
  const std::lock_guard lock(mutex_);
  while (!held_.empty()) {
    rest.push_back(take_front());
    if (rest.back().kind == RequestEvent::Kind::finished) rest.back().valid = false;
  }
  return rest;
}

RequestEvent RequestLedger::take_front() {
  RequestEvent event = std::move(held_.front().event);
  held_.pop_front();
  if (event.kind != RequestEvent::Kind::finished || !event.request) return event;
  const auto found = tallies_.find(event.request->serial);
  if (found != tallies_.end()) {
    event.records = found->second.records;
    event.gaps = found->second.gaps;
    tallies_.erase(found);
  }
  event.valid = event.gaps == 0;
  return event;
}

bool RequestLedger::holds_through(std::uint64_t barrier) const {
  const std::lock_guard lock(mutex_);
  return !held_.empty() && held_.front().barrier <= barrier;
}

}  // namespace graphtap
