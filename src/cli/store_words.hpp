#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.hpp"
#include "graphtap/store_reader.hpp"

namespace graphtap::cli {

/// What the subcommands that read a store share.

/// Errors (thrown): those of StoreReader::open.
[[nodiscard]] std::shared_ptr<StoreReader> open_store(const std::string& directory);
/// The run called `number` ("--run 3"), or the newest. Errors (thrown): not_found, naming those
/// there are.
[[nodiscard]] const RunSummary* choose_run(const StoreSummary& store,
                                           const std::optional<std::string>& number);
/// Damage that was met, as warnings; at most ten.
void warn_of(Console& console, const std::vector<Finding>& findings);

/// "complete", "3 gaps", "unfinished".
[[nodiscard]] std::string completeness(const RequestSummary& request);
/// "5-20" with both ends included; "-" when empty.
[[nodiscard]] std::string tokens_text(const TokenRange& range);
/// What a gap of this kind means, for people.
[[nodiscard]] std::string_view explain(GapReason reason) noexcept;

}  // namespace graphtap::cli
