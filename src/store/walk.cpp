#include "store/walk.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace graphtap {

using store::Piece;
using store::Position;
using store::RequestState;
using store::RunFilter;
using store::Segment;

FrameWalk::FrameWalk(const StoreCore& core, store::ResolvedQuery query)
    : core_(&core), query_(std::move(query)) {
  for (const RunFilter& filter : query_.runs) {
    for (const auto& part : filter.run->parts) plan(filter, *part.segment);
  }
}

void FrameWalk::plan(const RunFilter& filter, const Segment& segment) {
  const store::SegmentDirectory& directory = segment.directory();
  if (query_.any_request) {
    if (directory.frames() > 0) work_.push_back({&filter, &segment, 0, directory.frames()});
    return;
  }
  std::vector<store::RangeEntry> ranges;
  for (std::uint64_t serial : filter.serials) {
    directory.ranges_of(serial, [&](const store::RangeEntry& range) {
      const bool overlaps =
          range.end_token > query_.tokens.begin && range.first_token < query_.tokens.end;
      if (overlaps) ranges.push_back(range);
    });
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const store::RangeEntry& a, const store::RangeEntry& b) {
              return a.first_frame < b.first_frame;
            });
  for (const store::RangeEntry& range : ranges) {
    const std::size_t end = std::size_t{range.last_frame} + 1;
    if (!work_.empty() && work_.back().segment == &segment &&
        range.first_frame <= work_.back().end) {
      work_.back().end = std::max(work_.back().end, end);
    } else {
      work_.push_back({&filter, &segment, range.first_frame, end});
    }
  }
}

bool FrameWalk::next_step() {
  std::string why;
  for (; work_at_ < work_.size(); ++work_at_, frame_at_ = 0) {
    const Work& work = work_[work_at_];
    for (frame_at_ = std::max(frame_at_, work.first); frame_at_ < work.end;) {
      // A frame that turned out to be written twice may have left the directory since.
      if (frame_at_ >= work.segment->directory().frames()) break;
      const store::FrameEntry entry = work.segment->directory().frame(frame_at_);
      position_ = {work.segment->number(), static_cast<std::uint32_t>(frame_at_)};
      ++frame_at_;
      if (static_cast<store::FrameKind>(entry.kind) != store::FrameKind::step) continue;
      filter_ = work.filter;
      segment_ = work.segment;
      if (decoder_.decode(filter_->run->header.info, *segment_, entry, why)) {
        if (!query_.ranks.matches(decoder_.step().info.ranks)) continue;
        checked_.assign(decoder_.step().records.size(), -1);
        return true;
      }
      core_->report({Severity::error, segment_->name(), entry.offset, why});
    }
  }
  return false;
}

bool FrameWalk::payload_ok(std::size_t record) {
  if (checked_[record] < 0) {
    checked_[record] = !core_->checks(*segment_) || decoder_.payload_matches(record) ? 1 : 0;
    if (checked_[record] == 0) {
      const StoredRecord& stored = step().records[record];
      const auto offset =
          decoder_.frame().head.offset +
          static_cast<std::uint64_t>(stored.data.data() - decoder_.frame().payload.data()) +
          sizeof(store::FrameHead) + decoder_.frame().head.meta_bytes;
      core_->report(
          {Severity::error, segment_->name(), offset,
           fmt::format("the payload of {} of step {} (ticket {}) does not match its checksum",
                       stored.hook->name, step().info.step, step().info.ticket)});
    }
  }
  return checked_[record] == 1;
}

void FrameWalk::mark_rejected(const Piece& piece, std::vector<Piece>& out) const {
  const auto& requests = filter_->run->requests;
  const auto request = requests.find(piece.request);
  if (request == requests.end() || request->second.rejections.empty()) {
    out.push_back(piece);
    return;
  }
  // Only what was stored before the event is meant: the tokens may be computed again.
  const auto& rejections = request->second.rejections;
  const auto first = std::upper_bound(
      rejections.begin(), rejections.end(), position_,
      [](const Position& at, const RequestState::Rejection& r) { return at < r.at; });
  const auto is_rejected = [&](std::int64_t token) {
    return std::any_of(first, rejections.end(), [&](const RequestState::Rejection& r) {
      return token >= r.tokens.begin && token < r.tokens.end;
    });
  };
  // The answer can only change where a rejected range begins or ends.
  const std::int64_t end = piece.first_token + piece.rows;
  std::vector<std::int64_t> cuts{piece.first_token, end};
  for (auto r = first; r != rejections.end(); ++r) {
    for (std::int64_t cut : {r->tokens.begin, r->tokens.end}) {
      if (cut > piece.first_token && cut < end) cuts.push_back(cut);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Piece part = piece;
    part.first_token = cuts[i];
    part.row = piece.row + static_cast<std::uint32_t>(cuts[i] - piece.first_token);
    part.rows = static_cast<std::uint32_t>(cuts[i + 1] - cuts[i]);
    part.rejected = is_rejected(cuts[i]);
    if (!(part.rejected && query_.skip_rejected)) out.push_back(part);
  }
}

void FrameWalk::pieces(const StoredSlice& slice, std::vector<Piece>& out) const {
  if (slice.rows == 0) return;
  Piece piece{slice.request, slice.first_token, slice.row, slice.rows, slice.flags, false};
  if (slice.request == 0) {
    if (query_.any_request && query_.all_tokens()) out.push_back(piece);
    return;
  }
  if (!query_.wants(*filter_, slice.request)) return;
  const std::int64_t begin = std::max(slice.first_token, query_.tokens.begin);
  const std::int64_t end = std::min(slice.first_token + slice.rows, query_.tokens.end);
  if (begin >= end) return;
  piece.first_token = begin;
  piece.row = slice.row + static_cast<std::uint32_t>(begin - slice.first_token);
  piece.rows = static_cast<std::uint32_t>(end - begin);
  mark_rejected(piece, out);
}

void FrameWalk::add_unattributed(const StoredRecord& record, std::vector<Piece>& out) const {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> covered;
  for (const StoredSlice& slice : record.slices)
    covered.emplace_back(slice.row, slice.row + slice.rows);
  std::sort(covered.begin(), covered.end());
  covered.emplace_back(record.rows, record.rows);
  std::uint32_t row = 0;
  for (const auto& [begin, end] : covered) {
    if (begin > row) out.push_back({0, 0, row, begin - row, RowFlags::none, false});
    row = std::max(row, end);
  }
}

void FrameWalk::pieces(const StoredRecord& record, std::vector<Piece>& out) const {
  out.clear();
  for (const StoredSlice& slice : record.slices) pieces(slice, out);
  if (query_.any_request && query_.all_tokens()) add_unattributed(record, out);
  // A chunked record may hold fewer rows than it was planned with.
  const auto there = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(record.data.size() / record.row_bytes, record.rows));
  std::erase_if(out, [&](const Piece& piece) { return piece.row >= there; });
  for (Piece& piece : out) piece.rows = std::min(piece.rows, there - piece.row);
  std::stable_sort(out.begin(), out.end(),
                   [](const Piece& a, const Piece& b) { return a.row < b.row; });
}

bool FrameWalk::wants_step() const {
  std::vector<Piece> found;
  const auto wanted = [&](const Hook& hook, std::uint16_t ordinal,
                          std::span<const StoredSlice> slices) {
    if (!wants(hook, ordinal)) return false;
    if (query_.any_request && query_.all_tokens()) return true;
    for (const StoredSlice& slice : slices) pieces(slice, found);
    return !found.empty();
  };
  const StepView& view = step();
  const bool everything =
      query_.any_request && query_.all_tokens() && !query_.ordinal &&
      std::find(filter_->hooks.begin(), filter_->hooks.end(), false) == filter_->hooks.end();
  return everything ||  // steps that hold nothing as well
         std::any_of(view.records.begin(), view.records.end(),
                     [&](const StoredRecord& r) { return wanted(*r.hook, r.ordinal, r.slices); }) ||
         std::any_of(view.gaps.begin(), view.gaps.end(),
                     [&](const StoredGap& g) { return wanted(*g.hook, g.ordinal, g.slices); });
}

std::string_view FrameWalk::id_of(std::uint64_t request) const {
  const auto found = filter_->run->requests.find(request);
  return found == filter_->run->requests.end() ? std::string_view{} : found->second.id;
}

template <class Fill>
bool FrameWalk::next_piece(std::size_t (*items)(const StepView&), Fill fill) {
  while (piece_ >= pieces_.size()) {
    pieces_.clear();
    piece_ = 0;
    if (in_step_ && item_ < items(step())) {
      fill(item_++);
    } else if (in_step_ = next_step(); in_step_) {
      item_ = 0;
    } else {
      return false;
    }
  }
  return true;
}

bool FrameWalk::next(RecordView& out) {
  const bool there = next_piece([](const StepView& view) { return view.records.size(); },
                                [this](std::size_t item) {
                                  const StoredRecord& record = step().records[item];
                                  if (!wants(*record.hook, record.ordinal)) return;
                                  pieces(record, pieces_);
                                  if (!pieces_.empty() && !payload_ok(item)) pieces_.clear();
                                });
  if (!there) return false;
  const StoredRecord& record = step().records[item_ - 1];
  const Piece& piece = pieces_[piece_++];
  out.run = step().run;
  out.hook = record.hook;
  out.step = step().info;
  out.ordinal = record.ordinal;
  out.request = piece.request;
  out.request_id = id_of(piece.request);
  out.first_token = piece.first_token;
  out.row = piece.row;
  out.rows = piece.rows;
  out.record_rows = record.rows;
  out.flags = piece.flags;
  out.rejected = piece.rejected;
  out.row_bytes = record.row_bytes;
  out.columns = record.columns;
  out.data = record.data.subspan(piece.row * record.row_bytes, piece.rows * record.row_bytes);
  return true;
}

bool FrameWalk::next(GapView& out) {
  const bool there = next_piece([](const StepView& view) { return view.gaps.size(); },
                                [this](std::size_t item) {
                                  const StoredGap& gap = step().gaps[item];
                                  if (!wants(*gap.hook, gap.ordinal)) return;
                                  for (const StoredSlice& slice : gap.slices)
                                    pieces(slice, pieces_);
                                  const bool any = query_.any_request && query_.all_tokens();
                                  if (gap.slices.empty() && any) pieces_.push_back({});
                                });
  if (!there) return false;
  const StoredGap& gap = step().gaps[item_ - 1];
  const Piece& piece = pieces_[piece_++];
  out.run = step().run;
  out.hook = gap.hook;
  out.step = step().info;
  out.ordinal = gap.ordinal;
  out.reason = gap.reason;
  out.request = piece.request;
  out.request_id = id_of(piece.request);
  out.first_token = piece.first_token;
  out.rows = piece.rows;
  return true;
}

bool FrameWalk::next(StepView& out) {
  while (next_step()) {
    if (!wants_step()) continue;
    out = step();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < out.records.size(); ++i) {
      if (payload_ok(i)) out.records[kept++] = out.records[i];
    }
    out.records.resize(kept);
    return true;
  }
  return false;
}

}  // namespace graphtap
