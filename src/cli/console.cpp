#include "cli/console.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>

namespace graphtap::cli {
namespace {

long long now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Bytes of the well-formed UTF-8 character at the start of `text`; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xc2 && first <= 0xdf ? 2
                             : (first & 0xf0) == 0xe0         ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length == 3 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)))
    return 0;
  if (length == 4 && ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)))
    return 0;
  return length;
}

}  // namespace

void ProgressLine::show(const std::string& text, bool always) {
  if (!on_) return;
  const long long now = now_ms();
  if (!always && now - last_ms_ < 100) return;
  last_ms_ = now;
  shown_ = true;
  console_.err << "\r\x1b[2K" << text << std::flush;
}

void ProgressLine::clear() {
  if (!shown_) return;
  console_.err << "\r\x1b[2K" << std::flush;
  shown_ = false;
}

void warn(Console& console, std::string_view text) { console.err << "warning: " << text << '\n'; }

std::string one_line(std::string_view text, std::size_t most) {
  std::string line;
  std::size_t shown = 0;
  while (!text.empty()) {
    if (shown++ == most) return line + "…";
    const std::size_t bytes = character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls are terminal escapes too: U+0080 to U+009F are 0xc2 0x80 to 0xc2 0x9f.
    const bool c1 = bytes == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (text[0] == '\n') {
      line += "\\n";
    } else if (text[0] == '\t') {
      line += "\\t";
    } else if (bytes == 0 || first < 0x20 || first == 0x7f) {
      line += fmt::format("\\x{:02x}", first);
    } else if (c1) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[1]));
    } else {
      line += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return line;
}

}  // namespace graphtap::cli
