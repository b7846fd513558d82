#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/tensor_values.hpp"
#include "graphtap/store_reader.hpp"

namespace graphtap::cli {

/// One row of a record, with what is said of it.
struct ShownRow {
  std::uint32_t run = 0;
  std::uint64_t serial = 0;
  std::string request;
  std::string hook;
  std::uint16_t ordinal = 0;
  std::int64_t token = 0;
  std::uint64_t step = 0;
  StepKind kind = StepKind::graph;
  std::string notes;
  RowStats stats;
  std::vector<double> values;
};

/// Gaps of one hook type with one reason.
struct ShownGaps {
  std::set<int> layers;
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  std::uint64_t count = 0;
};

/// What a query found.
struct ShownRows {
  std::vector<ShownRow> rows;
  std::uint64_t further = 0;                                    ///< rows beyond the limit
  std::map<std::pair<std::string, GapReason>, ShownGaps> gaps;  ///< by hook type and reason
};

/// The first `limit` rows with their first `values` values, in stored order, and all gaps. Errors
/// (thrown): those of StoreReader::read.
[[nodiscard]] ShownRows find_rows(const StoreReader& reader, const Query& query, std::size_t values,
                                  std::uint64_t limit);

}  // namespace graphtap::cli
