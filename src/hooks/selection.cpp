#include "graphtap/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/near_match.hpp"
#include "hooks/selection_parser.hpp"

namespace graphtap {
namespace {

using Term = Selection::Term;
using Hooks = std::vector<const Hook*>;

Status refuse(std::string message) { return {Code::invalid_argument, std::move(message)}; }

// "0-29" or "1,3,5"
std::string layers_of(const Hooks& hooks) {
  std::set<int> layers;
  for (const Hook* hook : hooks) layers.insert(hook->layer);
  std::string text;
  for (auto it = layers.begin(); it != layers.end();) {
    const int first = *it;
    int last = first;
    while (++it != layers.end() && *it == last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

std::vector<std::string_view> types_of(const HookTable& table) {
  std::vector<std::string_view> types;
  for (const Hook& hook : table.hooks()) {
    if (std::find(types.begin(), types.end(), hook.type) == types.end()) types.push_back(hook.type);
  }
  return types;
}

Status lacks(const HookTable& table, std::string_view what, std::string_view name) {
  const std::vector<std::string_view> types = types_of(table);
  const std::string hint = did_you_mean(name, types);
  return refuse(
      fmt::format("model {} has {} {}{} This model has: {}", in_quotes(table.model()), what,
                  in_quotes(name), hint.empty() ? "." : hint,
                  types.empty() ? "no hooks" : fmt::format("{}", fmt::join(types, ", "))));
}

/// Adds the hooks of `of` (called `name` in messages) that lie in the term's layers.
Status add_layers(const HookTable& table, const Term& term, std::string_view name, const Hooks& of,
                  std::vector<HookId>& out) {
  for (const Selection::LayerRange& range : term.layers) {
    const bool open = range.last == Selection::kEveryLayer;
    if (range.first >= table.layers() || (!open && range.last >= table.layers())) {
      const int beyond = range.first >= table.layers() ? range.first : range.last;
      return refuse(fmt::format("no layer {} for {}: model {} has {}", beyond, in_quotes(term.text),
                                in_quotes(table.model()),
                                table.layers() == 0
                                    ? std::string("no layers")
                                    : fmt::format("layers 0-{}", table.layers() - 1)));
    }
    const std::size_t before = out.size();
    for (const Hook* hook : of) {
      if (hook->layer >= range.first && hook->layer <= range.last) out.push_back(hook->id);
    }
    if (out.size() == before) {
      return refuse(fmt::format(
          "{} is not at layer {}: model {} has it at {} (in {})", in_quotes(name),
          range.first == range.last ? fmt::format("{}", range.first)
                                    : fmt::format("{}-{}", range.first, range.last),
          in_quotes(table.model()), of.empty() ? std::string("none") : "layers " + layers_of(of),
          in_quotes(term.text)));
    }
  }
  return {};
}

template <class Wanted>
Hooks hooks_where(const HookTable& table, Wanted wanted) {
  Hooks hooks;
  for (const Hook& hook : table.hooks()) {
    if (wanted(hook)) hooks.push_back(&hook);
  }
  return hooks;
}

/// "*" and presets take what the model has.
Status add_what_is_there(const HookTable& table, const Term& term, bool& any,
                         std::vector<HookId>& out) {
  const bool star = term.names.front() == "*";
  const bool layered = !term.layers.empty();
  const Hooks hooks = hooks_where(table, [&](const Hook& hook) {
    return (star ||
            std::find(term.names.begin(), term.names.end(), hook.type) != term.names.end()) &&
           (!layered || hook.layer >= 0);
  });
  any = any || !hooks.empty();
  if (layered && (star || !hooks.empty())) {
    return add_layers(table, term, star ? "*" : term.preset, hooks, out);
  }
  for (const Hook* hook : hooks) out.push_back(hook->id);
  return {};
}

/// A plain name must be in the model.
Status add_named(const HookTable& table, const Term& term, std::vector<HookId>& out) {
  for (const std::string& name : term.names) {
    const Hooks hooks = hooks_where(table, [&](const Hook& hook) { return hook.type == name; });
    if (hooks.empty()) return lacks(table, "no hook", name);
    if (term.layers.empty()) {
      for (const Hook* hook : hooks) out.push_back(hook->id);
    } else if (hooks.front()->layer < 0) {
      return refuse(fmt::format("{} is a global hook and takes no layers (in {})", in_quotes(name),
                                in_quotes(term.text)));
    } else if (Status s = add_layers(table, term, name, hooks, out); !s.ok()) {
      return s;
    }
  }
  return {};
}

}  // namespace

Result<Selection> Selection::parse(std::string_view text, const Catalogue& catalogue) {
  SelectionParser parser(text, catalogue);
  if (Status s = parser.run(); !s.ok()) return s;
  Selection selection;
  selection.text_ = text;
  selection.terms_ = std::move(parser.terms);
  selection.sampling_ = parser.sampling;
  selection.none_ = parser.none;
  return selection;
}

Result<HookSet> Selection::resolve(const HookTable& table) const {
  if (is_none()) return table.none();
  if (is_default()) return table.all();
  std::vector<HookId> wanted;
  std::vector<HookId> unwanted;
  bool only_exclusions = true;
  for (std::size_t i = 0; i < terms_.size();) {
    const Term& term = terms_[i];
    std::vector<HookId>& out = term.exclude ? unwanted : wanted;
    only_exclusions = only_exclusions && term.exclude;
    if (term.preset.empty() && term.names.front() != "*") {
      if (Status s = add_named(table, term, out); !s.ok()) return s;
      ++i;
      continue;
    }
    // The terms of one preset stand together; the model must have some hook of some of them.
    bool any = false;
    do {
      if (Status s = add_what_is_there(table, terms_[i], any, out); !s.ok()) return s;
      ++i;
    } while (i < terms_.size() && !term.preset.empty() && terms_[i].preset == term.preset &&
             terms_[i].text == term.text);
    if (!any && !term.preset.empty()) return lacks(table, "no hook of the preset", term.preset);
  }
  HookSet set = only_exclusions ? table.all() : HookSet::of(table.size(), wanted);
#if !defined(GRAPHTAP_BUG_exclusion_ignored)
  set = set - HookSet::of(table.size(), unwanted);
#endif
  if (set.empty()) {
    return refuse(
        fmt::format("selection {} matches no hook of model {}; write \"none\" to mean that",
                    in_quotes(text_), in_quotes(table.model())));
  }
  return set;
}

Result<ScheduleEntry> parse_schedule_entry(std::string_view text, const Catalogue& catalogue) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return refuse(
        fmt::format("schedule entry {} lacks its step; write STEP:SELECTION, as in "
                    "\"8:resid_pre:20-29\"",
                    in_quotes(text)));
  }
  std::string_view step = text.substr(0, colon);
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!step.empty() && is_blank(step.front())) step.remove_prefix(1);
  while (!step.empty() && is_blank(step.back())) step.remove_suffix(1);
  ScheduleEntry entry;
  const auto [stop, error] = std::from_chars(step.data(), step.data() + step.size(), entry.step);
  if (error != std::errc{} || stop != step.data() + step.size()) {
    return refuse(
        fmt::format("{} is not a step number in schedule entry {}; write STEP:SELECTION, as "
                    "in \"8:resid_pre:20-29\"",
                    in_quotes(step), in_quotes(text)));
  }
  Result<Selection> selection = Selection::parse(text.substr(colon + 1), catalogue);
  if (!selection.ok()) {
    return refuse(
        fmt::format("schedule entry {}: {}", in_quotes(text), selection.status().message()));
  }
  entry.selection = std::move(selection).value();
  return entry;
}

}  // namespace graphtap
