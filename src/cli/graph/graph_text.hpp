#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/graph/graph_run.hpp"

namespace graphtap::cli {

/// What the decoder is, for people; before the first tier.
[[nodiscard]] std::string graph_head_text(const GraphOptions& options, const HookTable& table);
/// One tier: what it does, a line for each phase, totals.
[[nodiscard]] std::string graph_tier_text(const GraphTierResult& result);
/// How to read it, and the verdict.
[[nodiscard]] std::string graph_end_text(const std::vector<GraphTierResult>& results);

[[nodiscard]] nlohmann::json graph_json(const GraphOptions& options, const Schedule& schedule,
                                        const std::vector<GraphTierResult>& results);

}  // namespace graphtap::cli
