#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graphtap/dtype.hpp"

namespace graphtap::cli {

/// What is said of one row of a tensor. Computed in double over every value.
struct RowStats {
  std::uint64_t values = 0;
  std::uint64_t not_finite = 0;  ///< NaN and infinite values; left out of the following
  double norm = 0;               ///< Euclidean
  double least = 0, most = 0;
  double mean = 0;
};

/// Values of a row as doubles, at most `most` of them. 64-bit integers may lose their last bits.
[[nodiscard]] std::vector<double> row_values(DType dtype, std::span<const std::byte> row,
                                             std::size_t most);
[[nodiscard]] RowStats row_stats(DType dtype, std::span<const std::byte> row);
/// The norm alone; NaN if some value is not finite.
[[nodiscard]] double row_norm(DType dtype, std::span<const std::byte> row);

}  // namespace graphtap::cli
