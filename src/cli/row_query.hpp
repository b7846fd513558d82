#pragma once
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "graphtap/store_reader.hpp"

namespace graphtap::cli {

/// The options by which subcommands choose rows of a store.
struct RowQueryOptions {
  std::optional<std::string> run, request, serial, tokens, layer, ordinal, ranks;
  std::string hooks;
};
void add_row_query(CLI::App& app, RowQueryOptions& options);
/// Errors (thrown): invalid_argument, naming the option.
[[nodiscard]] Query make_query(const RowQueryOptions& options);

}  // namespace graphtap::cli
