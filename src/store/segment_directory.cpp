#include "store/segment_directory.hpp"

namespace graphtap::store {

SegmentDirectory::SegmentDirectory(const Sections& footer)
    : from_footer_(true),
      frames_(footer.get<FrameEntry>(Section::frames)),
      ranges_(footer.get<RangeEntry>(Section::ranges)),
      events_(footer.get<EventEntry>(Section::events)),
      requests_(read_requests(footer).value_or(RequestTables{})),
      hook_totals_(footer.get<HookTotalEntry>(Section::hook_totals)),
      gap_totals_(footer.get<GapTotalEntry>(Section::gap_totals)) {}

std::size_t SegmentDirectory::frames() const noexcept {
  return from_footer_ ? frames_.size() : own_.frames().size();
}
FrameEntry SegmentDirectory::frame(std::size_t index) const noexcept {
  return from_footer_ ? frames_[index] : own_.frames()[index];
}
std::size_t SegmentDirectory::events() const noexcept {
  return from_footer_ ? events_.size() : own_.events().size();
}
EventEntry SegmentDirectory::event(std::size_t index) const noexcept {
  return from_footer_ ? events_[index] : own_.events()[index];
}
std::size_t SegmentDirectory::requests() const noexcept {
  return from_footer_ ? requests_.entries.size() : own_.requests().size();
}
RequestEntry SegmentDirectory::request(std::size_t index) const noexcept {
  return from_footer_ ? requests_.entries[index] : own_.requests()[index];
}
std::string_view SegmentDirectory::id(const RequestEntry& entry) const noexcept {
  return from_footer_ ? requests_.id(entry) : own_.id(entry);
}
std::size_t SegmentDirectory::ranges() const noexcept {
  return from_footer_ ? ranges_.size() : own_.ranges().size();
}
RangeEntry SegmentDirectory::range(std::size_t index) const noexcept {
  return from_footer_ ? ranges_[index] : own_.ranges()[index];
}

void SegmentDirectory::ranges_of(std::uint64_t serial,
                                 const std::function<void(const RangeEntry&)>& visit) const {
  if (!from_footer_) {
    for (std::uint32_t place : own_.ranges_of(serial)) visit(own_.ranges()[place]);
    return;
  }
  std::size_t low = 0;
  std::size_t high = ranges_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (ranges_[middle].request < serial) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < ranges_.size() && ranges_[low].request == serial; ++low) {
    const RangeEntry range = ranges_[low];
    if (range.first_frame <= range.last_frame && range.last_frame < frames_.size()) visit(range);
  }
}

void SegmentDirectory::hook_totals(const std::function<void(const HookTotalEntry&)>& visit) const {
  if (from_footer_) {
    for (std::size_t i = 0; i < hook_totals_.size(); ++i) visit(hook_totals_[i]);
  } else {
    for (const HookTotalEntry& total : own_.hook_totals()) visit(total);
  }
}

void SegmentDirectory::gap_totals(const std::function<void(const GapTotalEntry&)>& visit) const {
  if (from_footer_) {
    for (std::size_t i = 0; i < gap_totals_.size(); ++i) visit(gap_totals_[i]);
  } else {
    for (const GapTotalEntry& total : own_.gap_totals()) visit(total);
  }
}

}  // namespace graphtap::store
