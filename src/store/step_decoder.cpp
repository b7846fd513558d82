#include "store/step_decoder.hpp"

#include <bit>

#include "store/checksum.hpp"
#include "store/step_tables.hpp"

namespace graphtap::store {
namespace {

StepInfo info_of(const StepHead& head) {
  StepInfo info;
  info.ticket = head.ticket;
  info.step = head.step;
  info.set_version = head.set_version;
  info.end_unix_ns = head.end_unix_ns;
  info.lane = head.lane;
  info.part = head.part;
  info.kind = static_cast<StepKind>(head.kind);
  info.ranks = {head.ranks[0], head.ranks[1], head.ranks[2], head.ranks[3]};
  return info;
}

}  // namespace

bool StepDecoder::decode(const RunInfo& run, const Segment& segment, const FrameEntry& entry,
                         std::string& why) {
  why.clear();
  const FrameState state = segment.frame(entry, frame_);
  if (state != FrameState::whole) {
    why = describe(state);
    return false;
  }
  const std::optional<Sections> sections = Sections::parse(frame_.meta);
  const std::optional<StepTables> tables =
      sections ? read_step(*sections, frame_.head, why) : std::nullopt;
  if (!tables) {
    why = "a frame contradicts itself: " +
          (why.empty() ? "its table of sections does not fit it" : why);
    return false;
  }
  step_.run = &run;
  step_.info = info_of(tables->head);
  const std::size_t hooks = run.hooks.size();
  if (tables->head.hooks > hooks) {
    why = "the step wants hooks that its run does not have";
    return false;
  }
  wanted_ids_.clear();
  for (std::size_t word = 0; word < tables->wanted.size(); ++word) {
    for (std::uint64_t bits = tables->wanted[word]; bits != 0; bits &= bits - 1) {
      wanted_ids_.push_back(
          static_cast<HookId>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }
  // Steps rarely change the set: an equal one keeps the storage that earlier steps share.
  const HookSet wanted = HookSet::of(tables->head.hooks, wanted_ids_);
  if (!(wanted == step_.wanted)) step_.wanted = wanted;

  slices_.clear();
  for (std::size_t i = 0; i < tables->slices.size(); ++i) {
    const SliceEntry slice = tables->slices[i];
    slices_.push_back({slice.request, slice.first_token, slice.row, slice.rows,
                       static_cast<RowFlags>(slice.flags)});
  }
  const auto slices = [&](std::uint32_t list) {
    const SliceList range = tables->list(list);
    return std::span<const StoredSlice>(slices_).subspan(range.first, range.count);
  };
  step_.records.clear();
  for (std::size_t i = 0; i < tables->records.size(); ++i) {
    const RecordEntry record = tables->records[i];
    if (record.hook >= hooks) {
      why = "a record's hook is not in the run's hook table";
      return false;
    }
    step_.records.push_back({&run.hooks[record.hook], record.ordinal, record.rows, record.row_bytes,
                             record.columns, frame_.payload.subspan(record.offset, record.bytes),
                             slices(record.slices)});
  }
  step_.gaps.clear();
  for (std::size_t i = 0; i < tables->gaps.size(); ++i) {
    const GapEntry gap = tables->gaps[i];
    if (gap.hook >= hooks) {
      why = "a gap's hook is not in the run's hook table";
      return false;
    }
    step_.gaps.push_back({&run.hooks[gap.hook], gap.ordinal, static_cast<GapReason>(gap.reason),
                          slices(gap.slices)});
  }
  return true;
}

bool StepDecoder::payload_matches(std::size_t record) const {
  return checksum(step_.records[record].data) == frame_.checksums[record];
}

}  // namespace graphtap::store
