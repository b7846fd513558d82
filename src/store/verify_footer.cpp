#include "store/verify_footer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>

namespace graphtap::store {
namespace {

template <class Entry>
bool same(const Entry& a, const Entry& b) {
  return std::memcmp(&a, &b, sizeof(Entry)) == 0;
}

template <class Entry, class Get>
bool same_all(const std::vector<Entry>& scanned, std::size_t count, Get get) {
  if (scanned.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!same(scanned[i], get(i))) return false;
  }
  return true;
}

template <class Entry, class Visit>
std::vector<Entry> collect(Visit visit) {
  std::vector<Entry> all;
  visit([&](const Entry& entry) { all.push_back(entry); });
  return all;
}

}  // namespace

void verify_footer(const Segment& segment, std::vector<Finding>& findings) {
  if (!segment.closed()) return;
  const auto scanned_segment = segment.scanned_anew();
  for (const Finding& finding : scanned_segment->findings()) findings.push_back(finding);
  const SegmentDirectory& footer = segment.directory();
  const SegmentDirectory& scanned = scanned_segment->directory();
  const auto wrong = [&](const std::string& what) {
    findings.push_back(
        {Severity::error, segment.name(), segment.file_bytes(), "the index footer " + what});
  };
  if (!scanned_segment->findings().empty())
    return;  // damaged frames are named; the rest would follow from them
  if (footer.frames() != scanned.frames()) {
    return wrong(
        fmt::format("names {} frames, the segment has {}", footer.frames(), scanned.frames()));
  }
  for (std::size_t i = 0; i < footer.frames(); ++i) {
    if (!same(footer.frame(i), scanned.frame(i))) {
      return wrong(fmt::format("says something else of frame {} than the frame itself", i));
    }
  }
  const Directory& own = *scanned.scanned();
  if (!same_all(own.events(), footer.events(), [&](std::size_t i) { return footer.event(i); })) {
    wrong("differs from the events in the segment");
  }
  bool ranges_match = footer.ranges() == own.ranges().size();
  for (std::size_t i = 0; ranges_match && i < own.ranges().size(); ++i) {
    const RangeEntry expected = own.ranges()[i];
    bool found = false;
    footer.ranges_of(expected.request,
                     [&](const RangeEntry& range) { found = found || same(range, expected); });
    ranges_match = found;
  }
  if (!ranges_match) wrong("differs from the requests' frames in the segment");
  if (footer.requests() != own.requests().size()) wrong("differs from the requests in the segment");
  const auto hooks = collect<HookTotalEntry>([&](auto visit) { footer.hook_totals(visit); });
  const auto gaps = collect<GapTotalEntry>([&](auto visit) { footer.gap_totals(visit); });
  const auto own_hooks = own.hook_totals();
  const auto own_gaps = own.gap_totals();
  if (!same_all(own_hooks, hooks.size(), [&](std::size_t i) { return hooks[i]; }) ||
      !same_all(own_gaps, gaps.size(), [&](std::size_t i) { return gaps[i]; })) {
    wrong("counts other totals than the segment holds");
  }
}

}  // namespace graphtap::store
