#include "cli/report/report_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/near_match.hpp"
#include "cli/console.hpp"
#include "cli/report/collector.hpp"

namespace graphtap::cli {
namespace {

constexpr std::int64_t kFewTokens = 2048;
/// Shown unless the user says what: the residual stream and what layers add to it.
constexpr std::string_view kUsual[] = {"resid_pre", "resid_mid", "attn_out", "mlp_out"};

std::vector<std::string> layered_types(const RunInfo& run, const std::vector<HookTotals>& totals) {
  std::vector<std::string> types;
  for (const HookTotals& hook : totals) {
    const bool any = hook.records > 0 || hook.missing() > 0 || hook.shed() > 0;
    const bool known = std::find(types.begin(), types.end(), hook.hook->type) != types.end();
    if (any && !known && hook.hook->layer >= 0 && hook.hook->rows == RowBasis::tokens) {
      types.push_back(hook.hook->type);
    }
  }
  if (types.empty()) {
    throw Error(Code::not_found,
                fmt::format("run {} stored no hook that has layers, so there is no map to draw",
                            run.number));
  }
  return types;
}

std::vector<std::string> choose_types(const RunInfo& run, const std::vector<HookTotals>& totals,
                                      const std::vector<std::string>& wanted) {
  const std::vector<std::string> there = layered_types(run, totals);
  const auto has = [&](std::string_view type) {
    return std::find(there.begin(), there.end(), type) != there.end();
  };
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
  range.end = std::max(range.begin, range.end);
  return range;
}

}  // namespace

ReportData collect_report(const StoreReader& reader, const RunSummary& run,
                          const ReportOptions& options) {
  ReportData data;
  data.run = run;
  const std::vector<HookTotals> totals = reader.totals(run.run->number).value_or_throw();
  data.totals = group_totals(totals);
  const std::vector<std::string> types = choose_types(*run.run, totals, options.hooks);
  RequestFilter filter;
  filter.run = run.run->number;
  filter.id = options.request;
  for (RequestSummary& summary : reader.requests(filter)) {
    if (data.requests.size() == options.most_requests) {
      ++data.requests_left_out;
      continue;
    }
    RequestReport& request = data.requests.emplace_back();
    request.tokens = shown_tokens(summary, options);
    request.summary = std::move(summary);
  }
  if (data.requests.empty()) {
    throw Error(Code::not_found,
                options.request.empty()
                    ? fmt::format("run {} holds no request", run.run->number)
                    : fmt::format("--request {}: run {} has no such request (see graphtap ls)",
                                  one_line(options.request), run.run->number));
  }
  Collector collector(data, types, options.most_cells);
  Query query;
  query.run = run.run->number;
  query.request = options.request;
  query.skip_rejected = true;
  RecordCursor records = reader.read(query).value_or_throw();
  for (RecordView record; records.next(record);) collector.take(record);
  GapCursor gaps = reader.gaps(query).value_or_throw();
  for (GapView gap; gaps.next(gap);) collector.take(gap);
  collector.finish();
  const StoreSummary summary = reader.summary();
  data.store = summary.path;
  data.findings = reader.findings();
  return data;
}

}  // namespace graphtap::cli
