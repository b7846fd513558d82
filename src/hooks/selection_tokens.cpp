#include "hooks/selection_tokens.hpp"

namespace graphtap {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_wide(char c) { return static_cast<unsigned char>(c) >= 0x80; }  // part of a UTF-8 character

TokenKind sign(char c) {
  switch (c) {
    case '*':
      return TokenKind::star;
    case ',':
      return TokenKind::comma;
    case ';':
      return TokenKind::semicolon;
    case ':':
      return TokenKind::colon;
    case '-':
      return TokenKind::minus;
    case '@':
      return TokenKind::at;
    case '=':
      return TokenKind::equals;
    default:
      return TokenKind::stray;
  }
}

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t at = 0;
  const auto run = [&](auto belongs) {
    std::size_t end = at + 1;
    while (end < text.size() && belongs(text[end])) ++end;
    return end;
  };
  while (at < text.size()) {
    const char c = text[at];
    if (is_blank(c)) {
      ++at;
      continue;
    }
    TokenKind kind = sign(c);
    std::size_t end = at + 1;
    if (is_letter(c)) {
      kind = TokenKind::name;
      end = run([](char d) { return is_letter(d) || is_digit(d) || d == '-' || d == '.'; });
    } else if (is_digit(c)) {
      end = run(is_digit);
      kind = TokenKind::number;
      if (end < text.size() && (is_letter(text[end]) || text[end] == '.')) {
        kind = TokenKind::stray;  // "4x": neither a number nor a name
        end = run([](char d) { return is_letter(d) || is_digit(d) || d == '.'; });
      }
    } else if (is_wide(c)) {
      end = run(is_wide);
    }
    tokens.push_back({kind, text.substr(at, end - at), at});
    at = end;
  }
  tokens.push_back({TokenKind::end, {}, text.size()});
  return tokens;
}

}  // namespace graphtap
