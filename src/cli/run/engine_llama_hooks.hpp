#pragma once
#include "cli/console.hpp"
#include "cli/exit_codes.hpp"
#include "cli/run/run_options.hpp"
#include "cli/schedule.hpp"
#include "llama_cpp/session.hpp"

namespace graphtap::cli {

/// Prints the hooks a model offers, by type, and those it does not and why.
Exit list_hooks(const llama::LlamaSession& session, bool json, Console& console);

/// Error(invalid_argument) if one row of some hook of the schedule could never fit the ring.
void check_ring(const RunOptions& options, const HookTable& table, const Schedule& schedule);

}  // namespace graphtap::cli
