#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/totals.hpp"
#include "graphtap/store_reader.hpp"

namespace graphtap::cli {

/// What a store says of one hook at one token.
enum class CellState : std::uint8_t {
  off,  ///< not captured: the hook was not enabled, or no step computed the token
  value,
  gap,           ///< wanted and lost
  not_computed,  ///< from a prefix cache: no rows exist
};

struct Cell {
  CellState state = CellState::off;
  GapReason reason = GapReason::not_fired;  ///< for gaps
  std::uint32_t rows = 0;                   ///< that `norm` is the mean of
  double norm = 0;                          ///< NaN if a value is not finite
};

/// Norms of one hook type of one request: a row a layer, a column a token (or several tokens).
struct HeatMap {
  std::string hook;                 ///< the type
  std::vector<std::string> labels;  ///< of the rows, the first layer first; "final" may end them
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
  std::int64_t tokens_per_column = 1;
  std::size_t columns = 0;
  std::vector<Cell> cells;  ///< labels.size() × columns

  [[nodiscard]] const Cell& at(std::size_t row, std::size_t column) const {
    return cells[row * columns + column];
  }
  /// Tokens of a column, [begin, end).
  [[nodiscard]] TokenRange range(std::size_t column) const;
};

/// Consecutive tokens of a request for which the same hooks were captured (or lost).
struct Band {
  TokenRange tokens;
  std::size_t set = 0;  ///< index into RequestReport::sets
};

/// A set of hooks in words.
struct HookSetWords {
  std::string brief;  ///< fits a legend: "every hook", "none", "resid_pre 20-29"
  std::string full;
  std::size_t hooks = 0;
};

struct RequestReport {
  RequestSummary summary;
  TokenRange tokens;  ///< that the maps show
  std::vector<HeatMap> maps;
  std::vector<HookSetWords> sets;  ///< in order of their first token
  std::vector<Band> bands;
};

struct ReportOptions {
  std::optional<std::uint32_t> run;
  std::string request;             ///< user id; empty: all, the first `most_requests`
  std::vector<std::string> hooks;  ///< types; empty: the residual stream's, as far as captured
  /// Tokens that each request (by serial) computed, where that is known from elsewhere: a store
  /// knows only of those that were captured.
  std::map<std::uint64_t, std::int64_t> lengths;
  std::size_t most_requests = 12;
  std::size_t most_cells = 60'000;  ///< of the whole page: bounds its size and the memory taken
};

/// Points into the reader it was collected from, which must outlive it.
struct ReportData {
  std::string store;
  RunSummary run;
  std::vector<RequestReport> requests;
  std::size_t requests_left_out = 0;
  std::vector<TotalsRow> totals;
  /// Least and greatest finite norm of each type, over all requests: one colour scale for all of
  /// them.
  std::map<std::string, std::pair<double, double>> scales;
  std::vector<Finding> findings;
};

/// Reads what the page shows, in one pass over the run; memory is bounded by the cells. Where more
/// tokens are stored than columns fit, a column is the mean norm of several. Errors (thrown):
/// not_found (no such run, request or hook), those of the reader.
[[nodiscard]] ReportData collect_report(const StoreReader& reader, const RunSummary& run,
                                        const ReportOptions& options);

/// The hooks `have` (by HookId) in words; `countable` are those that a token can have at all.
[[nodiscard]] HookSetWords set_in_words(const std::vector<Hook>& hooks,
                                        const std::vector<bool>& have,
                                        const std::vector<bool>& countable);

}  // namespace graphtap::cli
