#include "cli/totals.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {

std::vector<TotalsRow> group_totals(const std::vector<HookTotals>& hooks) {
  std::vector<TotalsRow> rows;  // missing and shed of one layer, until all layers are known
  for (const HookTotals& totals : hooks) {
    const std::uint64_t missing = totals.missing(), shed = totals.shed();
    if (totals.records == 0 && missing == 0 && shed == 0) continue;
    const Hook& hook = *totals.hook;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const TotalsRow& r) {
      return r.hook == hook.type && r.layers.empty() == (hook.layer < 0) &&
             r.tokens == totals.tokens && r.missing == missing && r.shed == shed;
    });
    if (row == rows.end()) {
      // Rows of one type stay together, though models fire the types of a layer one after the
      // other.
      const auto last = std::find_if(rows.rbegin(), rows.rend(),
                                     [&](const TotalsRow& r) { return r.hook == hook.type; });
      row = rows.insert(last == rows.rend() ? rows.end() : last.base(), TotalsRow{});
      row->hook = hook.type;
      row->tokens = totals.tokens;
      row->missing = missing;
      row->shed = shed;
    }
    if (hook.layer >= 0) row->layers.push_back(hook.layer);
    row->records += totals.records;
    row->bytes += totals.bytes;
    row->unattributed += totals.rows - std::min(totals.rows, totals.tokens);
  }
  for (TotalsRow& row : rows) {
    const std::uint64_t layers = std::max<std::uint64_t>(1, row.layers.size());
    row.missing *= layers;
    row.shed *= layers;
    std::sort(row.layers.begin(), row.layers.end());
  }
  return rows;
}

std::string totals_text(const std::vector<TotalsRow>& rows, std::size_t indent) {
  const bool orphans = std::any_of(rows.begin(), rows.end(),
                                   [](const TotalsRow& row) { return row.unattributed > 0; });
  const auto orphans_text = [&](std::uint64_t count) {
    return orphans ? with_commas(count) : std::string();
  };
  TextTable table({{"hook"},
                   {"layers"},
                   {"tokens", true},
                   {"records", true},
                   {"bytes", true},
                   {"missing", true},
                   {"shed", true},
                   {orphans ? "unattributed rows" : "", true}});
  TotalsRow sum;
  for (const TotalsRow& row : rows) {
    table.add({row.hook, ranges(row.layers), with_commas(row.tokens), with_commas(row.records),
               human_bytes(row.bytes), with_commas(row.missing), with_commas(row.shed),
               orphans_text(row.unattributed)});
    sum.unattributed += row.unattributed;
    sum.records += row.records;
    sum.bytes += row.bytes;
    sum.missing += row.missing;
    sum.shed += row.shed;
  }
  table.add({"all", "", "", with_commas(sum.records), human_bytes(sum.bytes),
             with_commas(sum.missing), with_commas(sum.shed), orphans_text(sum.unattributed)});
  return table.text(indent);
}

nlohmann::json totals_json(const std::vector<TotalsRow>& rows) {
  auto json = nlohmann::json::array();
  for (const TotalsRow& row : rows) {
    json.push_back({{"hook", row.hook},
                    {"layers", row.layers},
                    {"tokens", row.tokens},
                    {"records", row.records},
                    {"bytes", row.bytes},
                    {"missing", row.missing},
                    {"shed", row.shed},
                    {"unattributed_rows", row.unattributed}});
  }
  return json;
}

TotalsSink::TotalsSink(const HookTable& table) : table_(table), hooks_(table_.size()) {
  for (const Hook& hook : table_.hooks()) hooks_[hook.id].hook = &hook;
}

Status TotalsSink::write(const DeliveredStep& step) {
  const std::lock_guard lock(mutex_);
  for (const Record& record : step.records) {
    HookTotals& totals = hooks_[record.hook->id];
    ++totals.records;
    totals.rows += record.rows;
    totals.bytes += record.payload.size();
    bytes_ += record.payload.size();
    for (const Slice& slice : record.slices) {
      if (slice.request) totals.tokens += slice.rows;
    }
  }
  for (const Gap& gap : step.gaps) {
    ++hooks_[gap.hook->id].gaps[static_cast<std::size_t>(gap.reason)];
  }
  return {};
}

std::vector<HookTotals> TotalsSink::totals() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

std::uint64_t TotalsSink::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace graphtap::cli
