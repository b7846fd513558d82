#pragma once
#include <cstdint>
#include <span>

#include "graphtap/delivery.hpp"
#include "graphtap/request.hpp"

namespace graphtap {

/// The shape of one forward pass, said before it runs.
struct StepShape {
  StepKind kind = StepKind::eager;
  /// Rows of RowBasis::tokens, in the order in which they lie in the tensors; padding left out.
  std::span<const RowSpan> tokens;
  /// Rows of RowBasis::requests (logits); each span has one row. Empty: the last token of each
  /// span of `tokens`, in that order.
  std::span<const RowSpan> requests;
  std::uint32_t expert_rows = 0;  ///< rows of RowBasis::experts: counted, never attributed
  std::int64_t columns = 0;       ///< size of kPerStepColumns dimensions
};

}  // namespace graphtap
