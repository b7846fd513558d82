#pragma once
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graphtap/sink.hpp"
#include "graphtap/store_records.hpp"

namespace graphtap::cli {

/// Hooks of one type whose layers had the same fate: one line of the table that ends every run.
struct TotalsRow {
  std::string hook;         ///< the type
  std::vector<int> layers;  ///< rising; empty for a global hook
  std::uint64_t records = 0;
  std::uint64_t tokens = 0;        ///< rows that belong to a request, of each layer
  std::uint64_t unattributed = 0;  ///< rows that belong to none, of all layers
  std::uint64_t bytes = 0;         ///< of all layers
  std::uint64_t missing = 0;
  std::uint64_t shed = 0;
};

/// One row for each (type, tokens, missing, shed), in the order of the hooks. Hooks with nothing
/// are left out.
[[nodiscard]] std::vector<TotalsRow> group_totals(const std::vector<HookTotals>& hooks);

/// hook, layers, tokens, records, bytes, missing, shed, and unattributed rows if there are any;
/// indented, with a sum below.
[[nodiscard]] std::string totals_text(const std::vector<TotalsRow>& rows, std::size_t indent);
[[nodiscard]] nlohmann::json totals_json(const std::vector<TotalsRow>& rows);

/// Counts what is delivered, hook by hook. Keeps nothing else. One monitor at a time.
class TotalsSink final : public Sink {
 public:
  explicit TotalsSink(const HookTable& table);
  [[nodiscard]] std::string name() const override { return "totals"; }
  Status write(const DeliveredStep& step) override;

  /// One entry for each hook; they point into this sink.
  [[nodiscard]] std::vector<HookTotals> totals() const;
  [[nodiscard]] std::uint64_t bytes() const;  ///< payload bytes so far

 private:
  const HookTable table_;  // HookTotals::hook points into it
  mutable std::mutex mutex_;
  std::vector<HookTotals> hooks_;
  std::uint64_t bytes_ = 0;
};

}  // namespace graphtap::cli
