#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "store/directory.hpp"
#include "store/sections.hpp"

namespace graphtap::store {

/// What a segment holds, whether it was read from its footer (in place) or found by scanning.
/// Entries of a footer are what the file says: use() of a frame checks it.
class SegmentDirectory {
 public:
  SegmentDirectory() = default;                       // scanned, empty
  explicit SegmentDirectory(const Sections& footer);  // borrowed from the mapped file

  /// What a scan fills; null for a footer.
  [[nodiscard]] Directory* scanned() noexcept { return from_footer_ ? nullptr : &own_; }
  [[nodiscard]] const Directory* scanned() const noexcept { return from_footer_ ? nullptr : &own_; }

  [[nodiscard]] std::size_t frames() const noexcept;
  [[nodiscard]] FrameEntry frame(std::size_t index) const noexcept;
  [[nodiscard]] std::size_t events() const noexcept;
  [[nodiscard]] EventEntry event(std::size_t index) const noexcept;
  [[nodiscard]] std::size_t requests() const noexcept;
  [[nodiscard]] RequestEntry request(std::size_t index) const noexcept;
  [[nodiscard]] std::string_view id(const RequestEntry& entry) const noexcept;
  [[nodiscard]] std::size_t ranges() const noexcept;
  [[nodiscard]] RangeEntry range(std::size_t index) const noexcept;
  /// Calls `visit` for each range of one request, by first frame; every range lies within frames().
  void ranges_of(std::uint64_t serial, const std::function<void(const RangeEntry&)>& visit) const;
  void hook_totals(const std::function<void(const HookTotalEntry&)>& visit) const;
  void gap_totals(const std::function<void(const GapTotalEntry&)>& visit) const;

 private:
  bool from_footer_ = false;
  Directory own_;
  Table<FrameEntry> frames_;
  Table<RangeEntry> ranges_;
  Table<EventEntry> events_;
  RequestTables requests_;
  Table<HookTotalEntry> hook_totals_;
  Table<GapTotalEntry> gap_totals_;
};

}  // namespace graphtap::store
