#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/format.hpp"
#include "store/sections.hpp"
#include "store/step_tables.hpp"

namespace graphtap::store {

/// What a segment's frames hold: the content of its index footer. Filled frame by frame, by the
/// writer as it appends and by the reader as it scans a segment that has no footer, so that both
/// say the same. Not thread-safe.
class Directory {
 public:
  /// Takes a frame in. False, with `why`, if its meta contradicts itself; the directory is then
  /// unchanged.
  bool add(const FrameHead& head, std::uint64_t frame_bytes, std::span<const std::byte> meta,
           std::string& why);

  [[nodiscard]] bool knows(std::uint64_t serial) const { return request_places_.contains(serial); }
  [[nodiscard]] const std::vector<FrameEntry>& frames() const noexcept { return frames_; }
  [[nodiscard]] const std::vector<RangeEntry>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] const std::vector<RequestEntry>& requests() const noexcept { return requests_; }
  [[nodiscard]] const std::vector<EventEntry>& events() const noexcept { return events_; }
  [[nodiscard]] std::string_view id(const RequestEntry& entry) const noexcept;
  /// Sorted by hook, and by reason.
  [[nodiscard]] std::vector<HookTotalEntry> hook_totals() const;
  [[nodiscard]] std::vector<GapTotalEntry> gap_totals() const;
  /// Places in ranges() of a request, rising.
  [[nodiscard]] std::span<const std::uint32_t> ranges_of(std::uint64_t serial) const;

  /// The footer's meta, from a writer of its own kept with the caller.
  [[nodiscard]] std::optional<std::span<const std::byte>> encode(SectionWriter& writer) const;

 private:
  void add_step(const StepTables& step, FrameEntry& entry);
  void add_slices(const StepTables& step);
  void add_requests(const RequestTables& requests);
  void extend_range(std::uint64_t request, std::int64_t first_token, std::int64_t end_token);

  std::vector<FrameEntry> frames_;
  std::vector<RangeEntry> ranges_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> range_places_;
  std::vector<RequestEntry> requests_;
  std::unordered_map<std::uint64_t, std::uint32_t> request_places_;
  std::vector<std::byte> strings_;
  std::vector<EventEntry> events_;
  std::vector<HookTotalEntry> hook_totals_;                      // by hook
  std::unordered_map<std::uint32_t, std::uint64_t> gap_totals_;  // by hook << 8 | reason
};

}  // namespace graphtap::store
