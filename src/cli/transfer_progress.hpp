#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/console.hpp"

namespace graphtap::cli {

/// How far a long transfer is, on err: one line in place on a terminal; elsewhere, where it was
/// asked for, a line every few seconds.
class TransferProgress {
 public:
  TransferProgress(Console& console, bool asked_for)
      : console_(console), lines_(asked_for && !console.err_is_terminal), line_(console, true) {}

  struct State {
    std::uint64_t rows = 0, all_rows = 0;
    std::uint64_t bytes = 0, all_bytes = 0;
    std::uint64_t bytes_before = 0;  // that were there when it began: not part of the rate
  };
  void show(const State& state, std::string_view doing);
  void clear() { line_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  Console& console_;
  const bool lines_;
  ProgressLine line_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_line_{};
  bool at_end_ = false;
};

/// "1.0 MiB of 4.0 MiB (25%), 12 of 48 rows, 512.0 KiB/s, 6 s left".
[[nodiscard]] std::string transfer_text(const TransferProgress::State& state, double seconds);

}  // namespace graphtap::cli
