#include "store/step_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace graphtap::store {
namespace {

constexpr std::size_t kWordBits = 64;

bool same(const Slice& a, const Slice& b) noexcept {
  return a.request == b.request && a.first_token == b.first_token && a.row == b.row &&
         a.rows == b.rows && a.flags == b.flags;
}

bool same(std::span<const Slice> a, std::span<const Slice> b) noexcept {
  if (a.size() != b.size()) return false;
  return a.data() == b.data() ||
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

Status refuse(const Hook& hook, std::string_view why) {
  return {Code::invalid_argument, fmt::format("record of {}: {}", hook.name, why)};
}

}  // namespace

void StepEncoder::clear() {
  requests_.clear();
  strings_.clear();
  known_lists_.clear();
  lists_.clear();
  slices_.clear();
  records_.clear();
  gaps_.clear();
  payloads_.clear();
  payload_bytes_ = 0;
}

void StepEncoder::set_wanted(const HookSet& wanted) {
  if (wanted == wanted_) return;
  wanted_ = wanted;
  wanted_words_.assign((wanted.universe() + kWordBits - 1) / kWordBits, 0);
  for (HookId id : wanted.ids())
    wanted_words_[id / kWordBits] |= std::uint64_t{1} << (id % kWordBits);
}

void StepEncoder::name_request(const Request& request, const Knows& knows) {
  if (!request || knows(request->serial)) return;
  for (const RequestEntry& entry : requests_) {
    if (entry.serial == request->serial) return;
  }
  const std::span<const std::byte> id = std::as_bytes(std::span(request->id));
  requests_.push_back({request->serial, request->prompt_tokens,
                       static_cast<std::uint32_t>(strings_.size()),
                       static_cast<std::uint32_t>(id.size())});
  strings_.insert(strings_.end(), id.begin(), id.end());
}

std::uint32_t StepEncoder::add_list(std::span<const Slice> slices) {
  if (slices.empty()) return kNoSlices;
  for (std::size_t i = 0; i < known_lists_.size(); ++i) {
    if (same(known_lists_[i].source, slices)) return static_cast<std::uint32_t>(i);
  }
  KnownList list{slices, 0};
  lists_.push_back(
      {static_cast<std::uint32_t>(slices_.size()), static_cast<std::uint32_t>(slices.size())});
  for (const Slice& slice : slices) {
    SliceEntry entry{};
    entry.request = slice.request ? slice.request->serial : 0;
    entry.first_token = slice.first_token;
#ifdef GRAPHTAP_BUG_store_span_off_by_one
    entry.first_token += 1;
#endif
    entry.row = slice.row;
    entry.rows = slice.rows;
    entry.flags = static_cast<std::uint8_t>(slice.flags);
    slices_.push_back(entry);
    // Saturates: what is beyond 32 bits is beyond every record as well.
    std::uint64_t end = std::uint64_t{slice.row} + slice.rows;
    if (slice.first_token > std::numeric_limits<std::int64_t>::max() - slice.rows) end = 0xffffffff;
    list.end_row = std::max(list.end_row,
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(end, 0xffffffff)));
  }
  known_lists_.push_back(list);
  return static_cast<std::uint32_t>(lists_.size() - 1);
}

Status StepEncoder::add_record(const Record& record) {
  if (!record.hook || record.hook->id >= table_->size()) {
    return {Code::invalid_argument, "a record's hook is not in the store's hook table"};
  }
  const Hook& hook = *record.hook;
  if (record.row_bytes == 0 || record.columns < 0) return refuse(hook, "its rows have no bytes");
  if (record.rows > 0 &&
      record.row_bytes > std::numeric_limits<std::uint64_t>::max() / record.rows) {
    return refuse(hook, "its size exceeds 64 bits");
  }
  if (record.payload.size() > record.rows * record.row_bytes) {
    return refuse(hook, fmt::format("{} bytes for {} rows of {}", record.payload.size(),
                                    record.rows, record.row_bytes));
  }
  const std::uint32_t list = add_list(record.slices);
  if (list != kNoSlices && known_lists_[list].end_row > record.rows) {
    return refuse(
        hook, fmt::format("a slice ends at row {} of {}", known_lists_[list].end_row, record.rows));
  }
  records_.push_back({hook.id, record.ordinal, record.rows, record.row_bytes, record.columns,
                      payload_bytes_, record.payload.size(), list, 0});
  payloads_.push_back(record.payload);
  payload_bytes_ += align_up(record.payload.size());
  return {};
}

Status StepEncoder::add_gap(const Gap& gap) {
  if (!gap.hook || gap.hook->id >= table_->size()) {
    return {Code::invalid_argument, "a gap's hook is not in the store's hook table"};
  }
  GapEntry entry{};
  entry.hook = gap.hook->id;
  entry.ordinal = gap.ordinal;
  entry.reason = static_cast<std::uint8_t>(gap.reason);
  entry.slices = add_list(gap.slices);
  gaps_.push_back(entry);
  return {};
}

Result<std::span<const std::byte>> StepEncoder::encode(const DeliveredStep& step,
                                                       const Knows& knows) {
  clear();
  set_wanted(step.wanted);
  for (const Record& record : step.records) {
    if (Status s = add_record(record); !s.ok()) return s;
  }
  for (const Gap& gap : step.gaps) {
    if (Status s = add_gap(gap); !s.ok()) return s;
  }
#ifdef GRAPHTAP_BUG_store_lost_gap
  if (!gaps_.empty()) gaps_.pop_back();
#endif
  for (const KnownList& list : known_lists_) {
    for (const Slice& slice : list.source) name_request(slice.request, knows);
  }
  StepHead head{};
  head.ticket = step.ticket;
  head.step = step.step;
  head.set_version = step.set_version;
  head.end_unix_ns = step.end_unix_ns;
  head.lane = step.lane;
  head.part = step.part;
  head.kind = static_cast<std::uint8_t>(step.kind);
  head.hooks = static_cast<std::uint32_t>(step.wanted.universe());
  head.ranks[0] = step.ranks.tensor;
  head.ranks[1] = step.ranks.pipeline;
  head.ranks[2] = step.ranks.data;
  head.ranks[3] = step.ranks.expert;
  writer_.add(Section::step, std::span<const StepHead>(&head, 1));
  writer_.add(Section::wanted, std::span<const std::uint64_t>(wanted_words_));
  writer_.add(Section::slice_lists, std::span<const SliceList>(lists_));
  writer_.add(Section::slices, std::span<const SliceEntry>(slices_));
  writer_.add(Section::records, std::span<const RecordEntry>(records_));
  writer_.add(Section::gaps, std::span<const GapEntry>(gaps_));
  return finish();
}

Result<std::span<const std::byte>> StepEncoder::encode(const RequestEvent& event,
                                                       const Knows& knows) {
  clear();
  if (!event.request) return Status(Code::invalid_argument, "a request event names no request");
  name_request(event.request, knows);
  EventEntry entry{};
  entry.request = event.request->serial;
  entry.begin = event.begin;
  entry.end = event.end;
  entry.records = event.records;
  entry.gaps = event.gaps;
  entry.kind = static_cast<std::uint8_t>(event.kind);
  entry.valid = event.valid ? 1 : 0;
  writer_.add(Section::events, std::span<const EventEntry>(&entry, 1));
  return finish();
}

Result<std::span<const std::byte>> StepEncoder::finish() {
  writer_.add(Section::requests, std::span<const RequestEntry>(requests_));
  writer_.add(Section::strings, std::span<const std::byte>(strings_));
  if (const auto meta = writer_.finish()) return *meta;
  return Status(Code::invalid_argument, "the description of one step exceeds 4 GiB");
}

}  // namespace graphtap::store
