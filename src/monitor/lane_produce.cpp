#include <algorithm>

#include "monitor/lane_core.hpp"
#include "plan/header_image.hpp"
#include "plan/tickets.hpp"
#include "plan/wire.hpp"

namespace graphtap {

void LaneCore::produce(HookId hook, const Source& source, Stream stream) {
  if (hook >= core_->table.size() || core_->lost()) return;
  const Result<CaptureState> capture = core_->device->capture_state(stream);
  if (!capture.ok()) {
    note(capture.status());
    ordinal_in_doubt_[hook] = true;
    if (eager_) (void)count_eager_call(hook);  // it was one: the next call must not take its place
    return;
  }
  if (capture.value().capturing) {
    record_capture(hook, source, capture.value(), stream);
  } else if (eager_) {
    produce_eager(hook, source, stream);
  }
}

// ---- under capture: a node that reads the lane's header whenever its graph runs

void LaneCore::record_capture(HookId id, const Source& source, const CaptureState& capture,
                              Stream stream) {
  const Hook& hook = core_->table[id];
  if (!core_->leases->active().contains(id)) return;
  std::uint16_t ordinal = recorder_.next_ordinal(capture, id);
  if (ordinal_in_doubt_[id]) {
    ordinal_in_doubt_[id] = false;
    while (ordinal < hook.ordinals) ordinal = recorder_.next_ordinal(capture, id);
  }
  if (ordinal >= hook.ordinals) return;  // never planned, so it could never write
  const bool fixed_width = hook.row_bytes(0) == hook.row_bytes(1);
  if (fixed_width && source.chunks == 0 && source.row_bytes() != hook.row_bytes()) {
    note(Status(Code::invalid_argument,
                "hook " + hook.name + " was captured with rows of " +
                    std::to_string(source.row_bytes()) + " bytes, its table says " +
                    std::to_string(hook.row_bytes()) + ": it is left out of this graph"));
    return;
  }
  ProducerCall call;
  call.id = {id, ordinal, hook.first_slot + ordinal};
  call.source = source;
  call.dtype = hook.dtype;
  call.header = header();
#if defined(GRAPHTAP_BUG_wrong_ordinal)
  if (ordinal > 0) call.id.slot = hook.first_slot;
#endif
  if (const Status status = core_->device->produce(call, stream); !status.ok()) {
    note(status);
    return;
  }
  if (source.chunks > 0) core_->set_chunked(id);
  if (core_->options.switching && core_->options.tier != GateTier::soft) {
    recorder_.record(*core_->device, capture, stream, call.id, header());
  }
}

// ---- eager: the plan goes by value

void LaneCore::open_eager(std::shared_ptr<StepPlan> plan, Stream stream) {
  eager_ = std::move(plan);
  eager_frame_ = 0;
  eager_stream_ = stream;
  list_streams_.clear();
  std::fill(eager_calls_.begin(), eager_calls_.end(), std::uint16_t{0});
  index_pieces();
}

void LaneCore::index_pieces() {
  std::fill(piece_of_slot_.begin(), piece_of_slot_.end(), -1);
  pieces_.clear();
  for (std::size_t f = eager_frame_; f < eager_->frames.size(); ++f) {
    for (std::size_t r = 0; r < eager_->frames[f].records.size(); ++r) {
      std::int32_t& first = piece_of_slot_[eager_->frames[f].records[r].slot];
      if (first < 0) first = static_cast<std::int32_t>(pieces_.size());
      pieces_.emplace_back(f, r);
    }
  }
}

// The first record of `slot` that holds rows from `from_row` on; opens its frame.
PlannedRecord* LaneCore::next_piece(std::uint32_t slot, std::uint32_t from_row) {
  if (piece_of_slot_[slot] < 0) return nullptr;
  for (auto i = static_cast<std::size_t>(piece_of_slot_[slot]); i < pieces_.size(); ++i) {
    const auto [f, r] = pieces_[i];
    PlannedRecord& record = eager_->frames[f].records[r];
    if (record.slot != slot) return nullptr;
    if (record.first_row < from_row) continue;
    if (f == eager_frame_) return &record;
    move_to_frame(f, eager_stream_);  // may shed records: look again
    return next_piece(slot, from_row);
  }
  return nullptr;
}

std::uint16_t LaneCore::count_eager_call(HookId hook) {
  std::uint16_t& calls = eager_calls_[hook];
  return calls == UINT16_MAX ? calls : calls++;
}

void LaneCore::produce_eager(HookId id, const Source& source, Stream stream) {
  const Hook& hook = core_->table[id];
  const std::uint16_t ordinal = count_eager_call(id);
  if (ordinal >= hook.ordinals) return;
  const std::uint32_t slot = hook.first_slot + ordinal;
  std::uint32_t row = 0;
  while (PlannedRecord* record = next_piece(slot, row)) {
    row = record->first_row + record->rows;
    produce_piece(source, eager_->frames[eager_frame_], *record, stream);
  }
}

void LaneCore::produce_piece(const Source& source, FramePlan& frame, PlannedRecord& record,
                             Stream stream) {
  if (!frame.loan || frame.failed || record.gap || record.fired || core_->lost()) return;
  const bool sizes_agree =
      source.chunks > 0 ? !record.piece : source.row_bytes() == record.row_bytes;
  if (!sizes_agree) {
    record.gap = GapReason::mismatch;
    return;
  }
  ProducerCall call;
  call.id = {record.hook, record.ordinal, record.slot};
  call.source = source;
  call.dtype = core_->table[record.hook].dtype;
  call.ticket = frame.ticket;
  call.frame = frame.loan->data();
  call.magic = frame.loan->magic();
  call.plan.offset16 = static_cast<std::uint32_t>(record.offset / wire::kAlign);
  call.plan.rows = record.rows;
  call.plan.list = wire::kAllRows;
  call.plan.capacity16 =
      static_cast<std::uint32_t>(wire::align_up(record.payload_bytes()) / wire::kAlign);
  if (record.list != PlannedRecord::kNoList) {
    if (const Status status = order_behind_lists(stream); !status.ok()) {
      note(status);
      record.gap = reason_for(status);
      return;
    }
    const std::uint64_t entry = list_position(*eager_, record.list) + record.first_row;
    call.list = reinterpret_cast<const std::uint32_t*>(
        header_ + wire::lists_offset(core_->table.slots()) + entry * sizeof(std::uint32_t));
  } else if (record.first_row > 0) {
    const auto skip = static_cast<std::int64_t>(record.first_row);
    call.source.data = static_cast<const std::byte*>(source.data) + skip * source.row_stride;
    if (source.addend != nullptr) {
      call.source.addend =
          static_cast<const std::byte*>(source.addend) + skip * source.addend_row_stride;
    }
    call.source.rows -= std::min(source.rows, record.first_row);
  }
  record.chunked = source.chunks > 0;
  // Before the call: one that fails may have been carried out all the same.
  if (stream != eager_stream_ &&
      std::find(eager_streams_.begin(), eager_streams_.end(), stream) == eager_streams_.end()) {
    eager_streams_.push_back(stream);
  }
  if (const Status status = core_->device->produce(call, stream); !status.ok()) {
    note(status);
    record.gap = reason_for(status);
    return;
  }
  record.fired = true;
}

// Row lists were uploaded on the step's stream: a producer on another one must not read them
// before.
Status LaneCore::order_behind_lists(Stream stream) {
  if (stream == eager_stream_ ||
      std::find(list_streams_.begin(), list_streams_.end(), stream) != list_streams_.end()) {
    return {};
  }
  const Result<Event> event = core_->events.record(eager_stream_);
  if (!event.ok()) return event.status();
  Status status = core_->device->wait(stream, event.value());
  core_->events.give_back(event.value());
  if (status.ok()) list_streams_.push_back(stream);
  return status;
}

// Closes the frames before `frame` and finds room for it.
void LaneCore::move_to_frame(std::size_t frame, Stream stream) {
  while (eager_ && eager_frame_ < frame) {
    const std::shared_ptr<StepPlan> plan = eager_;
    hand_over(plan, eager_frame_, stream);
    ++eager_frame_;
    FramePlan& next = plan->frames[eager_frame_];
    if (next.failed) {
      next.ticket = next_ticket();
    } else {
      core_->reserve(*plan, next, demand_->priority);
    }
    index_pieces();
  }
}

Status LaneCore::join_streams(Stream stream) {
  if (stream != eager_stream_ && eager_) eager_streams_.push_back(eager_stream_);
  for (const Stream other : eager_streams_) {
    if (other == stream) continue;
    Result<Event> event = core_->events.record(other);
    if (!event.ok()) return event.status();
    const Status status = core_->device->wait(stream, event.value());
    core_->events.give_back(event.value());
    if (!status.ok()) return status;
  }
  eager_streams_.clear();
  return {};
}

}  // namespace graphtap
