#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/report/report_data.hpp"

namespace graphtap::cli {

/// Columns of a map, at least: with fewer there is nothing to see.
inline constexpr std::size_t kFewestColumns = 40;

/// Fills the maps and bands of the requests of a ReportData from rows and gaps, in stored order.
class Collector {
 public:
  /// `data.run` and `data.requests` are filled; `types` are the maps to make.
  Collector(ReportData& data, const std::vector<std::string>& types, std::size_t most_cells);
  void take(const RecordView& record);
  void take(const GapView& gap);
  /// Bands and colour scales, when everything was taken.
  void finish();

 private:
  struct Place {
    std::size_t map = 0;
    std::size_t row = 0;
  };
  /// What is known of a request's columns; memory does not grow with its tokens.
  struct Columns {
    std::vector<std::vector<bool>> have;  // by column, then hook
    std::vector<bool> recomputed;         // by column
  };
  RequestReport* find(std::uint64_t serial);
  void make_maps(RequestReport& request, const std::vector<std::string>& types,
                 std::size_t columns);
  template <class Change>
  void change(RequestReport& request, HookId hook, std::int64_t token, Change change);
  void mark(const RequestReport& request, HookId hook, std::int64_t first, std::uint32_t rows,
            bool recomputed);
  void make_bands(RequestReport& request);
  void make_recomputed(RequestReport& request);

  ReportData& data_;
  const std::vector<Hook>& hooks_;
  std::vector<std::optional<Place>> places_;  // by hook
  std::vector<bool> countable_;               // by hook: it has a row for every token
  std::unordered_map<std::uint64_t, std::size_t> by_serial_;
  std::unordered_map<std::uint64_t, Columns> columns_;  // by serial
};

}  // namespace graphtap::cli
