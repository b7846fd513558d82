#include "cli/report/report_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/near_match.hpp"
#include "cli/console.hpp"
#include "cli/report/collector.hpp"

namespace graphtap::cli {
namespace {

constexpr std::int64_t kFewTokens = 2048;
/// Shown unless the user says what: the residual stream and what layers add to it.
constexpr std::string_view kUsual[] = {"resid_pre", "resid_mid", "attn_out", "mlp_out"};

std::vector<std::string> layered_types(const std::vector<HookTotals>& totals) {
  std::vector<std::string> types;
  for (const HookTotals& hook : totals) {
    const bool any = hook.records > 0 || hook.missing() > 0 || hook.shed() > 0;
    const bool known = std::find(types.begin(), types.end(), hook.hook->type) != types.end();
    if (any && !known && hook.hook->layer >= 0 && hook.hook->rows == RowBasis::tokens) {
      types.push_back(hook.hook->type);
    }
  }
  return types;
}

std::vector<std::string> choose_types(const RunInfo& run, const std::vector<HookTotals>& totals,
                                      const std::vector<std::string>& wanted) {
  const std::vector<std::string> there = layered_types(totals);
  const auto has = [&](std::string_view type) {
    return std::find(there.begin(), there.end(), type) != there.end();
  };
  if (there.empty() && wanted.empty()) return {};
  if (there.empty()) {
    throw Error(Code::not_found,
                fmt::format("--hooks: run {} stored no hook that has layers", run.number));
  }
  std::vector<std::string> chosen;
  for (const std::string& type : wanted) {
    if (!has(type)) {
      const std::vector<std::string_view> names(there.begin(), there.end());
      throw Error(Code::not_found,
                  fmt::format("--hooks: run {} stored no layers of {}{}; it has {}", run.number,
                              in_quotes(type), did_you_mean(type, names), fmt::join(there, ", ")));
    }
    if (std::find(chosen.begin(), chosen.end(), type) == chosen.end()) chosen.push_back(type);
  }
  for (const std::string_view type : kUsual) {
    if (wanted.empty() && has(type)) chosen.emplace_back(type);
  }
  return chosen.empty() ? std::vector{there.front()} : chosen;
}

std::size_t layers_of(const RunInfo& run, const std::vector<std::string>& types) {
  std::size_t rows = 0;
  for (const Hook& hook : run.hooks) {
    const std::string& type = hook.type == "resid_final" ? "resid_pre" : hook.type;
    if (std::find(types.begin(), types.end(), type) != types.end()) ++rows;
  }
  return std::max<std::size_t>(1, rows);
}

std::vector<TypeBytes> bytes_by_type(const std::vector<HookTotals>& totals) {
  std::vector<TypeBytes> types;
  for (const HookTotals& hook : totals) {
    if (hook.records == 0) continue;
    auto type = std::find_if(types.begin(), types.end(),
                             [&](const TypeBytes& known) { return known.hook == hook.hook->type; });
    if (type == types.end()) type = types.insert(types.end(), {hook.hook->type, 0, 0, 0});
    ++type->hooks;
    type->records += hook.records;
    type->bytes += hook.bytes;
  }
  std::stable_sort(types.begin(), types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return types;
}

// The requests a person should look at first come first.
void make_table(ReportData& data, std::size_t most) {
  std::stable_sort(data.table.begin(), data.table.end(), [](const auto& a, const auto& b) {
    if (a.lost != b.lost) return a.lost > b.lost;
    return a.summary.tokens.end - a.summary.tokens.begin >
           b.summary.tokens.end - b.summary.tokens.begin;
  });
  if (data.table.size() <= most) return;
  data.rows_left_out = data.table.size() - most;
  data.table.resize(most);
}

// Everything the store says of the request, from its first token on unless that is far away.
TokenRange shown_tokens(const RequestSummary& summary, const ReportOptions& options) {
  TokenRange range = summary.tokens;
  for (const TokenRange& part : summary.not_computed) {
    const bool empty = range.end <= range.begin;
    range =
        empty ? part : TokenRange{std::min(range.begin, part.begin), std::max(range.end, part.end)};
  }
  if (const auto known = options.lengths.find(summary.serial); known != options.lengths.end()) {
    range.end = std::max(range.end, known->second);
  }
  if (range.end <= kFewTokens) range.begin = 0;
  range.begin = std::max(range.begin, options.begin);
  range.end = std::max(range.begin, std::min(range.end, options.end));
  return range;
}

}  // namespace

ReportData collect_report(const StoreReader& reader, const RunSummary& run,
                          const ReportOptions& options) {
  ReportData data;
  data.run = run;
  const std::vector<HookTotals> totals = reader.totals(run.run->number).value_or_throw();
  data.totals = group_totals(totals);
  data.bytes = bytes_by_type(totals);
  std::vector<std::string> types = choose_types(*run.run, totals, options.hooks);
  const auto fit = [&] {  // requests whose maps can be read
    return options.most_cells / (layers_of(*run.run, types) * kFewestColumns);
  };
  for (; types.size() > 1 && fit() == 0; types.pop_back()) {
    data.types_left_out.insert(data.types_left_out.begin(), types.back());
  }
  const std::size_t most_requests =
      types.empty() ? 0 : std::min(options.most_requests, std::max<std::size_t>(1, fit()));
  RequestFilter filter;
  filter.run = run.run->number;
  filter.id = options.request;
  std::unordered_map<std::uint64_t, std::size_t> rows;  // of the table, by serial
  for (RequestSummary& summary : reader.requests(filter)) {
    const TokenRange tokens = shown_tokens(summary, options);
    if (tokens.begin == tokens.end && options.begin > 0) {
      // None of the tokens that were asked for.
    } else if (data.requests.size() == most_requests) {
      ++data.requests_left_out;
    } else {
      RequestReport& request = data.requests.emplace_back();
      request.tokens = tokens;
      request.summary = summary;
    }
    rows[summary.serial] = data.table.size();
    data.table.push_back({std::move(summary), 0});
  }
  if (data.requests.empty() && !data.table.empty() && !types.empty()) {
    throw Error(Code::not_found, fmt::format("--tokens: no request of run {} has tokens from {} on",
                                             run.run->number, options.begin));
  }
  if (data.table.empty() && !options.request.empty()) {
    throw Error(Code::not_found,
                fmt::format("--request {}: run {} has no such request (see graphtap ls)",
                            one_line(options.request), run.run->number));
  }
  Collector collector(data, types, options.most_cells);
  Query query;
  query.run = run.run->number;
  query.request = options.request;
  RecordCursor records = reader.read(query).value_or_throw();
  for (RecordView record; records.next(record);) collector.take(record);
  GapCursor gaps = reader.gaps(query).value_or_throw();
  for (GapView gap; gaps.next(gap);) {
    collector.take(gap);
    if (const auto row = rows.find(gap.request); row != rows.end()) ++data.table[row->second].lost;
  }
  collector.finish();
  make_table(data, options.most_rows);
  Query all_steps;
  all_steps.run = run.run->number;
  auto history = std::make_shared<RunHistory>(run);
  StepCursor steps = reader.steps(all_steps).value_or_throw();
  for (StepView step; steps.next(step);) history->take(step);
  data.history = std::move(history);
  StoreSummary summary = reader.summary();
  data.store = summary.path;
  data.runs = std::move(summary.runs);
  data.findings = reader.findings();
  return data;
}

}  // namespace graphtap::cli
