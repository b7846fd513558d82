#include "hooks/selection_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/near_match.hpp"
#include "hooks/vocabulary.hpp"

namespace graphtap {

std::string_view SelectionParser::Item::name() const {
  if (type) return type->name;
  return preset ? std::string_view(preset->name) : "*";
}

Status SelectionParser::run() {
  if (at(TokenKind::name) && peek().text == "none") {
    const Token word = peek();
    ++next_;
    none = true;
    return at(TokenKind::end) ? Status{} : fail(word, "\"none\" must stand alone");
  }
  if (!at(TokenKind::end) && !at(TokenKind::at)) {
    Status s = at(TokenKind::number) ? read_numeric_terms() : read_named_terms();
    if (!s.ok()) return s;
  }
  return read_sampling();
}

Status SelectionParser::read_numeric_terms() {
  do {
    if (!at(TokenKind::number)) {
      return unexpected("a hook type's number, as in \"0:24\", because the first term is a number");
    }
    const Token word = peek();
    ++next_;
    std::uint64_t number = 0;
    if (Status s = read_number(word, kMaxLayer, number); !s.ok()) return s;
    Item item{false, catalogue_.find_number(static_cast<int>(number)), nullptr, word, word.offset};
    if (!item.type) {
      return fail(word, fmt::format("no hook type has the number {}", in_quotes(word.text)));
    }
    Layers layers;
    if (accept(TokenKind::colon)) {
      int layer = 0;
      if (Status s = read_layer(layer); !s.ok()) return s;
      layers.push_back({layer, layer});
    }
    if (Status s = emit({item}, layers); !s.ok()) return s;
  } while (accept(TokenKind::comma) || accept(TokenKind::semicolon));
  return {};
}

Status SelectionParser::read_named_terms() {
  for (;;) {
    Item item;
    if (Status s = read_item(item); !s.ok()) return s;
    const bool joins =
        item.shares_layers() && (group_.empty() || group_.back().exclude == item.exclude);
    if (!joins) {
      if (Status s = close_group(); !s.ok()) return s;
    }
    if (accept(TokenKind::colon)) {
      Layers layers;
      if (Status s = read_layers(layers); !s.ok()) return s;
      std::vector<Item> items = std::exchange(group_, {});
      items.push_back(item);
      if (Status s = emit(items, layers); !s.ok()) return s;
    } else if (item.shares_layers()) {
      group_.push_back(item);
    } else if (Status s = emit({item}, {}); !s.ok()) {
      return s;
    }
    if (accept(TokenKind::semicolon)) {
      if (Status s = close_group(); !s.ok()) return s;
    } else if (!accept(TokenKind::comma)) {
      return close_group();
    }
  }
}

Status SelectionParser::read_item(Item& item) {
  item.begin = peek().offset;
  item.exclude = accept(TokenKind::minus);
  item.word = peek();
  if (accept(TokenKind::star)) return {};
  if (at(TokenKind::number)) {
    return fail(item.word, fmt::format("{} is not a hook", in_quotes(item.word.text)),
                item.exclude ? "; there are no negative layers"
                             : "; a layer needs a hook and \":\" before it, as in \"resid_pre:4\"");
  }
  if (!at(TokenKind::name)) {
    const bool empty = at(TokenKind::comma) || at(TokenKind::semicolon) || at(TokenKind::end) ||
                       at(TokenKind::at) || at(TokenKind::colon);
    return empty ? fail(item.word, "a hook is missing") : unexpected("a hook");
  }
  if (item.word.text == "none") return fail(item.word, "\"none\" must stand alone");
  item.type = catalogue_.find(item.word.text);
  if (!item.type) item.preset = catalogue_.find_preset(item.word.text);
  if (!item.type && !item.preset) return unknown(item.word);
  ++next_;
  return {};
}

Status SelectionParser::read_layers(Layers& layers) {
  std::set<std::pair<int, int>> seen;
  do {
    const Token word = peek();
    Selection::LayerRange range;
    if (Status s = read_range(range); !s.ok()) return s;
    if (!seen.emplace(range.first, range.last).second) {
      return fail(word, fmt::format("layer {} is given twice", in_quotes(word.text)));
    }
    layers.push_back(range);
    if (at(TokenKind::comma) && peek(1).kind == TokenKind::minus &&
        peek(2).kind == TokenKind::number) {
      ++next_;
      return fail(peek(), fmt::format("a negative layer, \"-{}\"", peek(1).text));
    }
    if (!at(TokenKind::comma) || peek(1).kind != TokenKind::number) return {};
    ++next_;
  } while (true);
}

Status SelectionParser::read_range(Selection::LayerRange& range) {
  if (accept(TokenKind::star)) {
    range = {0, Selection::kEveryLayer};
    return {};
  }
  const Token first = peek();
  if (Status s = read_layer(range.first); !s.ok()) return s;
  range.last = range.first;
  if (!accept(TokenKind::minus)) return {};
  if (!at(TokenKind::number)) {
    return fail(first, fmt::format("the layer range \"{}-\" lacks its end", first.text));
  }
  if (Status s = read_layer(range.last); !s.ok()) return s;
  if (range.last < range.first) {
    return fail(first,
                fmt::format("the layer range \"{}-{}\" is reversed", range.first, range.last),
                fmt::format("; write \"{}-{}\"", range.last, range.first));
  }
#if defined(GRAPHTAP_BUG_selection_range_exclusive)
  if (range.last > range.first) --range.last;
#endif
  return {};
}

Status SelectionParser::read_layer(int& layer) {
  const Token word = peek();
  if (at(TokenKind::minus) && peek(1).kind == TokenKind::number) {
    return fail(word, fmt::format("a negative layer, \"-{}\"", peek(1).text));
  }
  if (!accept(TokenKind::number)) return unexpected("a layer, a range such as 24-27, or \"*\"");
  std::uint64_t number = 0;
  if (Status s = read_number(word, kMaxLayer, number); !s.ok()) return s;
  layer = static_cast<int>(number);
  return {};
}

Status SelectionParser::read_number(const Token& token, std::uint64_t most,
                                    std::uint64_t& value) const {
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error != std::errc{} || stop != end || value > most) {
    return fail(token,
                fmt::format("{} is too large (the most is {})", in_quotes(token.text), most));
  }
  return {};
}

Status SelectionParser::read_sampling() {
  std::set<std::string_view> seen;
  while (accept(TokenKind::at)) {
    const Token word = peek();
    if (!accept(TokenKind::name)) return unexpected("a word such as \"@decode\" or \"@every=4\"");
    if (!seen.insert(word.text).second) {
      return fail(word, fmt::format("\"@{}\" is given twice", word.text));
    }
    Status s;
    if (word.text == "decode" || word.text == "prefill") {
      if (sampling.phase != Sampling::Phase::any) {
        s = fail(word, "\"@decode\" and \"@prefill\" exclude each other");
      }
      sampling.phase = word.text == "decode" ? Sampling::Phase::decode : Sampling::Phase::prefill;
    } else if (word.text == "every") {
      s = read_stride(word, sampling.every_step);
    } else if (word.text == "every-request") {
      s = read_stride(word, sampling.every_request);
    } else {
      static constexpr std::string_view kWords[] = {"decode", "prefill", "every", "every-request"};
      s = fail(word, fmt::format("unknown sampling \"@{}\"", word.text),
               did_you_mean(word.text, kWords));
    }
    if (!s.ok()) return s;
  }
  if (at(TokenKind::end)) return {};
  return seen.empty() ? unexpected("\",\", \";\", \"@\" or the end")
                      : unexpected("\"@\" or the end, because sampling comes last");
}

Status SelectionParser::read_stride(const Token& word, std::uint32_t& stride) {
  if (!accept(TokenKind::equals) || !at(TokenKind::number)) {
    return unexpected(fmt::format("a number, as in \"@{}=4\"", word.text));
  }
  const Token number = peek();
  ++next_;
  std::uint64_t value = 0;
  if (Status s = read_number(number, std::numeric_limits<std::uint32_t>::max(), value); !s.ok()) {
    return s;
  }
  if (value == 0) return fail(number, fmt::format("\"@{}=0\" would take nothing", word.text));
  stride = static_cast<std::uint32_t>(value);
  return {};
}

Status SelectionParser::close_group() {
  for (const Item& item : std::exchange(group_, {})) {
    if (Status s = emit({item}, {}); !s.ok()) return s;
  }
  return {};
}

Status SelectionParser::emit(const std::vector<Item>& items, const Layers& layers) {
  const Token& before = tokens_[next_ - 1];
  const Item& last = items.back();
  const std::size_t end = layers.empty() ? last.word.offset + last.word.text.size()
                                         : before.offset + before.text.size();
  const std::string_view written = text_.substr(items.front().begin, end - items.front().begin);
  Selection::Term term{items.front().exclude, {}, layers, std::string(written), {}};
  for (const Item& item : items) {
    if (Status s = once(item, layers); !s.ok()) return s;
    if (item.preset) return emit_preset(item, layers, written);
    if (item.type && item.type->scope == Scope::global && !layers.empty()) {
      return fail(item.word,
                  fmt::format("{} is a global hook and takes no layers", in_quotes(item.name())));
    }
    term.names.emplace_back(item.name());
  }
  terms.push_back(std::move(term));
  return {};
}

Status SelectionParser::emit_preset(const Item& item, const Layers& layers,
                                    std::string_view written) {
  Result<std::vector<Selection::Term>> expanded = expand(*item.preset, catalogue_);
  if (!expanded.ok()) return expanded.status();
  for (Selection::Term& term : expanded.value()) {
    if (!layers.empty()) {
      if (!term.layers.empty()) {
        return fail(item.word, fmt::format("the preset {} names its layers itself and takes none",
                                           in_quotes(item.word.text)));
      }
      std::erase_if(term.names, [&](const std::string& name) {
        const HookType* type = catalogue_.find(name);
        return type && type->scope == Scope::global;
      });
      if (term.names.empty()) {
        return fail(item.word,
                    fmt::format("the preset {} has global hooks only and takes no layers",
                                in_quotes(item.word.text)));
      }
      term.layers = layers;
    }
    term.exclude = item.exclude;
    term.text = written;
    terms.push_back(std::move(term));
  }
  return {};
}

Status SelectionParser::once(const Item& item, const Layers& layers) {
  std::string claim = fmt::format("{}{}", item.exclude ? "-" : "", item.name());
  for (const auto& [first, last] : layers) claim += fmt::format(":{}-{}", first, last);
  if (seen_.insert(std::move(claim)).second) return {};
  return fail(item.word, fmt::format("{} is given twice", in_quotes(item.word.text)));
}

const Token& SelectionParser::peek(std::size_t ahead) const {
  return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
}

bool SelectionParser::accept(TokenKind kind) {
  if (!at(kind)) return false;
  ++next_;
  return true;
}

Status SelectionParser::fail(const Token& token, std::string_view what,
                             std::string_view hint) const {
  return {Code::invalid_argument, fmt::format("{} (character {} of selection {}){}", what,
                                              token.offset + 1, in_quotes(text_), hint)};
}

Status SelectionParser::unexpected(std::string_view wanted) const {
  const Token& token = peek();
  const std::string what = token.kind == TokenKind::end
                               ? std::string("unexpected end")
                               : fmt::format("unexpected {}", in_quotes(token.text));
  return fail(token, what, fmt::format("; expected {}", wanted));
}

Status SelectionParser::unknown(const Token& word) const {
  std::string hint = did_you_mean(word.text, known_words(catalogue_, true));
  // "blocks.24.resid_pre" is what records are called; a selection has its own way to say it.
  constexpr std::string_view kBlocks = "blocks.";
  const std::size_t dot = word.text.find('.', kBlocks.size());
  if (word.text.starts_with(kBlocks) && dot != std::string_view::npos) {
    hint = fmt::format("; write \"{}:{}\"", word.text.substr(dot + 1),
                       word.text.substr(kBlocks.size(), dot - kBlocks.size()));
  }
  return fail(word, fmt::format("unknown hook {}", in_quotes(word.text)), hint);
}

}  // namespace graphtap
