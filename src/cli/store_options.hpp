#pragma once
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "graphtap/store_sink.hpp"

namespace graphtap::cli {

/// How a store is written, as typed.
struct StoreWords {
  std::string durability = "process", sync_interval = "1s", segment = "256MiB";
  std::string when_full = "refuse";
  std::optional<std::string> retain, retain_age, keep_free;
};

void add_store_options(CLI::App& app, StoreWords& words);
/// Errors are thrown as Error(invalid_argument).
[[nodiscard]] StoreOptions read_store_options(const StoreWords& words);

}  // namespace graphtap::cli
