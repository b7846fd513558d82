#pragma once
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/exit_codes.hpp"

namespace graphtap::cli {

/// The whole command: `arguments` without the program's name. Never throws; every error ends as one
/// line "graphtap: …" on console.err and an exit code.
[[nodiscard]] Exit run_command(std::vector<std::string> arguments, Console& console);

}  // namespace graphtap::cli
