#pragma once
#include <string>
#include <vector>

namespace graphtap::cli {

/// A table in plain text: two blanks between columns, numbers to the right.
class TextTable {
 public:
  struct Column {
    std::string head;
    bool right = false;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns; missing ones are empty.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// With its head, every line indented by `indent` blanks and ended.
  [[nodiscard]] std::string text(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters of well-formed UTF-8 text.
[[nodiscard]] std::size_t text_width(const std::string& text);

}  // namespace graphtap::cli
