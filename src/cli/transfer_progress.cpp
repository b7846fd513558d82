#include "cli/transfer_progress.hpp"

#include <fmt/format.h>

#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

constexpr std::chrono::seconds kBetweenLines{5};

std::string time_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", whole / 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string transfer_text(const TransferProgress::State& state, double seconds) {
  const double done = state.all_bytes == 0
                          ? 1
                          : static_cast<double>(state.bytes) / static_cast<double>(state.all_bytes);
  std::string text = fmt::format("{} of {} ({:.0f}%), {} of {} rows", human_bytes(state.bytes),
                                 human_bytes(state.all_bytes), 100 * done, with_commas(state.rows),
                                 with_commas(state.all_rows));
  const std::uint64_t moved = state.bytes - state.bytes_before;
  if (seconds <= 0 || moved == 0) return text;
  const double rate = static_cast<double>(moved) / seconds;
  text += fmt::format(", {}/s", human_bytes(static_cast<std::uint64_t>(rate)));
  if (state.bytes < state.all_bytes) {
    text += fmt::format(", {} left",
                        time_text(static_cast<double>(state.all_bytes - state.bytes) / rate));
  }
  return text;
}

void TransferProgress::show(const State& state, std::string_view doing) {
  const auto now = Clock::now();
  const bool last = state.bytes == state.all_bytes && !at_end_;
  const bool due = last || now - last_line_ >= kBetweenLines;
  if (!console_.err_is_terminal && !(lines_ && due)) return;
  const std::string text = fmt::format(
      "{}: {}", doing, transfer_text(state, std::chrono::duration<double>(now - begin_).count()));
  if (console_.err_is_terminal) {
    line_.show(text);
  } else {
    console_.err << text << '\n' << std::flush;
    last_line_ = now;
    at_end_ = at_end_ || last;
  }
}

}  // namespace graphtap::cli
