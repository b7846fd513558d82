#include "store/segment_set.hpp"

#include <cstring>
#include <optional>

namespace graphtap::store {
namespace {

/// The first frame of a segment that is not its run frame.
std::optional<FrameEntry> first_written(const SegmentDirectory& directory) {
  for (std::size_t i = 0; i < directory.frames(); ++i) {
    const FrameEntry entry = directory.frame(i);
    if (static_cast<FrameKind>(entry.kind) != FrameKind::run) return entry;
  }
  return std::nullopt;
}

bool same_event(EventEntry a, EventEntry b) {
  a.frame = b.frame;
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

bool repeats(const SegmentDirectory& before, const SegmentDirectory& after) {
  if (before.frames() == 0) return false;
  const FrameEntry last = before.frame(before.frames() - 1);
  const std::optional<FrameEntry> first = first_written(after);
  if (!first || first->kind != last.kind) return false;
  switch (static_cast<FrameKind>(last.kind)) {
    case FrameKind::step:
      return first->ticket == last.ticket && first->part == last.part;
    case FrameKind::event:
      return before.events() > 0 && after.events() > 0 &&
             same_event(before.event(before.events() - 1), after.event(0));
    default:
      return false;
  }
}

}  // namespace

Status SegmentSet::load(const Layout& layout, std::uint64_t end) {
  // A directory that is read while files are made in it may leave some of them out. But every
  // segment below the newest one of a first reading was there before that ended, so a second
  // reading has them all; and all of those are complete, since their writer had gone on.
  const auto first = list_segments(layout);
  if (!first.ok()) return first.status();
  const std::uint64_t newest = first.value().empty() ? 0 : first.value().back();
  const auto numbers = list_segments(layout);
  if (!numbers.ok()) return numbers.status();
  for (const auto& segment : segments_) {
    if (Status s = segment->refresh(); !s.ok()) return s;
  }
  for (std::uint64_t number : numbers.value()) {
    if (number <= last_number_ || number >= end || number > newest) continue;
    auto segment = Segment::open(layout, number);
    last_number_ = number;
    if (segment.ok()) {
      segments_.push_back(std::move(segment).value());
    } else if (segment.status().code() == Code::unsupported) {
      return segment.status();
    } else if (segment.status().code() !=
               Code::not_found) {  // not found: removed since it was listed
      unreadable_.push_back({Severity::error, segment_name(number), 0, segment.status().message()});
    }
  }
  drop_repeated();
  return {};
}

void SegmentSet::drop_repeated() {
  for (; compared_ + 1 < segments_.size(); ++compared_) {
    Segment& before = *segments_[compared_];
    const Segment& after = *segments_[compared_ + 1];
    const bool one_run = before.has_head() && after.has_head() &&
                         std::memcmp(before.head().run_id, after.head().run_id, sizeof(Id)) == 0;
    if (one_run && !before.closed()) {
      // The next segment of this run may not have its first frame yet: look again later.
      if (!first_written(after.directory())) return;
      if (repeats(before.directory(), after.directory())) before.forget_last();
    }
  }
}

std::vector<Finding> SegmentSet::findings() const {
  std::vector<Finding> all = unreadable_;
  for (const auto& segment : segments_) {
    all.insert(all.end(), segment->findings().begin(), segment->findings().end());
  }
  return all;
}

}  // namespace graphtap::store
