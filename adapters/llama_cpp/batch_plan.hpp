#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "llama_cpp/session.hpp"

namespace graphtap::llama {

/// A sequence in the batch: `computed` of its `known` tokens have rows behind them.
struct SequenceState {
  std::uint64_t generation = 0;
  std::int64_t computed = 0;
  std::int64_t known = 0;  ///< > computed
};

/// The rows of the next step: one for every sequence, then the prompts that wait fill the budget in
/// order of arrival. Spans are in the order of `sequences`.
/// Precondition: row_budget ≥ sequences.size().
[[nodiscard]] std::vector<StepSpan> plan_rows(std::span<const SequenceState> sequences,
                                              std::uint32_t row_budget);

}  // namespace graphtap::llama
