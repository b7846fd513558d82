#include "store/live_index.hpp"

#include <utility>

namespace graphtap::store {

void LiveIndex::begin_run(std::shared_ptr<const RunInfo> run) {
  const std::lock_guard lock(mutex_);
  run_ = std::move(run);
  pending_.runs.push_back(run_);
}

void LiveIndex::begin_segment(const SegmentWriter& segment) {
  const std::lock_guard lock(mutex_);
  directory_ = Directory{};
  number_ = segment.number();
  size_ = segment.size();
  frames_taken_ = events_taken_ = requests_taken_ = 0;
}

bool LiveIndex::add(const SegmentWriter& segment, std::span<const std::byte> meta,
                    std::string& why) {
  const std::lock_guard lock(mutex_);
  const FrameHead& head = segment.last_head();
  size_ = segment.size();
  return directory_.add(head, segment.size() - head.offset, meta, why);
}

void LiveIndex::end_segment(const SegmentWriter& segment, bool closed) {
  const std::lock_guard lock(mutex_);
  size_ = segment.size();
  collect(true, closed);
  number_ = 0;
  directory_ = Directory{};
}

void LiveIndex::drop_segment() {
  const std::lock_guard lock(mutex_);
  number_ = 0;
  directory_ = Directory{};
}

IndexBatch LiveIndex::take(bool totals) {
  const std::lock_guard lock(mutex_);
  // A segment that holds nothing but its run may be removed again.
  if (number_ != 0 && directory_.frames().size() > 1) collect(totals, false);
  return std::exchange(pending_, {});
}

void LiveIndex::forget(const std::vector<std::uint64_t>& segments) {
  const std::lock_guard lock(mutex_);
#ifdef GRAPHTAP_BUG_store_removed_stays_in_index
  static_cast<void>(segments);
#else
  pending_.removed.insert(pending_.removed.end(), segments.begin(), segments.end());
#endif
}

std::uint64_t LiveIndex::segment_bytes() {
  const std::lock_guard lock(mutex_);
  return number_ != 0 ? size_ : 0;
}

void LiveIndex::collect(bool totals, bool closed) {
  const std::uint32_t run = run_->number;
  const auto& frames = directory_.frames();
  pending_.segments.push_back({number_, run, size_, frames.size(), closed});
  const auto first_new = static_cast<std::uint32_t>(frames_taken_);
  for (; frames_taken_ < frames.size(); ++frames_taken_) {
    const FrameEntry& entry = frames[frames_taken_];
    if (static_cast<FrameKind>(entry.kind) != FrameKind::step) continue;
    pending_.frames.push_back({number_, run, static_cast<std::uint32_t>(frames_taken_), entry});
  }
  for (const RangeEntry& range : directory_.ranges()) {
    if (range.last_frame >= first_new) pending_.ranges.push_back({number_, run, 0, range});
  }
  const auto& events = directory_.events();
  for (; events_taken_ < events.size(); ++events_taken_) {
    pending_.events.push_back(
        {number_, run, static_cast<std::uint32_t>(events_taken_), events[events_taken_]});
  }
  const auto& requests = directory_.requests();
  for (; requests_taken_ < requests.size(); ++requests_taken_) {
    const RequestEntry& entry = requests[requests_taken_];
    pending_.requests.push_back(
        {run, entry.serial, entry.prompt_tokens, std::string(directory_.id(entry))});
  }
  if (!totals) return;
  for (const HookTotalEntry& total : directory_.hook_totals()) {
    pending_.hook_totals.push_back({number_, run, 0, total});
  }
  for (const GapTotalEntry& total : directory_.gap_totals()) {
    pending_.gap_totals.push_back({number_, run, 0, total});
  }
}

}  // namespace graphtap::store
