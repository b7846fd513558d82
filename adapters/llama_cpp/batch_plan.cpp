#include "llama_cpp/batch_plan.hpp"

#include <algorithm>

namespace graphtap::llama {

std::vector<StepSpan> plan_rows(std::span<const SequenceState> sequences,
                                std::uint32_t row_budget) {
  std::vector<StepSpan> spans;
  spans.reserve(sequences.size());
  for (const SequenceState& sequence : sequences) {
    spans.push_back({sequence.generation, sequence.computed, 1});
  }
  std::int64_t left =
      static_cast<std::int64_t>(row_budget) - static_cast<std::int64_t>(spans.size());
  for (std::size_t i = 0; i < spans.size() && left > 0; ++i) {
    const std::int64_t more = std::min(left, sequences[i].known - sequences[i].computed - 1);
    spans[i].rows += static_cast<std::uint32_t>(more);
    left -= more;
  }
  return spans;
}

}  // namespace graphtap::llama
