#pragma once
#include "cli/console.hpp"
#include "cli/exit_codes.hpp"
#include "cli/run/run_options.hpp"

namespace graphtap::cli {

/// Does what `graphtap run` was asked for. engine_llama*.cpp runs it; engine_none.cpp, in builds
/// without the engine, says so. Errors are thrown.
Exit run_engine(const RunOptions& options, Console& console);

}  // namespace graphtap::cli
