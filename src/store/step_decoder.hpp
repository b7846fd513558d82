#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graphtap/store_records.hpp"
#include "store/frame.hpp"
#include "store/segment.hpp"

namespace graphtap::store {

/// Decodes step frames into StepViews. One is kept for many steps, so that its buffers are.
class StepDecoder {
 public:
  /// Decodes the frame at a place of a segment's directory. False, with `why`, if it is damaged or
  /// names hooks that the run does not have. The step is valid until the next call, its payloads
  /// while the segment is.
  bool decode(const RunInfo& run, const Segment& segment, const FrameEntry& entry,
              std::string& why);

  [[nodiscard]] const StepView& step() const noexcept { return step_; }
  [[nodiscard]] const Frame& frame() const noexcept { return frame_; }
  /// Computes a record's payload checksum and compares.
  [[nodiscard]] bool payload_matches(std::size_t record) const;

 private:
  StepView step_;
  Frame frame_;
  std::vector<StoredSlice> slices_;
  std::vector<HookId> wanted_ids_;
};

}  // namespace graphtap::store
