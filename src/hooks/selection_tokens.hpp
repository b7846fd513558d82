#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace graphtap {

enum class TokenKind {
  name,    // a letter or '_', then letters, digits, '_', '-', '.'
  number,  // digits only
  star,
  comma,
  semicolon,
  colon,
  minus,
  at,
  equals,
  stray,  // anything else, as much of it as a person would call one word
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  std::size_t offset = 0;  ///< in bytes from the start of the selection
};

/// Cuts a selection into words and signs; the last token is `end`. The views point into `text`.
[[nodiscard]] std::vector<Token> tokenize(std::string_view text);

}  // namespace graphtap
