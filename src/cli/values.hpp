#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/store_reader.hpp"

namespace graphtap::cli {

/// Readers of option values. `what` is the option as typed ("--ring"); errors are thrown as
/// Error(invalid_argument) and say what was given and what would be right.

[[nodiscard]] std::uint64_t parse_count(std::string_view what, std::string_view text,
                                        std::uint64_t least, std::uint64_t most);

/// "4096", "64KiB", "1.5 GiB", "8MB"; units are case-blind, "K" alone means KiB.
[[nodiscard]] std::uint64_t parse_size(std::string_view what, std::string_view text,
                                       std::uint64_t least, std::uint64_t most);

/// "200ms", "1.5s", "30m", "12h", "7d"; the unit must be there.
[[nodiscard]] std::chrono::milliseconds parse_time(std::string_view what, std::string_view text,
                                                   std::chrono::milliseconds least,
                                                   std::chrono::milliseconds most);

/// Tokens as a person writes them, both ends included: "7", "10-20", "10-" (to the last).
struct TokenSpan {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();  ///< one past the last
};
[[nodiscard]] TokenSpan parse_tokens(std::string_view what, std::string_view text);

/// "tensor=1", "tensor=0,pipeline=2": ranks by the name of their group.
[[nodiscard]] RankFilter parse_ranks(std::string_view what, std::string_view text);

/// One of `words`, which the error lists.
[[nodiscard]] std::size_t parse_word(std::string_view what, std::string_view text,
                                     const std::vector<std::string_view>& words);

/// "17 B", "4.0 KiB", "1.2 GiB".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
/// "12,345,678".
[[nodiscard]] std::string with_commas(std::uint64_t number);
/// "1 record", "2 records".
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view noun);
/// Rising numbers as ranges: "0-3,7,9-29".
[[nodiscard]] std::string ranges(const std::vector<int>& rising);
/// "2026-07-14 09:30:00" in UTC.
[[nodiscard]] std::string utc_time(std::int64_t unix_ns);

}  // namespace graphtap::cli
