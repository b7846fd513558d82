#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "graphtap/hook_table.hpp"
#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"

namespace graphtap::store {

/// What every segment says of its run.
struct RunHeader {
  RunInfo info;
  /// The hook table rebuilt with the types it was made from, for selections; null if it cannot be
  /// rebuilt (then `table_problem` says why): records are readable all the same.
  std::shared_ptr<const HookTable> table;
  std::string table_problem;
};

/// The run frame's JSON. `info.hooks` is not used: the hooks are the table's.
[[nodiscard]] std::string run_json(const RunInfo& info, const HookTable& table);
/// Errors: corrupt, naming the field.
[[nodiscard]] Result<RunHeader> parse_run_json(std::string_view text);

}  // namespace graphtap::store
