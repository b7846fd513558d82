#include <fmt/format.h>

#include <cmath>
#include <istream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/subcommands.hpp"
#include "cli/text_table.hpp"
#include "cli/values.hpp"
#include "graphtap/store_sql.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string store;
  std::optional<std::string> sql, limit;
  bool json = false, csv = false, schema = false;
};

constexpr std::uint64_t kTableRows = 1000;  // a table is put together in memory

constexpr const char* kExamples =
    R"(The index says what is where: runs, hooks, steps, requests, gaps, one row a step. Values of tensors
are not in it (see show and export). It cannot be changed from here. SQL "-" is read from stdin.

Examples:
  graphtap query store --schema
  graphtap query store 'SELECT id, serial, prompt_tokens FROM requests'
  graphtap query store 'SELECT h.name, sum(t.bytes) AS bytes FROM hook_totals t
      JOIN hooks h USING (run, hook) GROUP BY h.name ORDER BY bytes DESC' --csv
  graphtap query store 'SELECT * FROM gap_totals' --json)";

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Json json_of(const SqlValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) {
    return std::isfinite(*number) ? Json(*number) : Json();
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value)) return hex(*bytes);
  return {};
}

std::string text_of(const SqlValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value)) return hex(*bytes);
  return "";
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// Rows as they come.
class Output {
 public:
  Output(const Options& options, Console& console) : options_(options), console_(console) {}

  void add(const SqlRow& row) {
    if (rows_++ == 0) begin(row.columns, row.values);
    if (options_.json) {
      Json json = Json::object();
      for (std::size_t i = 0; i < names_.size(); ++i) json[names_[i]] = json_of(row.values[i]);
      console_.out << (rows_ == 1 ? "[\n" : ",\n")
                   << json.dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
    std::vector<std::string> cells;
    for (const SqlValue& value : row.values) {
      const bool null = std::holds_alternative<std::monostate>(value);
      cells.push_back(options_.csv ? csv_cell(text_of(value))
                                   : (null ? "-" : one_line(text_of(value), 80)));
    }
    if (options_.csv) {
      console_.out << fmt::format("{}\n", fmt::join(cells, ","));
    } else {
      table_->add(std::move(cells));
    }
  }
  void finish(std::span<const std::string> columns) {
    if (rows_ == 0) begin(columns, {});
    if (options_.json) console_.out << (rows_ == 0 ? "[]\n" : "\n]\n");
    if (table_) console_.out << table_->text();
  }

 private:
  void begin(std::span<const std::string> columns, std::span<const SqlValue> values) {
    std::vector<TextTable::Column> heads;
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      // Two columns of a join may have one name; an object may not.
      const int nth = ++seen_[columns[i]];
      names_.push_back(nth == 1 ? columns[i] : fmt::format("{}:{}", columns[i], nth));
      const bool number = i < values.size() && (std::holds_alternative<std::int64_t>(values[i]) ||
                                                std::holds_alternative<double>(values[i]));
      heads.push_back({one_line(names_.back(), 80), number});
      cells.push_back(csv_cell(columns[i]));
    }
    if (options_.csv) {
      console_.out << fmt::format("{}\n", fmt::join(cells, ","));
    } else if (!options_.json) {
      table_.emplace(std::move(heads));
    }
  }

  const Options& options_;
  Console& console_;
  std::uint64_t rows_ = 0;
  std::map<std::string, int> seen_;
  std::vector<std::string> names_;
  std::optional<TextTable> table_;
};

Exit print_schema(const Options& options, Console& console) {
  if (options.json) {
    Json tables = Json::object();
    for (const IndexColumn& column : index_columns()) {
      tables[std::string(column.table)][std::string(column.name)] = column.meaning;
    }
    console.out << tables.dump(2) << '\n';
    return Exit::ok;
  }
  std::string_view last;
  TextTable table({{""}, {""}, {""}});
  for (const IndexColumn& column : index_columns()) {
    if (options.csv) {
      console.out << fmt::format("{},{},{}\n", column.table, column.name,
                                 csv_cell(std::string(column.meaning)));
      continue;
    }
    table.add({std::string(column.table == last ? "" : column.table), std::string(column.name),
               std::string(column.meaning)});
    last = column.table;
  }
  if (!options.csv) console.out << table.text();
  return Exit::ok;
}

Exit query(const Options& options, Console& console) {
  if (options.json && options.csv) {
    throw Error(Code::invalid_argument, "--json and --csv exclude each other");
  }
  if (options.schema && options.sql) {
    throw Error(Code::invalid_argument, "--schema takes no SQL");
  }
  if (options.schema) return print_schema(options, console);
  if (!options.sql) {
    throw Error(Code::invalid_argument,
                "SQL is lacking: what to ask (--schema shows the tables there are)");
  }
  std::string sql = *options.sql;
  if (sql == "-") sql.assign(std::istreambuf_iterator<char>(console.in), {});
  std::uint64_t limit = options.json || options.csv ? UINT64_MAX : kTableRows;
  if (options.limit) limit = parse_count("--limit", *options.limit, 1, UINT64_MAX);
  Output output(options, console);
  std::uint64_t rows = 0;
  const SqlReport report = query_index(options.store, sql, [&](const SqlRow& row) {
                             if (rows == limit) return false;
                             ++rows;
                             output.add(row);
                             return true;
                           }).value_or_throw();
  output.finish(report.columns);
  if (report.more) warn(console, fmt::format("there are more rows than --limit {}", limit));
  if (!report.stale.empty()) {
    warn(console, fmt::format("the index may lack something: {}", report.stale));
  }
  return Exit::ok;
}

}  // namespace

Action setup_query(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_optional_word(app, "SQL", options->sql, "one SELECT (SQLite)");
  add_flag(app, "--schema", options->schema, "print the tables and what each column means");
  add_flag(app, "--json", options->json, "print one JSON document: a list of objects");
  add_flag(app, "--csv", options->csv, "print comma-separated values with a head line");
  add_text(app, "--limit", options->limit, "N",
           "print at most N rows (default: 1000 as a table, else all)");
  add_examples(app, kExamples);
  return [options](Console& console) { return query(*options, console); };
}

}  // namespace graphtap::cli
