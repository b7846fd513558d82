#include "cli/report/html_text.hpp"

#include <algorithm>

#include "cli/console.hpp"

namespace graphtap::cli {

std::string html_text(std::string_view text, std::size_t most) {
  std::string html;
  for (const char c : one_line(text, most)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string html_lines(std::string_view text, std::size_t most) {
  std::string html;
  while (most > 0) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    html += html_text(line, most);
    most -= std::min(most, line.size());
    if (end == std::string_view::npos) break;
    html += '\n';
    text.remove_prefix(end + 1);
  }
  return html;
}

}  // namespace graphtap::cli
