#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_history.hpp"
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
  std::uint32_t lost = 0;                   ///< rows that are gaps; may stand beside a value
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

/// Consecutive tokens (whole columns) of a request for which the same hooks were captured (or
/// lost).
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
  std::vector<TokenRange> recomputed;  ///< rising, whole columns: some step computed them again
};

/// A line of the table of requests.
struct RequestRow {
  RequestSummary summary;
  std::uint64_t lost = 0;  ///< records (missing or shed) that would have held rows of it
};

/// What the hooks of one type delivered.
struct TypeBytes {
  std::string hook;  ///< the type
  std::size_t hooks = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
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
  std::size_t most_rows = 50;       ///< of the table of requests
  std::int64_t begin = 0;           ///< tokens [begin, end) of each request
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

/// Points into the reader it was collected from, which must outlive it.
struct ReportData {
  std::string store;
  std::vector<RunSummary> runs;  ///< every run of the store
  RunSummary run;                ///< the one that the rest is about
  std::vector<RequestReport> requests;
  std::size_t requests_left_out = 0;        ///< of the maps
  std::vector<std::string> types_left_out;  ///< hook types that were wanted and have no map
  std::vector<RequestRow> table;            ///< most incomplete first, then longest
  std::size_t rows_left_out = 0;            ///< of the table
  std::vector<TotalsRow> totals;
  std::vector<TypeBytes> bytes;  ///< most bytes first
  std::shared_ptr<const RunHistory> history;
  /// Least and greatest finite norm of each type, over all requests: one colour scale for all of
  /// them.
  std::map<std::string, std::pair<double, double>> scales;
  std::vector<Finding> findings;
};

/// Reads what the page shows, in three passes over the run (rows, gaps, steps); memory is bounded
/// by the cells, the hooks and the number of requests, never by steps or tokens. Where more tokens
/// are stored than columns fit, a column is the mean norm of several; where `most_cells` does not
/// allow readable maps, requests and then hook types are left out. Errors (thrown): not_found (no
/// such run, request, hook or token), those of the reader.
[[nodiscard]] ReportData collect_report(const StoreReader& reader, const RunSummary& run,
                                        const ReportOptions& options);

/// The hooks `have` (by HookId) in words; `countable` are those that a token can have at all.
[[nodiscard]] HookSetWords set_in_words(const std::vector<Hook>& hooks,
                                        const std::vector<bool>& have,
                                        const std::vector<bool>& countable);

}  // namespace graphtap::cli
