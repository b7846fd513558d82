#pragma once
#include <cstddef>
#include <cstdint>

#include "plan/step_plan.hpp"

namespace graphtap {

/// Bytes of the header that `frame` (one of `plan`'s) needs: with its row lists.
[[nodiscard]] std::uint64_t header_image_bytes(const StepPlan& plan, std::uint32_t slots) noexcept;

/// Writes the step header of `frame` into `image`: what is uploaded. Precondition: the frame has
/// its ticket and its loan; `image` has header_image_bytes().
void write_header_image(std::byte* image, const StepPlan& plan, const FramePlan& frame,
                        std::uint32_t slots) noexcept;

/// Where list `index` begins among the header's row-list entries.
[[nodiscard]] std::uint32_t list_position(const StepPlan& plan, std::int32_t index) noexcept;

}  // namespace graphtap
