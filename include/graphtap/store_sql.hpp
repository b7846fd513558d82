#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap {

/// NULL, a whole number, a number, a text, or bytes. Unsigned numbers of the store (tickets,
/// serials) above 2^63 come as negative ones: SQLite has 64 bits with a sign.
using SqlValue =
    std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::byte>>;

struct SqlRow {
  std::span<const std::string> columns;
  std::span<const SqlValue> values;
};

/// What can be said of an index beside its rows.
struct SqlReport {
  std::vector<std::string> columns;  ///< of the statement, also without any row
  std::uint64_t rows = 0;            ///< handed out
  bool more = false;                 ///< on_row() ended it before the last row
  std::string stale;  ///< why the index may lack something, and the remedy; empty: it is whole
};

/// Runs one SQL statement on a store's index.sqlite. It cannot change anything: the file is opened
/// read-only and everything but reading is refused. Works while a writer is at work; the index
/// follows it within a second. Calls on_row() for each row, from this thread; false ends it.
///
/// Errors: those of StoreReader::open; not_found (no index: `graphtap index` builds it);
/// invalid_argument (SQLite's message and where in the statement; something that is no query;
/// several statements); corrupt (the index is damaged), unavailable.
[[nodiscard]] Result<SqlReport> query_index(const std::filesystem::path& store,
                                            std::string_view sql,
                                            const std::function<bool(const SqlRow&)>& on_row);

/// What a column of the index means.
struct IndexColumn {
  std::string_view table;
  std::string_view name;
  std::string_view meaning;
};
/// Every column of every table, in their order.
[[nodiscard]] std::span<const IndexColumn> index_columns() noexcept;

}  // namespace graphtap
