#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "graphtap/delivery.hpp"
#include "graphtap/hook_set.hpp"
#include "plan/frame_ring.hpp"
#include "plan/wire.hpp"

namespace graphtap {

/// Rows that are gathered for some hooks: ascending indexes into the step's rows of one basis.
struct RowList {
  RowBasis basis = RowBasis::tokens;
  std::vector<std::uint32_t> rows;
  std::vector<Slice> slices;  // of the gathered rows, in list order
  bool in_header = true;      // false: the header has no room for it, so what needs it is shed
};

/// One record of a plan: a hook's rows, or a piece of them in a split eager step.
struct PlannedRecord {
  static constexpr std::int32_t kNoList = -1;

  HookId hook = 0;
  std::uint16_t ordinal = 0;
  std::uint32_t slot = 0;
  std::uint32_t first_row = 0;  // of this piece, within the hook's planned rows
  std::uint32_t rows = 0;
  std::int32_t list = kNoList;  // into StepPlan::lists
  std::uint64_t row_bytes = 0;
  std::uint64_t offset = 0;      // of its head in the frame
  bool piece = false;            // its hook's rows are spread over several records
  bool chunked = false;          // may hold fewer bytes than rows × row_bytes
  bool fired = false;            // eager: its producer was launched
  std::optional<GapReason> gap;  // known before the device was asked

  /// Saturates: a size that no frame can have stays one.
  [[nodiscard]] std::uint64_t payload_bytes() const noexcept {
    constexpr std::uint64_t kMost = wire::kMaxFrameBytes;
    return row_bytes != 0 && rows > kMost / row_bytes ? kMost : rows * row_bytes;
  }
};

/// A frame of a step: one region of the ring, one ticket, one delivery.
struct FramePlan {
  std::uint64_t ticket = 0;
  std::uint32_t part = 0;
  std::uint64_t bytes = 0;             // it takes in the ring; 0: nothing to capture
  std::vector<PlannedRecord> records;  // laid out in it
  std::vector<PlannedRecord> shed;     // wanted, not laid out; each has its gap reason
  std::shared_ptr<FrameLoan> loan;     // where it lies, once reserved
  std::optional<GapReason> failed;     // all of it is lost, and why

  /// The first reason given stays.
  void fail(GapReason reason) noexcept {
    if (!failed) failed = reason;
  }
};

/// The host's description of one step. The lane marks a frame (fired, gap, failed, loan) until it
/// hands that frame to the drain, which owns it from then on; everything else is immutable after
/// planning.
struct StepPlan {
  std::uint32_t lane = 0;
  std::uint64_t step = 0;
  StepKind kind = StepKind::graph;
  std::uint64_t set_version = 0;
  std::uint64_t sequence = 0;  // in Outstanding
  std::int64_t columns = 0;
  HookSet wanted;    // what the enabled set asks of this step
  HookSet captured;  // what its frames hold: wanted without what was shed
  std::vector<Slice> token_slices;
  std::vector<Slice> request_slices;
  std::vector<RowList> lists;
  std::vector<FramePlan> frames;  // at least one if anything was wanted

  [[nodiscard]] const std::vector<Slice>* slices(RowBasis basis) const noexcept {
    if (basis == RowBasis::tokens) return &token_slices;
    if (basis == RowBasis::requests) return &request_slices;
    return nullptr;
  }
};

}  // namespace graphtap
