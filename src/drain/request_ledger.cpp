#include "drain/request_ledger.hpp"

namespace graphtap {

void RequestLedger::tally(std::span<const Slice> slices, std::uint64_t records, std::uint64_t gaps) {
  if (records == 0 && gaps == 0) return;
  const std::lock_guard lock(mutex_);
  const RequestInfo* last = nullptr;
  for (const Slice& slice : slices) {
    // A request's tokens may lie in several slices of one step; they are neighbours then.
    if (!slice.request || slice.request.get() == last) continue;
    last = slice.request.get();
    Tally& tally = tallies_[last->serial];
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
    RequestEvent event = std::move(held_.front().event);
    held_.pop_front();
    if (event.kind == RequestEvent::Kind::finished && event.request) {
      const auto found = tallies_.find(event.request->serial);
      if (found != tallies_.end()) {
        event.records = found->second.records;
        event.gaps = found->second.gaps;
        tallies_.erase(found);
      }
      event.valid = event.gaps == 0;
    }
    ready.push_back(std::move(event));
  }
  return ready;
}

bool RequestLedger::holds_through(std::uint64_t barrier) const {
  const std::lock_guard lock(mutex_);
  return !held_.empty() && held_.front().barrier <= barrier;
}

}  // namespace graphtap
