#include "hooks/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/near_match.hpp"

namespace graphtap {
namespace {

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_name(std::vector<std::string>& to, const std::string& name) {
  if (!holds(to, name)) to.push_back(name);
}

void add_names(std::vector<std::string>& to, const std::vector<std::string>& names) {
  for (const std::string& name : names) add_name(to, name);
}

// "*" stays as it is where nothing is taken away, so that it also covers types that a model's own
// catalogue adds; otherwise it becomes the types of this catalogue.
void settle(std::vector<std::string>& names, const std::vector<std::string>& excluded,
            const Catalogue& catalogue) {
  if (holds(names, "*")) {
    if (excluded.empty()) {
      names = {"*"};
      return;
    }
    names.clear();
    for (const HookType& type : catalogue.types()) names.push_back(type.name);
  }
  if (holds(excluded, "*")) names.clear();
  std::erase_if(names, [&](const std::string& name) { return holds(excluded, name); });
}

bool same_claim(const Selection::Term& a, const Selection::Term& b) {
  return a.names == b.names && a.layers == b.layers;
}

}  // namespace

std::vector<std::string_view> known_words(const Catalogue& catalogue, bool with_presets) {
  std::vector<std::string_view> words;
  for (const HookType& type : catalogue.types()) {
    words.push_back(type.name);
    words.insert(words.end(), type.aliases.begin(), type.aliases.end());
  }
  if (with_presets) {
    for (const Preset& preset : catalogue.presets()) words.push_back(preset.name);
  }
  return words;
}

Result<std::vector<Selection::Term>> expand(const Preset& preset, const Catalogue& catalogue) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::invalid_argument,
                  fmt::format("preset {}: {}", in_quotes(preset.name), why));
  };
  Result<Selection> parsed = Selection::parse(preset.selection, catalogue);
  if (!parsed.ok()) return refuse(parsed.status().message());
  const Selection& selection = parsed.value();
  if (selection.is_none()) return refuse("it must name hooks, not \"none\"");
  if (selection.is_default()) return refuse("it must name hooks; \"*\" means all");
  if (selection.sampling() != Sampling{}) return refuse("it must not sample");

  std::vector<std::string> excluded;
  bool only_exclusions = true;
  for (const Selection::Term& term : selection.terms()) {
    if (!term.exclude) {
      only_exclusions = false;
    } else if (!term.layers.empty()) {
      return refuse(fmt::format("the exclusion {} must not name layers", in_quotes(term.text)));
    } else {
      add_names(excluded, term.names);
    }
  }
  Selection::Term everywhere;
  std::vector<Selection::Term> terms;
  if (only_exclusions) everywhere.names = {"*"};
  for (const Selection::Term& term : selection.terms()) {
    if (term.exclude) continue;
    if (term.layers.empty()) {
      add_names(everywhere.names, term.names);
      continue;
    }
    Selection::Term there{false, term.names, term.layers, {}, {}};
    settle(there.names, excluded, catalogue);
    const bool seen = std::any_of(terms.begin(), terms.end(),
                                  [&](const auto& other) { return same_claim(there, other); });
    if (!there.names.empty() && !seen) terms.push_back(std::move(there));
  }
  settle(everywhere.names, excluded, catalogue);
  if (!everywhere.names.empty()) terms.insert(terms.begin(), std::move(everywhere));
  if (terms.empty()) return refuse("its exclusions leave nothing");
  for (Selection::Term& term : terms) term.preset = preset.name;
  return terms;
}

}  // namespace graphtap
