#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gate/capture_recorder.hpp"
#include "monitor/monitor_core.hpp"

namespace graphtap {

/// A lane: one step header in device memory, and the steps that use it, in order.
///
/// The header is ON between the upload of a step's plan and its close_step; `header_in_doubt_` says
/// that the device refused one of them, so that it may still be ON: then the memory it points at is
/// kept
/// (`fenced_`) until a later close_step went through and its event has completed.
class LaneCore {
 public:
  /// Errors: exhausted, device_error.
  static Result<std::shared_ptr<LaneCore>> make(std::shared_ptr<MonitorCore> core,
                                                std::uint32_t index);
  ~LaneCore();
  LaneCore(const LaneCore&) = delete;
  LaneCore& operator=(const LaneCore&) = delete;

  std::shared_ptr<StepPlan> begin(const StepShape& shape, Stream stream);
  void produce(HookId hook, const Source& source, Stream stream);
  Result<Exec> prepare(BoundGraph& graph, const StepPlan* plan, Stream stream);
  Status launch(BoundGraph& graph, StepPlan* plan, Stream stream);
  void invalidate(StepPlan& plan, GapReason reason) noexcept;
  void end(std::shared_ptr<StepPlan> plan, Stream stream);

  std::shared_ptr<BoundGraph> bind(Graph graph, Exec exec, BindOptions options);
  Status apply_now(const HookSet& desired);
  Status clear();
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] wire::StepHeader* header() const noexcept {
    return reinterpret_cast<wire::StepHeader*>(header_);
  }

 private:
  LaneCore(std::shared_ptr<MonitorCore> core, std::uint32_t index, std::byte* header,
           std::shared_ptr<FrameRing> images);

  // begin
  bool nothing_wanted(const StepShape& shape);
  std::optional<GapReason> enter(Stream stream);
  std::shared_ptr<StepPlan> plan_step(const StepShape& shape, bool computes);
  Status follow_stream(Stream stream);
  void clear_header(Stream stream);
  void upload_header(StepPlan& plan, Stream stream);
  static void fail_upload(StepPlan& plan, GapReason reason);
  void open_eager(std::shared_ptr<StepPlan> plan, Stream stream);

  // produce
  void record_capture(HookId hook, const Source& source, const CaptureState& capture,
                      Stream stream);
  void produce_eager(HookId hook, const Source& source, Stream stream);
  std::uint16_t count_eager_call(HookId hook);
  void index_pieces();
  [[nodiscard]] PlannedRecord* next_piece(std::uint32_t slot, std::uint32_t from_row);
  Status order_behind_lists(Stream stream);
  void produce_piece(const Source& source, FramePlan& frame, PlannedRecord& record, Stream stream);
  void move_to_frame(std::size_t frame, Stream stream);

  // launch and end
  Result<Exec> prepare_locked(BoundGraph& graph, const StepPlan* plan);
  void hand_over(const std::shared_ptr<StepPlan>& plan, std::size_t frame, Stream stream);
  Status join_streams(Stream stream);
  void note(const Status& status) const { core_->note_error(status); }
  static GapReason reason_for(const Status& status) noexcept {
    return status.code() == Code::device_lost ? GapReason::device_lost : GapReason::device_error;
  }

  const std::shared_ptr<MonitorCore> core_;
  const std::uint32_t index_;
  std::byte* const header_;                  // device memory, owned by the device for ever
  const std::shared_ptr<FrameRing> images_;  // pinned header images
  CaptureRecorder recorder_;
  // Hooks with a call of which is unknown whether it was captured: their ordinals in the capture
  // that is seen next are not to be trusted.
  std::vector<bool> ordinal_in_doubt_;

  // The stepping thread's.
  std::uint64_t next_step_ = 0;
  std::shared_ptr<const Demand> demand_;
  std::uint64_t demand_version_ = 0;
  Stream last_stream_{};
  bool stepped_ = false;
  bool header_on_ = false;
  bool header_in_doubt_ = false;
  std::vector<std::shared_ptr<FrameLoan>> fenced_;
  std::shared_ptr<FrameLoan> image_;  // of the open step
  std::shared_ptr<StepPlan> eager_;   // the open eager step
  std::size_t eager_frame_ = 0;       // the frame that is being filled
  Stream eager_stream_{};
  std::vector<Stream> eager_streams_;        // others that produced, until they were joined
  std::vector<Stream> list_streams_;         // others that come behind the upload of the row lists
  std::vector<std::uint16_t> eager_calls_;   // by hook
  std::vector<std::int32_t> piece_of_slot_;  // first index into pieces_, -1: none
  std::vector<std::pair<std::size_t, std::size_t>> pieces_;  // (frame, record), in firing order

  std::mutex gate_mutex_;  // the lane's lock: graph objects are touched under it only
  bool gate_closed_ = false;
};

}  // namespace graphtap
