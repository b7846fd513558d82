#include "cli/report/report_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

Json range_json(const TokenRange& range) { return Json::array({range.begin, range.end}); }

Json ranges_json(const std::vector<TokenRange>& ranges) {
  Json all = Json::array();
  for (const TokenRange& range : ranges) all.push_back(range_json(range));
  return all;
}

Json run_json(const RunSummary& run) {
  return {{"run", run.run->number},
          {"name", run.run->name},
          {"model", run.run->model},
          {"state", to_string(run.state)},
          {"first_end_unix_ns", run.first_end_unix_ns},
          {"last_end_unix_ns", run.last_end_unix_ns},
          {"requests", run.requests},
          {"steps", run.steps},
          {"records", run.records},
          {"payload_bytes", run.payload_bytes},
          {"missing", run.missing},
          {"shed", run.shed}};
}

Json map_json(const HeatMap& map) {
  Json norms = Json::array(), lost = Json::array();
  for (std::size_t row = 0; row < map.labels.size(); ++row) {
    Json line = Json::array();
    for (std::size_t column = 0; column < map.columns; ++column) {
      const Cell& cell = map.at(row, column);
      switch (cell.state) {
        case CellState::value:
          line.push_back(std::isfinite(cell.norm) ? Json(cell.norm) : Json("nan"));
          if (cell.lost > 0) lost.push_back(Json::array({row, column, cell.lost}));
          break;
        case CellState::gap:
          line.push_back(fmt::format("gap:{}", graphtap::to_string(cell.reason)));
          break;
        case CellState::not_computed:
          line.push_back("not_computed");
          break;
        case CellState::off:
          line.push_back(nullptr);
      }
    }
    norms.push_back(std::move(line));
  }
  return {{"hook", map.hook},
          {"layers", map.labels},
          {"first_token", map.first_token},
          {"tokens", map.tokens},
          {"tokens_per_column", map.tokens_per_column},
          {"norms", std::move(norms)},
          {"lost", std::move(lost)}};
}

Json request_json(const RequestReport& request) {
  Json maps = Json::array(), bands = Json::array();
  for (const HeatMap& map : request.maps) maps.push_back(map_json(map));
  for (const Band& band : request.bands) {
    bands.push_back({{"tokens", range_json(band.tokens)}, {"hooks", request.sets[band.set].full}});
  }
  return {{"serial", request.summary.serial},
          {"id", request.summary.id},
          {"prompt_tokens", request.summary.prompt_tokens},
          {"recomputed", ranges_json(request.recomputed)},
          {"rejected", ranges_json(request.summary.rejected)},
          {"not_computed", ranges_json(request.summary.not_computed)},
          {"bands", std::move(bands)},
          {"maps", std::move(maps)}};
}

Json spread_json(const Durations& spread) {
  if (spread.count() == 0) return {{"count", 0}};
  return {{"count", spread.count()},
          {"p50_ns", spread.quantile(0.5)},
          {"p99_ns", spread.quantile(0.99)},
          {"least_ns", spread.least()},
          {"most_ns", spread.most()}};
}

Json history_json(const std::vector<Hook>& hooks, const RunHistory& history) {
  Json starts = Json::array(), steps = Json::array(), on = Json::object(), lost = Json::object(),
       versions = Json::array(), lanes = Json::array();
  for (std::size_t i = 0; i < history.buckets(); ++i) {
    starts.push_back(history.time(i));
    steps.push_back(history.steps_in(i));
  }
  for (const Hook& hook : hooks) {
    if (!history.ever_on(hook.id)) continue;
    std::string states;  // a character a bucket
    for (std::size_t i = 0; i < history.buckets(); ++i) {
      const RunHistory::On state = history.on(hook.id, i);
      states += state == RunHistory::On::all ? '#' : state == RunHistory::On::some ? '+' : '.';
    }
    on[hook.name] = std::move(states);
  }
  for (const auto& [reason, counts] : history.lost()) lost[to_string(reason)] = counts;
  for (const RunHistory::Change& change : history.changes()) {
    versions.push_back(
        {{"version", change.version}, {"unix_ns", change.unix_ns}, {"hooks", change.hooks}});
  }
  for (const auto& [number, lane] : history.lanes()) {
    lanes.push_back(
        {{"lane", number}, {"steps", lane.steps}, {"intervals", spread_json(lane.intervals)}});
  }
  return {{"begin_unix_ns", history.begin()},
          {"end_unix_ns", history.end()},
          {"slice_unix_ns", std::move(starts)},
          {"steps", std::move(steps)},
          {"on", std::move(on)},
          {"lost", std::move(lost)},
          {"set_versions", std::move(versions)},
          {"set_versions_left_out", history.changes_left_out()},
          {"lanes", std::move(lanes)},
          {"lanes_left_out", history.lanes_left_out()},
          {"steps_without_time", history.steps_without_time()},
          {"intervals", spread_json(history.intervals())}};
}

}  // namespace

nlohmann::json report_json(const ReportData& data) {
  Json runs = Json::array(), table = Json::array(), maps = Json::array(), bytes = Json::array();
  for (const RunSummary& run : data.runs) runs.push_back(run_json(run));
  for (const RequestRow& row : data.table) {
    const RequestSummary& summary = row.summary;
    table.push_back({{"serial", summary.serial},
                     {"id", summary.id},
                     {"prompt_tokens", summary.prompt_tokens},
                     {"tokens", range_json(summary.tokens)},
                     {"steps", summary.steps},
                     {"lost", row.lost},
                     {"finished", summary.finished},
                     {"valid", summary.valid}});
  }
  for (const RequestReport& request : data.requests) maps.push_back(request_json(request));
  for (const TypeBytes& type : data.bytes) {
    bytes.push_back({{"hook", type.hook},
                     {"hooks", type.hooks},
                     {"records", type.records},
                     {"bytes", type.bytes}});
  }
  return {{"store", data.store},
          {"run", data.run.run->number},
          {"runs", std::move(runs)},
          {"requests", std::move(table)},
          {"requests_left_out", data.rows_left_out},
          {"maps", std::move(maps)},
          {"maps_left_out", data.requests_left_out},
          {"types_left_out", data.types_left_out},
          {"bytes", std::move(bytes)},
          {"totals", totals_json(data.totals)},
          {"history", history_json(data.run.run->hooks, *data.history)},
          {"findings", data.findings.size()}};
}

}  // namespace graphtap::cli
