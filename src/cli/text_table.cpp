#include "cli/text_table.hpp"

#include <algorithm>

namespace graphtap::cli {

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(text_width(column.head));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i) {
      widths[i] = std::max(widths[i], text_width(row[i]));
    }
  }
  std::string text;
  const auto line = [&](const auto& cell) {
    std::string made(indent, ' ');
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string content = cell(i);
      const std::string padding(widths[i] - text_width(content), ' ');
      made += columns_[i].right ? padding + content : content + padding;
      if (i + 1 < columns_.size()) made += "  ";
    }
    made.erase(made.find_last_not_of(' ') + 1);
    text += made + '\n';
  };
  line([&](std::size_t i) { return columns_[i].head; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return i < row.size() ? row[i] : std::string(); });
  }
  return text;
}

}  // namespace graphtap::cli
