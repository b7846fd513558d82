#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "graphtap/status.hpp"

namespace graphtap::store {

struct SqliteClose {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};

/// A connection to one SQLite file. One thread at a time.
class Database {
 public:
  enum class Mode { read, write, create };
  /// Errors: corrupt (not an SQLite file), exhausted, unavailable, io_error.
  [[nodiscard]] static Result<Database> open(const std::filesystem::path& path, Mode mode);
  /// For looking only. Without `live`, nothing beside the file is read or made, so that read-only
  /// media do; what an interrupted writer left outside the file is then not seen. Errors: as
  /// open().
  [[nodiscard]] static Result<Database> open_for_reading(const std::filesystem::path& path,
                                                         bool live);
  /// The bytes of a database file, read in memory; for fuzzing.
  [[nodiscard]] static Result<Database> from_bytes(std::string_view bytes);

  Status run(const char* sql);
  [[nodiscard]] Status error(std::string_view doing) const;
  [[nodiscard]] sqlite3* handle() const noexcept { return db_.get(); }

 private:
  Database(std::unique_ptr<sqlite3, SqliteClose> db, std::string path)
      : db_(std::move(db)), path_(std::move(path)) {}
  std::unique_ptr<sqlite3, SqliteClose> db_;
  std::string path_;
};

/// A prepared statement. Integers are stored as 64-bit signed numbers; larger ones wrap around.
class Statement {
 public:
  /// Errors as Database::error().
  [[nodiscard]] static Result<Statement> prepare(Database& db, const char* sql);

  /// Binds the values in order and runs it to the end, which must bring no rows.
  template <class... Values>
  Status run(const Values&... values) {
    bind(values...);
    return finish();
  }
  template <class... Values>
  void bind(const Values&... values) {
    sqlite3_reset(statement_.get());
    int place = 0;
    (bind_one(++place, values), ...);
  }
  /// The next row. False at the end or on an error, which status() then tells.
  bool next();
  [[nodiscard]] Status status() const;
  [[nodiscard]] std::int64_t number(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
  }
  [[nodiscard]] std::uint64_t unsigned_number(int column) const {
    return static_cast<std::uint64_t>(number(column));
  }
  [[nodiscard]] std::string text(int column) const;

 private:
  Statement(Database& db, std::unique_ptr<sqlite3_stmt, SqliteClose> statement)
      : db_(&db), statement_(std::move(statement)) {}
  template <class T>
  void bind_one(int place, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      sqlite3_bind_int64(statement_.get(), place, static_cast<std::int64_t>(value));
    } else {
      const std::string_view text = value;
      sqlite3_bind_text64(statement_.get(), place, text.data(), text.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8);
    }
  }
  Status finish();
  Database* db_;
  std::unique_ptr<sqlite3_stmt, SqliteClose> statement_;
  int result_ = SQLITE_OK;
};

}  // namespace graphtap::store
