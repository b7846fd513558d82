#include "store/sqlite.hpp"

#include <fmt/format.h>

#include <cstring>

namespace graphtap::store {
namespace {

constexpr int kBusyMilliseconds = 2000;

Code code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return Code::exhausted;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
      return Code::unavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // a table or column that is not there
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
      return Code::corrupt;
    default:
      return Code::io_error;
  }
}

}  // namespace

Result<Database> Database::open(const std::filesystem::path& path, Mode mode) {
  int flags = SQLITE_OPEN_READONLY;
  if (mode == Mode::write) flags = SQLITE_OPEN_READWRITE;
  if (mode == Mode::create) flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(std::unique_ptr<sqlite3, SqliteClose>(handle), path.string());
  if (result != SQLITE_OK) return db.error("opening");
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  return db;
}

Result<Database> Database::open_for_reading(const std::filesystem::path& path, bool live) {
  if (live) return open(path, Mode::read);
  std::string uri = "file:";
  for (char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  uri += "?immutable=1";
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(
      uri.c_str(), &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(std::unique_ptr<sqlite3, SqliteClose>(handle), path.string());
  if (result != SQLITE_OK) return db.error("opening");
  return db;
}

Result<Database> Database::from_bytes(std::string_view bytes) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE, nullptr);
  Database db(std::unique_ptr<sqlite3, SqliteClose>(handle), "(memory)");
  if (result != SQLITE_OK) return db.error("opening");
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size() + 1));
  if (!copy) return Status(Code::exhausted, "no memory for an index");
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  if (sqlite3_deserialize(handle, "main", copy, size, size,
                          SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY) !=
      SQLITE_OK) {
    return db.error("reading");
  }
  return db;
}

Status Database::error(std::string_view doing) const {
  const int result = db_ ? sqlite3_extended_errcode(db_.get()) : SQLITE_NOMEM;
  const char* message = db_ ? sqlite3_errmsg(db_.get()) : "out of memory";
  return {code_of(result), fmt::format("{} {}: {}", doing, path_, message)};
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return error("changing");
  return {};
}

Result<Statement> Statement::prepare(Database& db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db.handle(), sql, -1, &statement, nullptr) != SQLITE_OK)
    return db.error("reading");
  return Statement(db, std::unique_ptr<sqlite3_stmt, SqliteClose>(statement));
}

bool Statement::next() {
  result_ = sqlite3_step(statement_.get());
  return result_ == SQLITE_ROW;
}

Status Statement::status() const {
  if (result_ == SQLITE_OK || result_ == SQLITE_ROW || result_ == SQLITE_DONE) return {};
  return db_->error("reading");
}

Status Statement::finish() {
  result_ = sqlite3_step(statement_.get());
  if (result_ == SQLITE_DONE || result_ == SQLITE_ROW) {
    sqlite3_reset(statement_.get());
    return {};
  }
  const Status status = db_->error("writing");
  sqlite3_reset(statement_.get());
  return status;
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes ? std::string(reinterpret_cast<const char*>(bytes), size) : std::string{};
}

}  // namespace graphtap::store
