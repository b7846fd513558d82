#include "store/step_tables.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace graphtap::store {
namespace {

bool wanted_fits(const StepHead& head, const Table<std::uint64_t>& wanted) {
  const std::uint64_t words = (std::uint64_t{head.hooks} + 63) / 64;
  if (wanted.size() != words) return false;
  const unsigned rest = head.hooks % 64;
  return rest == 0 || wanted[wanted.size() - 1] >> rest == 0;
}

bool record_fits(const RecordEntry& record, std::uint64_t payload_bytes) {
  return record.row_bytes > 0 && record.columns >= 0 && record.offset % kAlign == 0 &&
         record.offset <= payload_bytes && record.bytes <= payload_bytes - record.offset &&
         (record.rows == 0
              ? record.bytes == 0
              : record.row_bytes <= std::numeric_limits<std::uint64_t>::max() / record.rows &&
                    record.bytes <= record.rows * record.row_bytes);
}

}  // namespace

std::string_view RequestTables::id(const RequestEntry& entry) const noexcept {
  const auto bytes = strings.subspan(entry.id_offset, entry.id_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<RequestTables> read_requests(const Sections& sections) {
  RequestTables tables{sections.get<RequestEntry>(Section::requests),
                       sections.bytes(Section::strings)};
  for (std::size_t i = 0; i < tables.entries.size(); ++i) {
    const RequestEntry entry = tables.entries[i];
    if (std::uint64_t{entry.id_offset} + entry.id_bytes > tables.strings.size())
      return std::nullopt;
  }
  return tables;
}

std::optional<StepTables> read_step(const Sections& sections, const FrameHead& frame,
                                    std::string& why) {
  const auto fail = [&](const char* what) {
    why = what;
    return std::nullopt;
  };
  const auto heads = sections.get<StepHead>(Section::step);
  if (heads.size() != 1) return fail("the step's description is missing");
  StepTables step;
  step.head = heads[0];
  step.wanted = sections.get<std::uint64_t>(Section::wanted);
  step.lists = sections.get<SliceList>(Section::slice_lists);
  step.slices = sections.get<SliceEntry>(Section::slices);
  step.records = sections.get<RecordEntry>(Section::records);
  step.gaps = sections.get<GapEntry>(Section::gaps);
  const auto requests = read_requests(sections);
  if (!requests) return fail("a request's id lies outside the frame");
  step.requests = *requests;
  if (!wanted_fits(step.head, step.wanted))
    return fail("the set of wanted hooks has the wrong size");
  if (step.records.size() != frame.checksums) return fail("a record has no checksum");

  std::vector<std::uint64_t> end_rows(step.lists.size());
  for (std::size_t i = 0; i < step.lists.size(); ++i) {
    const SliceList list = step.lists[i];
    if (std::uint64_t{list.first} + list.count > step.slices.size()) {
      return fail("a list of slices lies outside the frame");
    }
    for (std::uint32_t j = 0; j < list.count; ++j) {
      const SliceEntry slice = step.slices[list.first + j];
      end_rows[i] = std::max(end_rows[i], std::uint64_t{slice.row} + slice.rows);
      if (slice.first_token > std::numeric_limits<std::int64_t>::max() - slice.rows) {
        return fail("a slice's tokens exceed 63 bits");
      }
    }
  }
  for (std::size_t i = 0; i < step.records.size(); ++i) {
    const RecordEntry record = step.records[i];
    if (!record_fits(record, frame.payload_bytes)) return fail("a record lies outside its payload");
    if (record.slices == kNoSlices) continue;
    if (record.slices >= step.lists.size()) return fail("a record names slices that are not there");
    if (end_rows[record.slices] > record.rows) return fail("a slice exceeds its record's rows");
  }
  for (std::size_t i = 0; i < step.gaps.size(); ++i) {
    const std::uint32_t list = step.gaps[i].slices;
    if (list != kNoSlices && list >= step.lists.size())
      return fail("a gap names slices that are not there");
  }
  return step;
}

}  // namespace graphtap::store
