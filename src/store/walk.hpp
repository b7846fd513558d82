#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/query.hpp"
#include "store/step_decoder.hpp"
#include "store/store_core.hpp"

namespace graphtap::store {

/// Rows of one record that share request, flags and acceptance.
struct Piece {
  std::uint64_t request = 0;
  std::int64_t first_token = 0;
  std::uint32_t row = 0;
  std::uint32_t rows = 0;
  RowFlags flags = RowFlags::none;
  bool rejected = false;
};
[[nodiscard]] inline TokenRange tokens_of(const Piece& piece) noexcept {
  return {piece.first_token, piece.first_token + piece.rows};
}

}  // namespace graphtap::store

namespace graphtap {

/// Visits the steps that may answer a query, in stored order, and cuts their records into pieces.
/// What Cursor and gather are made of.
class FrameWalk {
 public:
  FrameWalk(const StoreCore& core, store::ResolvedQuery query);

  /// Decodes the next step; damaged ones are reported and passed over. False at the end.
  bool next_step();

  [[nodiscard]] const StepView& step() const noexcept { return decoder_.step(); }
  [[nodiscard]] const store::ResolvedQuery& query() const noexcept { return query_; }
  [[nodiscard]] const store::RunState& run() const noexcept { return *filter_->run; }
  [[nodiscard]] bool wants(const Hook& hook, std::uint16_t ordinal) const {
    return filter_->wants(hook) && (!query_.ordinal || *query_.ordinal == ordinal);
  }
  /// Whether the step holds a record or gap that the query asks for.
  [[nodiscard]] bool wants_step() const;
  /// The pieces of a record that the query asks for, in row order.
  void pieces(const StoredRecord& record, std::vector<store::Piece>& out) const;
  /// The parts of a slice that the query asks for.
  void pieces(const StoredSlice& slice, std::vector<store::Piece>& out) const;
  /// Whether a record's payload may be handed out; damage is reported. Looks at each record once.
  bool payload_ok(std::size_t record);

  // What cursors give out of the step they are at.
  bool next(RecordView& out);
  bool next(GapView& out);
  bool next(StepView& out);

 private:
  struct Work {
    const store::RunFilter* filter;
    const store::Segment* segment;
    std::size_t first, end;  // places in the segment's directory
  };
  /// Makes pieces_ hold the next piece, filled from the step's items one by one; false at the end.
  template <class Fill>
  bool next_piece(std::size_t (*items)(const StepView&), Fill fill);
  void plan(const store::RunFilter& filter, const store::Segment& segment);
  void mark_rejected(const store::Piece& piece, std::vector<store::Piece>& out) const;
  void add_unattributed(const StoredRecord& record, std::vector<store::Piece>& out) const;
  [[nodiscard]] std::string_view id_of(std::uint64_t request) const;

  const StoreCore* core_;
  const store::ResolvedQuery query_;
  std::vector<Work> work_;
  std::size_t work_at_ = 0;
  std::size_t frame_at_ = 0;  // place of the next frame

  store::StepDecoder decoder_;
  const store::RunFilter* filter_ = nullptr;
  const store::Segment* segment_ = nullptr;
  store::Position position_;
  std::vector<signed char> checked_;  // of the step's records: -1 not yet, 0 damaged, 1 right

  bool in_step_ = false;
  std::size_t item_ = 0;  // the record or gap after the one whose pieces are being given out
  std::vector<store::Piece> pieces_;
  std::size_t piece_ = 0;
};

}  // namespace graphtap
