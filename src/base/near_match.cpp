#include "base/near_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace graphtap {
namespace {

constexpr std::size_t kLongestWord = 64;

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

char folded(char c) noexcept { return c == '-' ? '_' : lower(c); }

bool begins_with(std::string_view text, std::string_view start) noexcept {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) { return folded(a) == folded(b); });
}

// Bytes of the printable character at the start of `text`; 0 when it is no UTF-8, or a control
// character.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond = first == 0xf4 && second >= 0x90;
  const bool control = first == 0xc2 && second < 0xa0;
  return overlong || surrogate || beyond || control ? 0 : length;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table; the row before the last is needed for swaps.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::vector<std::string> near_matches(std::string_view word,
                                      std::span<const std::string_view> known, std::size_t most) {
  if (word.empty() || word.size() > kLongestWord) return {};
  const std::size_t limit = std::max<std::size_t>(1, word.size() / 3);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (std::string_view candidate : known) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // Words that share no letter are not near, however short they are.
    if (distance <= limit && distance < std::max(word.size(), candidate.size())) {
      near.emplace_back(distance, candidate);
    } else if (word.size() >= 3 && begins_with(candidate, word)) {
      near.emplace_back(limit + 1, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (const auto& near_word : near) {
    if (words.size() == most) break;
    // One spelling of a word is enough: "resid_pre" or "resid-pre", not both.
    const bool offered = std::any_of(words.begin(), words.end(), [&](const std::string& other) {
      return edit_distance(other, near_word.second) == 0;
    });
    if (!offered) words.emplace_back(near_word.second);
  }
  return words;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::vector<std::string> words = near_matches(word, known);
  if (words.empty()) return {};
  std::string text = "; did you mean ";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += in_quotes(words[i]);
  }
  return text + "?";
}

std::string in_quotes(std::string_view text, std::size_t most) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text.substr(at)));
    if (at + length > most) break;
    const std::string_view character = text.substr(at, length);
    const auto byte = static_cast<unsigned char>(character.front());
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += character;
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && length == 1)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += character;
    }
    at += length;
  }
  return out + (at < text.size() ? "...\"" : "\"");
}

}  // namespace graphtap
