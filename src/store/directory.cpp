#include "store/directory.hpp"

#include <algorithm>

namespace graphtap::store {
namespace {

// Frames without the request that a range may bridge: with several lanes, or events in between, a
// request's frames are not neighbours. Whoever walks a range looks into each frame anyway.
constexpr std::uint32_t kMostBridged = 16;

}  // namespace

bool Directory::add(const FrameHead& head, std::uint64_t frame_bytes,
                    std::span<const std::byte> meta, std::string& why) {
  const auto fail = [&](const char* what) {
    why = what;
    return false;
  };
  FrameEntry entry{};
  entry.offset = head.offset;
  entry.bytes = frame_bytes;
  entry.kind = head.kind;
  const auto kind = static_cast<FrameKind>(head.kind);
  if (kind == FrameKind::step || kind == FrameKind::event) {
    const std::optional<Sections> sections = Sections::parse(meta);
    if (!sections) return fail("its table of sections does not fit it");
    if (kind == FrameKind::step) {
      const std::optional<StepTables> step = read_step(*sections, head, why);
      if (!step) return false;
      add_requests(step->requests);
      add_step(*step, entry);
    } else {
      const auto events = sections->get<EventEntry>(Section::events);
      const auto requests = read_requests(*sections);
      if (events.size() != 1 || !requests) return fail("it holds no event");
      add_requests(*requests);
      EventEntry event = events[0];
      event.frame = static_cast<std::uint32_t>(frames_.size());
      events_.push_back(event);
    }
  }
  frames_.push_back(entry);
  return true;
}

void Directory::add_requests(const RequestTables& requests) {
  for (std::size_t i = 0; i < requests.entries.size(); ++i) {
    RequestEntry entry = requests.entries[i];
    const auto place = static_cast<std::uint32_t>(requests_.size());
    if (!request_places_.emplace(entry.serial, place).second) continue;
    const auto id = requests.strings.subspan(entry.id_offset, entry.id_bytes);
    entry.id_offset = static_cast<std::uint32_t>(strings_.size());
    strings_.insert(strings_.end(), id.begin(), id.end());
    requests_.push_back(entry);
  }
}

void Directory::add_step(const StepTables& step, FrameEntry& entry) {
  entry.ticket = step.head.ticket;
  entry.step = step.head.step;
  entry.set_version = step.head.set_version;
  entry.end_unix_ns = step.head.end_unix_ns;
  entry.lane = step.head.lane;
  entry.part = step.head.part;
  entry.step_kind = step.head.kind;
  entry.records = static_cast<std::uint32_t>(step.records.size());
  entry.gaps = static_cast<std::uint32_t>(step.gaps.size());

  std::vector<std::uint64_t> attributed(step.lists.size());  // rows of each list
  for (std::size_t i = 0; i < step.lists.size(); ++i) {
    const SliceList list = step.lists[i];
    for (std::uint32_t j = 0; j < list.count; ++j) {
      const SliceEntry slice = step.slices[list.first + j];
      if (slice.request != 0) attributed[i] += slice.rows;
    }
  }
  for (std::size_t i = 0; i < step.records.size(); ++i) {
    const RecordEntry record = step.records[i];
    if (record.hook >= hook_totals_.size()) hook_totals_.resize(record.hook + std::size_t{1});
    HookTotalEntry& total = hook_totals_[record.hook];
    ++total.records;
    total.rows += record.rows;
    total.bytes += record.bytes;
    if (record.slices != kNoSlices) total.tokens += attributed[record.slices];
    entry.payload_bytes += record.bytes;
  }
  for (std::size_t i = 0; i < step.gaps.size(); ++i) {
    const GapEntry gap = step.gaps[i];
    ++gap_totals_[std::uint32_t{gap.hook} << 8 | gap.reason];
  }
  add_slices(step);
}

void Directory::add_slices(const StepTables& step) {
  for (std::size_t i = 0; i < step.slices.size(); ++i) {
    const SliceEntry slice = step.slices[i];
    if (slice.request == 0) continue;
    extend_range(slice.request, slice.first_token, slice.first_token + slice.rows);
  }
}

void Directory::extend_range(std::uint64_t request, std::int64_t first_token,
                             std::int64_t end_token) {
  const auto frame = static_cast<std::uint32_t>(frames_.size());  // the one being added
  std::vector<std::uint32_t>& places = range_places_[request];
  if (!places.empty()) {
    RangeEntry& range = ranges_[places.back()];
    if (frame - range.last_frame <= kMostBridged + 1) {
      if (range.last_frame != frame) ++range.frames;
      range.last_frame = frame;
      range.first_token = std::min(range.first_token, first_token);
      range.end_token = std::max(range.end_token, end_token);
      return;
    }
  }
  places.push_back(static_cast<std::uint32_t>(ranges_.size()));
  ranges_.push_back({request, first_token, end_token, frame, frame, 1, 0});
}

std::string_view Directory::id(const RequestEntry& entry) const noexcept {
  return RequestTables{{}, strings_}.id(entry);
}

std::vector<HookTotalEntry> Directory::hook_totals() const {
  std::vector<HookTotalEntry> totals;
  for (std::size_t hook = 0; hook < hook_totals_.size(); ++hook) {
    if (hook_totals_[hook].records == 0) continue;
    totals.push_back(hook_totals_[hook]);
    totals.back().hook = static_cast<std::uint16_t>(hook);
  }
  return totals;
}

std::vector<GapTotalEntry> Directory::gap_totals() const {
  std::vector<GapTotalEntry> totals;
  for (const auto& [key, count] : gap_totals_) {
    totals.push_back(
        {count, static_cast<std::uint16_t>(key >> 8), static_cast<std::uint8_t>(key), {}});
  }
  std::sort(totals.begin(), totals.end(), [](const GapTotalEntry& a, const GapTotalEntry& b) {
    return a.hook != b.hook ? a.hook < b.hook : a.reason < b.reason;
  });
  return totals;
}

std::span<const std::uint32_t> Directory::ranges_of(std::uint64_t serial) const {
  const auto places = range_places_.find(serial);
  if (places == range_places_.end()) return {};
  return places->second;
}

std::optional<std::span<const std::byte>> Directory::encode(SectionWriter& writer) const {
  std::vector<RangeEntry> ranges = ranges_;
  std::sort(ranges.begin(), ranges.end(), [](const RangeEntry& a, const RangeEntry& b) {
    return a.request != b.request ? a.request < b.request : a.first_frame < b.first_frame;
  });
  std::vector<RequestEntry> requests = requests_;
  std::sort(requests.begin(), requests.end(),
            [](const RequestEntry& a, const RequestEntry& b) { return a.serial < b.serial; });
  const std::vector<HookTotalEntry> hooks = hook_totals();
  const std::vector<GapTotalEntry> gaps = gap_totals();
  std::span<const FrameEntry> frames = frames_;
#ifdef GRAPHTAP_BUG_store_index_forgets_last
  if (!frames.empty()) frames = frames.first(frames.size() - 1);
#endif
  writer.add(Section::frames, frames);
  writer.add(Section::ranges, std::span<const RangeEntry>(ranges));
  writer.add(Section::requests, std::span<const RequestEntry>(requests));
  writer.add(Section::strings, std::span<const std::byte>(strings_));
  writer.add(Section::events, std::span<const EventEntry>(events_));
  writer.add(Section::hook_totals, std::span<const HookTotalEntry>(hooks));
  writer.add(Section::gap_totals, std::span<const GapTotalEntry>(gaps));
  return writer.finish();
}

}  // namespace graphtap::store
