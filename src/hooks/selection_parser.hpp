#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/selection.hpp"
#include "hooks/selection_tokens.hpp"

namespace graphtap {

/// One pass over the tokens of a selection. Used once: run(), then read the results.
class SelectionParser {
 public:
  /// `text` and `catalogue` must outlive the parser.
  SelectionParser(std::string_view text, const Catalogue& catalogue)
      : text_(text), catalogue_(catalogue), tokens_(tokenize(text)) {}

  Status run();

  std::vector<Selection::Term> terms;
  Sampling sampling;
  bool none = false;

 private:
  using Layers = std::vector<Selection::LayerRange>;

  /// A name as written; "*" has neither type nor preset.
  struct Item {
    bool exclude = false;
    const HookType* type = nullptr;
    const Preset* preset = nullptr;
    Token word;
    std::size_t begin = 0;  // of the text, the "-" included

    [[nodiscard]] bool shares_layers() const { return type && type->scope == Scope::layer; }
    [[nodiscard]] std::string_view name() const;
  };

  Status read_numeric_terms();
  Status read_named_terms();
  Status read_item(Item& item);
  Status read_layers(Layers& layers);
  Status read_range(Selection::LayerRange& range);
  Status read_layer(int& layer);
  Status read_number(const Token& token, std::uint64_t most, std::uint64_t& value) const;
  Status read_sampling();
  Status read_stride(const Token& word, std::uint32_t& stride);

  /// Turns names that wait for layers into terms of all layers.
  Status close_group();
  Status emit(const std::vector<Item>& items, const Layers& layers);
  Status emit_preset(const Item& item, const Layers& layers, std::string_view written);
  Status once(const Item& item, const Layers& layers);

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  [[nodiscard]] bool at(TokenKind kind) const { return peek().kind == kind; }
  bool accept(TokenKind kind);
  [[nodiscard]] Status fail(const Token& token, std::string_view what,
                            std::string_view hint = {}) const;
  [[nodiscard]] Status unexpected(std::string_view wanted) const;
  [[nodiscard]] Status unknown(const Token& word) const;

  std::string_view text_;
  const Catalogue& catalogue_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::vector<Item> group_;     // layered names of one sign, which a layer list may yet claim
  std::set<std::string> seen_;  // claims made so far
};

}  // namespace graphtap
