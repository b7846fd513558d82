#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graphtap/lease.hpp"
#include "plan/step_plan.hpp"

namespace graphtap {

/// Rows [begin, end) of a step, ascending and disjoint.
struct RowRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The rows of `slices` that the lease's request filter, token windows and phase let through. Step
/// sampling is not looked at.
[[nodiscard]] std::vector<RowRange> wanted_rows(const LeaseSpec& lease,
                                                std::span<const Slice> slices);

/// Sorted, disjoint union.
[[nodiscard]] std::vector<RowRange> unite(std::vector<RowRange> ranges);

/// Row indexes of the ranges, with the slices of the gathered rows.
[[nodiscard]] RowList make_row_list(RowBasis basis, std::span<const RowRange> ranges,
                                    std::span<const Slice> slices);

/// The parts of `slices` that lie in rows [begin, begin + rows), shifted so that row `begin`
/// becomes 0.
[[nodiscard]] std::vector<Slice> clip(std::span<const Slice> slices, std::uint32_t begin,
                                      std::uint32_t rows);

}  // namespace graphtap
