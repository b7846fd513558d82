#include "store/export/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace graphtap::store {
namespace {

constexpr std::size_t kLongestId = 200;  // escaped; file names end at 255

bool is_plain(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string escape_name(std::string_view part) {
  const bool dots = std::all_of(part.begin(), part.end(), [](char c) { return c == '.'; });
  std::string text;
  for (const char c : part) {
    if (is_plain(c) && !dots) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

std::optional<std::string> unescape_name(std::string_view text) {
  std::string part;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      part += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    part += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (escape_name(part) != text) return std::nullopt;
  return part;
}

std::string tensor_name(std::string_view request, std::string_view hook, std::uint16_t ordinal) {
  std::string name = fmt::format("{}/{}", request, escape_name(hook));
  if (ordinal > 0) name += fmt::format("#{}", ordinal);
  return name;
}

std::string request_part(std::string_view id, bool unique, std::uint32_t run,
                         std::uint64_t serial) {
  std::string text = escape_name(id);
  const bool fits = text.size() <= kLongestId;
  if (unique && fits && !text.empty()) return text;
  return fmt::format("{}@{}.{}", fits ? text : "", run, serial);
}

}  // namespace graphtap::store
