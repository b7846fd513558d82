#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "store/format.hpp"
#include "store/sections.hpp"

namespace graphtap::store {

/// The requests a meta names, checked: every id lies inside the strings.
struct RequestTables {
  Table<RequestEntry> entries;
  std::span<const std::byte> strings;
  [[nodiscard]] std::string_view id(const RequestEntry& entry) const noexcept;
};
[[nodiscard]] std::optional<RequestTables> read_requests(const Sections& sections);

/// A step's meta, checked: whatever one part says of another holds, and every record lies in the
/// payload with its slices inside its rows.
struct StepTables {
  StepHead head{};
  Table<std::uint64_t> wanted;
  Table<SliceList> lists;
  Table<SliceEntry> slices;
  Table<RecordEntry> records;
  Table<GapEntry> gaps;
  RequestTables requests;

  /// The slices of a record or gap: first index and count.
  [[nodiscard]] SliceList list(std::uint32_t index) const noexcept {
    return index == kNoSlices ? SliceList{0, 0} : lists[index];
  }
};
/// Nothing if something does not hold; `why` then says what.
[[nodiscard]] std::optional<StepTables> read_step(const Sections& sections, const FrameHead& frame,
                                                  std::string& why);

}  // namespace graphtap::store
