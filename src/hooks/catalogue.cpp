#include "graphtap/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/near_match.hpp"
#include "hooks/catalogue_json.hpp"
#include "hooks/catalogue_reader.hpp"
#include "hooks/vocabulary.hpp"

namespace graphtap {
namespace {

// Letters, digits, '_' and '-': what the selection language reads as one word.
bool is_word(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= 64 && letter(name.front()) && name.back() != '-' &&
         std::all_of(name.begin(), name.end(), inner) && name != "none";
}

Status check_name(const Catalogue& catalogue, std::string_view name, std::string_view where) {
  if (!is_word(name)) {
    return {Code::invalid_argument,
            fmt::format("{}: {} cannot be a name; a name is up to 64 letters, digits, '_' or '-', "
                        "begins with a letter, and is not \"none\"",
                        where, in_quotes(name))};
  }
  const HookType* type = catalogue.find(name);
  if (type || catalogue.find_preset(name)) {
    return {Code::invalid_argument,
            fmt::format("{}: the name {} is already taken by {}", where, in_quotes(name),
                        type ? "hook type " + in_quotes(type->name) : "a preset")};
  }
  return {};
}

}  // namespace

const char* to_string(RowBasis basis) noexcept {
  switch (basis) {
    case RowBasis::tokens:
      return "tokens";
    case RowBasis::requests:
      return "requests";
    case RowBasis::experts:
      return "experts";
    case RowBasis::fixed:
      return "fixed";
  }
  return "unknown";
}

const Catalogue& Catalogue::builtin() {
  static const Catalogue catalogue = [] {
    Catalogue shipped;
    const Status status = shipped.extend(catalogue_json(), "built-in catalogue");
    if (!status.ok()) throw Error(status);
    return shipped;
  }();
  return catalogue;
}

Status Catalogue::extend(std::string_view json, std::string_view origin) {
  Result<CatalogueFile> file = read_catalogue(json, origin);
  if (!file.ok()) return file.status();
  Catalogue next = *this;  // so that an error leaves this one as it was
  for (auto& [type, where] : file.value().types) {
    std::vector<std::string> words{type.name};
    words.insert(words.end(), type.aliases.begin(), type.aliases.end());
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (Status s = check_name(next, words[i], where); !s.ok()) return s;
      if (std::find(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i), words[i]) !=
          words.begin() + static_cast<std::ptrdiff_t>(i)) {
        return {Code::invalid_argument,
                fmt::format("{}: {} is given twice", where, in_quotes(words[i]))};
      }
    }
    if (const HookType* other = type.number < 0 ? nullptr : next.find_number(type.number)) {
      return {Code::invalid_argument, fmt::format("{}: number {} is already taken by {}", where,
                                                  type.number, in_quotes(other->name))};
    }
    next.types_.push_back(std::move(type));
  }
  for (auto& [preset, where] : file.value().presets) {
    if (Status s = check_name(next, preset.name, where); !s.ok()) return s;
    if (auto terms = expand(preset, next); !terms.ok()) {
      return {Code::invalid_argument, fmt::format("{}: {}", where, terms.status().message())};
    }
    next.presets_.push_back(std::move(preset));
  }
  *this = std::move(next);
  return {};
}

const HookType* Catalogue::find(std::string_view name) const noexcept {
  for (const HookType& type : types_) {
    if (type.name == name) return &type;
    for (const std::string& alias : type.aliases) {
      if (alias == name) return &type;
    }
  }
  return nullptr;
}

const HookType* Catalogue::find_number(int number) const noexcept {
  if (number < 0) return nullptr;
  const auto it = std::find_if(types_.begin(), types_.end(),
                               [&](const HookType& type) { return type.number == number; });
  return it == types_.end() ? nullptr : &*it;
}

const Preset* Catalogue::find_preset(std::string_view name) const noexcept {
  const auto it = std::find_if(presets_.begin(), presets_.end(),
                               [&](const Preset& preset) { return preset.name == name; });
  return it == presets_.end() ? nullptr : &*it;
}

}  // namespace graphtap
