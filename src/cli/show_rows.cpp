#include "cli/show_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace graphtap::cli {
namespace {

std::string notes_of(const RecordView& record) {
  std::string notes;
  const auto add = [&](bool holds, std::string_view word) {
    if (holds) notes += fmt::format("{}{}", notes.empty() ? "" : ", ", word);
  };
  add(has(record.flags, RowFlags::recomputed), "recomputed");
  add(record.rejected, "rejected");
  add(!record.rejected && has(record.flags, RowFlags::speculative), "speculative");
  add(record.request == 0, "unattributed");
  return notes;
}

void add_rows(const RecordView& record, std::size_t values, std::uint64_t limit, ShownRows& found) {
  for (std::uint32_t i = 0; i < record.rows; ++i) {
    if (found.rows.size() >= limit) {
      found.further += record.rows - i;
      return;
    }
    const std::span<const std::byte> data =
        record.data.subspan(i * record.row_bytes, record.row_bytes);
    found.rows.push_back({record.run->number, record.request, std::string(record.request_id),
                          record.hook->name, record.ordinal, record.first_token + i,
                          record.step.step, record.step.kind, notes_of(record),
                          row_stats(record.hook->dtype, data),
                          row_values(record.hook->dtype, data, values)});
  }
}

}  // namespace

ShownRows find_rows(const StoreReader& reader, const Query& query, std::size_t values,
                    std::uint64_t limit) {
  ShownRows found;
  RecordCursor records = reader.read(query).value_or_throw();
  for (RecordView record; records.next(record);) add_rows(record, values, limit, found);
  GapCursor gaps = reader.gaps(query).value_or_throw();
  for (GapView gap; gaps.next(gap);) {
    ShownGaps& line = found.gaps[{gap.hook->type, gap.reason}];
    if (gap.hook->layer >= 0) line.layers.insert(gap.hook->layer);
    ++line.count;
    if (gap.request == 0) continue;
    line.begin = std::min(line.begin, gap.first_token);
    line.end = std::max(line.end, gap.first_token + gap.rows);
  }
  return found;
}

}  // namespace graphtap::cli
