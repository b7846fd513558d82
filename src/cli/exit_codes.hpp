#pragma once
#include <span>
#include <string_view>

#include "graphtap/status.hpp"

namespace graphtap::cli {

/// How the command ends. Scripts rely on the numbers: docs/exit-codes.md repeats them, a test
/// compares.
enum class Exit : int {
  ok = 0,
  damaged = 1,
  usage = 2,
  not_found = 3,
  unavailable = 4,
  unsupported = 5,
  corrupt = 6,
  exhausted = 7,
  timeout = 8,
  io_error = 9,
  device = 10,
  internal = 70,
  interrupted = 130,
};

struct ExitMeaning {
  Exit exit;
  std::string_view name;
  std::string_view meaning;
};

/// Every exit code, in rising order.
[[nodiscard]] std::span<const ExitMeaning> exit_meanings() noexcept;
[[nodiscard]] Exit exit_for(Code code) noexcept;

}  // namespace graphtap::cli
