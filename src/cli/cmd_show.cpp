#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/row_query.hpp"
#include "cli/show_rows.hpp"
#include "cli/store_words.hpp"
#include "cli/subcommands.hpp"
#include "cli/text_table.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string store;
  RowQueryOptions query;
  std::string values = "4", limit = "100";
  bool json = false;
};

constexpr const char* kExamples =
    R"(One line a row (a token in a hook), in the order in which they were computed. min, max, mean and
norm are over all values of the row, computed in double.

Examples:
  graphtap show store --request chat-7 --hooks resid_pre:24
  graphtap show store --serial 3 --hooks attn_out,mlp_out:0-3 --tokens 10-20
  graphtap show store --hooks logits --values 8 --limit 20
  graphtap show store --request chat-7 --hooks resid_pre:24 --values 4096 --json)";

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.5g}", value) : fmt::format("{}", value);
}

std::string values_text(const ShownRow& row) {
  std::string text;
  for (const double value : row.values) text += (text.empty() ? "" : " ") + number(value);
  if (row.values.size() < row.stats.values) text += text.empty() ? "" : " …";
  return text;
}

template <class Value>
bool all_equal(const std::vector<ShownRow>& rows, Value value) {
  return std::all_of(rows.begin(), rows.end(),
                     [&](const ShownRow& row) { return value(row) == value(rows.front()); });
}

std::string rows_text(const std::vector<ShownRow>& rows) {
  if (rows.empty()) return {};
  // What all rows share is said once, above.
  const bool one_run = all_equal(rows, [](const ShownRow& r) { return r.run; });
  const bool one_request = one_run && all_equal(rows, [](const ShownRow& r) { return r.serial; });
  const bool one_hook =
      all_equal(rows, [](const ShownRow& r) { return std::pair(r.hook, r.ordinal); });
  const auto with_ordinal = [](const ShownRow& row) {
    return row.ordinal == 0 ? row.hook : fmt::format("{} (#{})", row.hook, row.ordinal);
  };
  std::string text;
  if (one_request) {
    text += fmt::format("request {} (serial {}, run {})\n", one_line(rows.front().request, 60),
                        rows.front().serial, rows.front().run);
  }
  if (one_hook) {
    text += fmt::format("{}, {} a row\n", with_ordinal(rows.front()),
                        counted(rows.front().stats.values, "value"));
  }
  TextTable table({{one_request ? "" : "request"},
                   {"token", true},
                   {one_hook ? "" : "hook"},
                   {"step", true},
                   {"norm", true},
                   {"min", true},
                   {"max", true},
                   {"mean", true},
                   {"values"},
                   {"notes"}});
  for (const ShownRow& row : rows) {
    std::string notes = row.notes;
    if (row.stats.not_finite > 0) {
      notes += fmt::format("{}{} not finite", notes.empty() ? "" : ", ", row.stats.not_finite);
    }
    const std::string request =
        one_request ? ""
                    : fmt::format("{}{} {}", one_run ? "" : fmt::format("{}/", row.run), row.serial,
                                  one_line(row.request, 24));
    table.add({request, std::to_string(row.token), one_hook ? "" : with_ordinal(row),
               fmt::format("{}{}", row.step, row.kind == StepKind::eager ? "e" : ""),
               number(row.stats.norm), number(row.stats.least), number(row.stats.most),
               number(row.stats.mean), values_text(row), notes});
  }
  return text + table.text();
}

std::string gaps_text(const ShownRows& found) {
  std::string text;
  for (const auto& [key, line] : found.gaps) {
    const std::vector<int> layers(line.layers.begin(), line.layers.end());
    text += fmt::format("gap: {}{}{}", key.first, layers.empty() ? "" : ":", ranges(layers));
    if (line.end > line.begin)
      text += fmt::format(", tokens {}", tokens_text({line.begin, line.end}));
    text += fmt::format(", {}: {} ({})\n", counted(line.count, "record"), to_string(key.second),
                        explain(key.second));
  }
  return text;
}

Json to_json(const ShownRows& found) {
  Json rows = Json::array(), gaps = Json::array();
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  for (const ShownRow& row : found.rows) {
    Json values = Json::array();
    for (const double value : row.values) values.push_back(finite(value));
    rows.push_back({{"run", row.run},
                    {"serial", row.serial},
                    {"request", one_line(row.request)},
                    {"hook", row.hook},
                    {"ordinal", row.ordinal},
                    {"token", row.token},
                    {"step", row.step},
                    {"kind", row.kind == StepKind::eager ? "eager" : "graph"},
                    {"notes", row.notes},
                    {"count", row.stats.values},
                    {"not_finite", row.stats.not_finite},
                    {"norm", finite(row.stats.norm)},
                    {"min", finite(row.stats.least)},
                    {"max", finite(row.stats.most)},
                    {"mean", finite(row.stats.mean)},
                    {"values", std::move(values)}});
  }
  for (const auto& [key, line] : found.gaps) {
    gaps.push_back({{"hook", key.first},
                    {"reason", to_string(key.second)},
                    {"layers", line.layers},
                    {"records", line.count},
                    {"tokens", {line.end > line.begin ? line.begin : 0, line.end}}});
  }
  return {{"rows", std::move(rows)}, {"further_rows", found.further}, {"gaps", std::move(gaps)}};
}

Exit show(const Options& options, Console& console) {
  const Query query = make_query(options.query);
  const std::size_t values = parse_count("--values", options.values, 0, 1u << 24);
  const std::uint64_t limit = parse_count("--limit", options.limit, 1, 10'000'000);
  const auto reader = open_store(options.store);
  const ShownRows found = find_rows(*reader, query, values, limit);
  if (options.json) {
    console.out << to_json(found).dump(2) << '\n';
  } else {
    console.out << rows_text(found.rows);
    if (found.further > 0) {
      console.out << fmt::format("{} more; narrow it down, or raise --limit\n",
                                 counted(found.further, "row"));
    }
    console.out << gaps_text(found);
    if (found.rows.empty() && found.gaps.empty()) {
      console.out
          << "nothing stored matches: no such token was captured while that hook was enabled; "
             "graphtap ls "
          << options.store << " says what was\n";
    }
  }
  warn_of(console, reader->findings());
  return found.rows.empty() && found.gaps.empty() ? Exit::not_found : Exit::ok;
}

}  // namespace

Action setup_show(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_row_query(app, options->query);
  add_text(app, "--values", options->values, "N", "print the first N values of each row");
  add_text(app, "--limit", options->limit, "N", "print at most N rows");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_examples(app, kExamples);
  return [options](Console& console) { return show(*options, console); };
}

}  // namespace graphtap::cli
