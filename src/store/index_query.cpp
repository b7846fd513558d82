#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <map>
#include <optional>
#include <system_error>

#include "base/near_match.hpp"
#include "graphtap/store_sql.hpp"
#include "store/index_rows.hpp"
#include "store/lock.hpp"
#include "store/sqlite.hpp"
#include "store/store_core.hpp"

namespace graphtap {
namespace {

using store::Database;
using store::Statement;

constexpr const char* kRemedy = "`graphtap index` builds it anew";
constexpr std::size_t kShown = 40;  // characters of a statement, where an error is in it

constexpr std::array<std::string_view, 5> kPragmas{"table_info", "table_xinfo", "table_list",
                                                   "index_list", "index_info"};

/// Lets statements read and compute, and nothing else.
int allow_reading(void*, int action, const char* first, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      return std::find(kPragmas.begin(), kPragmas.end(), first ? first : "") != kPragmas.end()
                 ? SQLITE_OK
                 : SQLITE_DENY;
    default:
      return SQLITE_DENY;
  }
}

Status lock_down(Database& db) {
  sqlite3_db_config(db.handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db.handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (Status s = db.run("PRAGMA query_only = 1"); !s.ok()) return s;
  // The first use of a pragma as a table declares that table, which looks like a change.
  for (const std::string_view pragma : kPragmas) {
    const std::string sql = fmt::format("SELECT 1 FROM pragma_{} LIMIT 0", pragma);
    if (Status s = db.run(sql.c_str()); !s.ok()) return s;
  }
  sqlite3_set_authorizer(db.handle(), allow_reading, nullptr);
  return {};
}

/// Why the index may lack something, found out without going through its rows.
std::string staleness(Database& db, const StoreCore& core, bool live) {
  Result<Statement> ask = Statement::prepare(db, "SELECT key, value FROM about");
  if (!ask.ok()) return fmt::format("it cannot be read ({}); {}", ask.status().message(), kRemedy);
  std::map<std::string, std::string> about;
  while (ask.value().next()) about[ask.value().text(0)] = ask.value().text(1);
  if (about["store"] != store::to_hex(core.manifest().store_id)) {
    return fmt::format("it is another store's; {}", kRemedy);
  }
  if (about["version"] != std::to_string(store::kIndexVersion)) {
    return fmt::format("it is of another version; {}", kRemedy);
  }
  std::map<std::uint64_t, std::uint64_t> covered;
  Result<Statement> segments = Statement::prepare(db, "SELECT segment, frames FROM segments");
  if (!segments.ok()) return fmt::format("it cannot be read; {}", kRemedy);
  while (segments.value().next()) {
    covered[segments.value().unsigned_number(0)] = segments.value().unsigned_number(1);
  }
  std::uint64_t lacking = 0;
  for (const auto& segment : core.segments().all()) {
    const std::uint64_t frames = segment->directory().frames();
    const std::uint64_t there = covered[segment->number()];
    lacking += frames > there ? frames - there : 0;
    covered.erase(segment->number());
  }
  if (!covered.empty()) {
    return fmt::format("it covers {}, which is not there any more; {}",
                       store::segment_name(covered.begin()->first), kRemedy);
  }
  if (lacking > 0 && live) {
    return fmt::format("a writer is at work, and the index is {} frames behind it", lacking);
  }
  if (lacking > 0) return fmt::format("it lacks {} frames of the segments; {}", lacking, kRemedy);
  if (!live && about["state"] != "closed") {
    return fmt::format("its writer was stopped before it closed it; {}", kRemedy);
  }
  return {};
}

bool is_empty(Database& db) {
  Result<Statement> ask = Statement::prepare(db, "SELECT 1 FROM about");
  return !ask.ok() || !ask.value().next();
}

Status sql_error(Database& db, std::string_view sql) {
  const int result = sqlite3_extended_errcode(db.handle());
  const std::string message = sqlite3_errmsg(db.handle());
  if ((result & 0xff) == SQLITE_AUTH) {
    return {Code::invalid_argument,
            fmt::format("SQL: {}: a query only reads; it cannot change, attach or configure "
                        "anything",
                        message)};
  }
  if ((result & 0xff) != SQLITE_ERROR) return db.error("reading");
  const int offset = sqlite3_error_offset(db.handle());
  if (offset < 0 || static_cast<std::size_t>(offset) > sql.size()) {
    return {Code::invalid_argument, fmt::format("SQL: {}", message)};
  }
  const auto at = static_cast<std::size_t>(offset);
  return {Code::invalid_argument, fmt::format("SQL: {}, at character {}: {}", message, at + 1,
                                              in_quotes(sql.substr(at, kShown)))};
}

SqlValue value_of(sqlite3_stmt* statement, int column) {
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
      return std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
    }
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, column));
      return std::vector<std::byte>(bytes, bytes + size);
    }
    default:
      return std::monostate{};
  }
}

Status run(Database& db, std::string_view sql, const std::function<bool(const SqlRow&)>& on_row,
           SqlReport& report) {
  if (sql.size() > static_cast<std::size_t>(INT_MAX)) {
    return {Code::invalid_argument, "SQL: the statement exceeds 2 GiB"};
  }
  sqlite3_stmt* prepared = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(db.handle(), sql.data(), static_cast<int>(sql.size()), &prepared, &rest) !=
      SQLITE_OK) {
    return sql_error(db, sql);
  }
  const std::unique_ptr<sqlite3_stmt, store::SqliteClose> statement(prepared);
  if (!statement) return {Code::invalid_argument, "SQL: there is no statement"};
  const auto used = static_cast<std::size_t>(rest - sql.data());
  if (const std::size_t next = sql.find_first_not_of(" \t\r\n;", used);
      next != std::string_view::npos && !sql.substr(next).starts_with("--")) {
    return {Code::invalid_argument,
            fmt::format("SQL: one statement at a time; a second one begins at character {}: {}",
                        next + 1, in_quotes(sql.substr(next, kShown)))};
  }
  const int columns = sqlite3_column_count(prepared);
  for (int i = 0; i < columns; ++i) report.columns.emplace_back(sqlite3_column_name(prepared, i));
  std::vector<SqlValue> values(report.columns.size());
  for (;;) {
    const int result = sqlite3_step(prepared);
    if (result == SQLITE_DONE) return {};
    if (result != SQLITE_ROW) return sql_error(db, sql);
    for (int i = 0; i < columns; ++i) values[static_cast<std::size_t>(i)] = value_of(prepared, i);
    if (!on_row({report.columns, values})) {
      report.more = true;
      return {};
    }
    ++report.rows;
  }
}

}  // namespace

Result<SqlReport> query_index(const std::filesystem::path& store, std::string_view sql,
                              const std::function<bool(const SqlRow&)>& on_row) {
  StoreCore core(store::Layout{store}, {ReadOptions::Check::never});
  const bool live = store::WriterLock::holder(core.layout()).has_value();
  if (Status s = core.load(); !s.ok()) return s;
  const std::filesystem::path path = core.layout().index();
  std::error_code error;
  const Status just_begun(Code::unavailable,
                          fmt::format("{} is not filled yet: its writer has only just begun, and "
                                      "the index follows within a second",
                                      path.string()));
  if (!std::filesystem::exists(path, error)) {
    if (live) return just_begun;
    return Status(Code::not_found, fmt::format("{} is not there; {}", path.string(), kRemedy));
  }
  SqlReport report;
  std::filesystem::path log = path;
  log += "-wal";
  const bool left_open = !live && std::filesystem::exists(log, error);
  Result<Database> db = Database::open_for_reading(path, live);
  if (!db.ok()) return db.status();
  if (live && is_empty(db.value())) return just_begun;
  if (left_open) {
    // Part of it lies in SQLite's log, and to read that would be to change the directory.
    report.stale = fmt::format("it was left open by a writer that was stopped; {}", kRemedy);
  } else {
    report.stale = staleness(db.value(), core, live);
  }
  Status status = lock_down(db.value());
  if (status.ok()) status = run(db.value(), sql, on_row, report);
  if (status.ok()) return report;
  if (status.code() != Code::corrupt) return status;
  return Status(Code::corrupt, fmt::format("{}; {}", status.message(), kRemedy));
}

}  // namespace graphtap
