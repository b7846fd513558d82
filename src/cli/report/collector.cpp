#include "cli/report/collector.hpp"

#include <algorithm>
#include <cmath>

#include "cli/tensor_values.hpp"

namespace graphtap::cli {
namespace {

constexpr std::size_t kMostColumns = 512;

}  // namespace

Collector::Collector(ReportData& data, const std::vector<std::string>& types,
                     std::size_t most_cells)
    : data_(data), hooks_(data.run.run->hooks), places_(hooks_.size()), countable_(hooks_.size()) {
  std::size_t rows = 0;
  for (const Hook& hook : hooks_) {
    countable_[hook.id] = hook.rows == RowBasis::tokens;
    const auto type = std::find(types.begin(), types.end(), hook.type);
    if (type != types.end() && hook.layer >= 0) {
      auto row = static_cast<std::size_t>(hook.layer);
#if defined(GRAPHTAP_BUG_report_layers_swapped)
      row = row == 1 ? 2 : row == 2 ? 1 : row;
#endif
      places_[hook.id] = {static_cast<std::size_t>(type - types.begin()), row};
      ++rows;
    }
  }
  // What leaves the last layer is the row above it.
  const auto resid = std::find(types.begin(), types.end(), "resid_pre");
  int layers = 0;
  for (const Hook& hook : hooks_) layers = std::max(layers, hook.layer + 1);
  for (const Hook& hook : hooks_) {
    if (hook.type == "resid_final" && resid != types.end()) {
      places_[hook.id] = {static_cast<std::size_t>(resid - types.begin()),
                          static_cast<std::size_t>(layers)};
      ++rows;
    }
  }
  const std::size_t lines = std::max<std::size_t>(1, rows * data.requests.size());
  const std::size_t columns = std::clamp(most_cells / lines, kFewestColumns, kMostColumns);
  for (std::size_t i = 0; i < data.requests.size(); ++i) {
    by_serial_[data.requests[i].summary.serial] = i;
    make_maps(data.requests[i], types, columns);
  }
}

void Collector::make_maps(RequestReport& request, const std::vector<std::string>& types,
                          std::size_t columns) {
  const RequestSummary& summary = request.summary;
  const TokenRange range = request.tokens;
  const std::int64_t tokens = range.end - range.begin;
  for (std::size_t type = 0; type < types.size(); ++type) {
    HeatMap map;
    map.hook = types[type];
    map.first_token = range.begin;
    map.tokens = tokens;
    map.tokens_per_column = std::max<std::int64_t>(
        1, (tokens + static_cast<std::int64_t>(columns) - 1) / static_cast<std::int64_t>(columns));
    map.columns =
        static_cast<std::size_t>((tokens + map.tokens_per_column - 1) / map.tokens_per_column);
    for (const Hook& hook : hooks_) {
      const auto& place = places_[hook.id];
      if (!place || place->map != type) continue;
      if (map.labels.size() <= place->row) map.labels.resize(place->row + 1);
      map.labels[place->row] = hook.layer >= 0 ? std::to_string(hook.layer) : "final";
    }
    map.cells.resize(map.labels.size() * map.columns);
    for (const TokenRange& part : summary.not_computed) {
      const std::int64_t begin = std::max(part.begin, map.first_token);
      const std::int64_t end = std::min(part.end, map.first_token + map.tokens);
      for (std::size_t column = 0; begin < end && column < map.columns; ++column) {
        const TokenRange held = map.range(column);
        if (held.end <= begin || held.begin >= end) continue;
        for (std::size_t row = 0; row < map.labels.size(); ++row) {
          map.cells[row * map.columns + column].state = CellState::not_computed;
        }
      }
    }
    request.maps.push_back(std::move(map));
  }
  Columns& known = columns_[summary.serial];
  known.have.resize(request.maps.front().columns);
  known.recomputed.resize(request.maps.front().columns);
}

RequestReport* Collector::find(std::uint64_t serial) {
  const auto at = by_serial_.find(serial);
  return at == by_serial_.end() ? nullptr : &data_.requests[at->second];
}

template <class Change>
void Collector::change(RequestReport& request, HookId hook, std::int64_t token, Change change) {
  const auto& place = places_[hook];
  if (!place) return;
  HeatMap& map = request.maps[place->map];
  if (token < map.first_token || token >= map.first_token + map.tokens) return;
  const auto column = static_cast<std::size_t>((token - map.first_token) / map.tokens_per_column);
  change(map, map.cells[place->row * map.columns + column]);
}

void Collector::mark(const RequestReport& request, HookId hook, std::int64_t first,
                     std::uint32_t rows, bool recomputed) {
  const HeatMap& map = request.maps.front();
  const std::int64_t begin = std::max(first, map.first_token);
  const std::int64_t end = std::min(first + rows, map.first_token + map.tokens);
  if (!countable_[hook] || begin >= end) return;
  Columns& columns = columns_[request.summary.serial];
  const auto column = [&](std::int64_t token) {
    return static_cast<std::size_t>((token - map.first_token) / map.tokens_per_column);
  };
  for (std::size_t at = column(begin); at <= column(end - 1); ++at) {
    if (columns.have[at].empty()) columns.have[at].resize(hooks_.size());
    columns.have[at][hook] = true;
    if (recomputed) columns.recomputed[at] = true;
  }
}

void Collector::take(const RecordView& record) {
  RequestReport* const request = find(record.request);
  if (!request) return;
  const HookId hook = record.hook->id;
  mark(*request, hook, record.first_token, record.rows, has(record.flags, RowFlags::recomputed));
  if (!places_[hook] || record.rejected) return;  // of drafts that were not accepted: only that
  for (std::uint32_t i = 0; i < record.rows; ++i) {
    const double norm =
        row_norm(record.hook->dtype, record.data.subspan(i * record.row_bytes, record.row_bytes));
    change(*request, hook, record.first_token + i, [norm](const HeatMap& map, Cell& cell) {
      // Of a token that was computed twice the later row counts; columns of several tokens average.
      const bool replace = cell.state != CellState::value || map.tokens_per_column == 1;
      cell.rows = replace ? 1 : cell.rows + 1;
      cell.norm = replace ? norm : cell.norm + (norm - cell.norm) / cell.rows;
      cell.state = CellState::value;
    });
  }
}

void Collector::take(const GapView& gap) {
  RequestReport* const request = find(gap.request);
  if (!request) return;
  mark(*request, gap.hook->id, gap.first_token, gap.rows, false);
  for (std::uint32_t i = 0; i < gap.rows; ++i) {
    change(*request, gap.hook->id, gap.first_token + i, [&gap](const HeatMap& map, Cell& cell) {
      // A token with a row is whole, whatever was lost when it was computed another time. In a
      // column of several tokens the loss is of another token, as a rule: it is drawn beside the
      // value.
      if (cell.state == CellState::value && map.tokens_per_column == 1) return;
      ++cell.lost;
      cell.reason = gap.reason;
#if !defined(GRAPHTAP_BUG_report_gap_drawn_as_data)
      if (cell.state != CellState::value) cell.state = CellState::gap;
#else
      cell.state = CellState::value;
#endif
    });
  }
}

void Collector::make_bands(RequestReport& request) {
  const HeatMap& map = request.maps.front();
  const auto& have = columns_[request.summary.serial].have;
  const std::vector<bool> nothing(hooks_.size());
  std::vector<const std::vector<bool>*> sets;  // in order of their first token
  for (std::size_t i = 0; i < have.size(); ++i) {
    const std::vector<bool>* const set = have[i].empty() ? &nothing : &have[i];
    const auto known =
        std::find_if(sets.begin(), sets.end(), [&](const auto* other) { return *other == *set; });
    const auto index = static_cast<std::size_t>(known - sets.begin());
    if (known == sets.end()) {
      sets.push_back(set);
      request.sets.push_back(set_in_words(hooks_, *set, countable_));
    }
    const TokenRange tokens = map.range(i);
    if (!request.bands.empty() && request.bands.back().set == index) {
      request.bands.back().tokens.end = tokens.end;
    } else {
      request.bands.push_back({tokens, index});
    }
  }
}

void Collector::make_recomputed(RequestReport& request) {
  const auto& again = columns_[request.summary.serial].recomputed;
  auto& ranges = request.recomputed;
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (!again[i]) continue;
    const TokenRange tokens = request.maps.front().range(i);
    if (!ranges.empty() && ranges.back().end == tokens.begin) {
      ranges.back().end = tokens.end;
    } else {
      ranges.push_back(tokens);
    }
  }
}

void Collector::finish() {
  for (RequestReport& request : data_.requests) {
    make_bands(request);
    make_recomputed(request);
    for (const HeatMap& map : request.maps) {
      for (const Cell& cell : map.cells) {
        if (cell.state != CellState::value || !std::isfinite(cell.norm)) continue;
        const auto [scale, first] = data_.scales.try_emplace(map.hook, cell.norm, cell.norm);
        if (first) continue;
        scale->second.first = std::min(scale->second.first, cell.norm);
        scale->second.second = std::max(scale->second.second, cell.norm);
      }
    }
  }
}

TokenRange HeatMap::range(std::size_t column) const {
  const std::int64_t begin = first_token + static_cast<std::int64_t>(column) * tokens_per_column;
  return {begin, std::min(begin + tokens_per_column, first_token + tokens)};
}

}  // namespace graphtap::cli
