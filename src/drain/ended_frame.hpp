#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "graphtap/handles.hpp"
#include "plan/step_plan.hpp"

namespace graphtap {

/// A frame whose step has ended on the engine's side, on its way to the sinks. Without a plan it is
/// a fence: it only keeps `held` alive until its event.
struct EndedFrame {
  std::shared_ptr<StepPlan> plan;
  std::size_t frame = 0;
  std::uint32_t lane = 0;
  Event event{};  // after its last producer and, for a graph step, after its header was set to OFF;
                  // 0: none
  /// Kept until the event has completed: the frame, the pinned header, and what earlier steps of
  /// the lane could not free because their header may still have been ON.
  std::vector<std::shared_ptr<FrameLoan>> held;
  std::uint64_t sequence = 0;    // of the step in Outstanding
  bool last = true;              // of its step
  std::int64_t end_unix_ns = 0;  // when its event was seen to be complete; 0: it was not

  [[nodiscard]] FramePlan& frame_plan() const { return plan->frames[frame]; }
};

[[nodiscard]] inline std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace graphtap
