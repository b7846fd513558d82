#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graphtap {

/// The wording that every error about a mistyped word shares. Pure functions, thread-safe.

/// ASCII only: names of ours have no other letters.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// Damerau-Levenshtein distance (optimal string alignment: insert, delete, replace, swap
/// neighbours). Case and the choice between '-' and '_' count as equal.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Those of `known` that `word` may have meant, nearest first: within a third of its letters, or
/// beginning with it. Words of more than 64 characters have none.
[[nodiscard]] std::vector<std::string> near_matches(std::string_view word,
                                                    std::span<const std::string_view> known,
                                                    std::size_t most = 3);

/// `; did you mean "q" or "k"?`, or nothing when no known word is near.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> known);

/// The text in double quotes, fit for a message: always UTF-8; control characters, quotes and stray
/// bytes are escaped, and what exceeds `most` bytes is replaced by "...".
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t most = 80);

}  // namespace graphtap
