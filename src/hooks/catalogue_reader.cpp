#include "hooks/catalogue_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/near_match.hpp"

namespace graphtap {
namespace {

using Json = nlohmann::json;

/// Reads the fields of one object and keeps the first error.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fail("must be an object");
  }

  void only(std::span<const std::string_view> known) {
    if (!status_.ok()) return;
    for (const auto& item : json_.items()) {
      if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
        return fail(fmt::format("unknown field {}{}", in_quotes(item.key()),
                                did_you_mean(item.key(), known)));
      }
    }
  }

  std::string text(const char* key, bool required) {
    const Json* field = get(key, required);
    if (!field) return {};
    if (!field->is_string()) return fail_as(key, "a text"), std::string{};
    return field->get<std::string>();
  }

  std::vector<std::string> texts(const char* key, bool required) {
    const Json* field = get(key, required);
    if (!field) return {};
    std::vector<std::string> values;
    if (field->is_array()) {
      for (const Json& value : *field) {
        if (value.is_string()) values.push_back(value.get<std::string>());
      }
    }
    if (!field->is_array() || values.size() != field->size()) fail_as(key, "a list of texts");
    return values;
  }

  bool flag(const char* key) {
    const Json* field = get(key, false);
    if (!field) return false;
    if (!field->is_boolean()) return fail_as(key, "true or false"), false;
    return field->get<bool>();
  }

  int number(const char* key) {
    const Json* field = get(key, false);
    if (!field) return -1;
    // A negative number is stored as signed, so "unsigned" also means not negative.
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > 65'535) {
      return fail_as(key, "a number from 0 to 65535"), -1;
    }
    return static_cast<int>(field->get<std::uint64_t>());
  }

  /// The place of the field's text among `words`, or of `fallback` when the field may be left out.
  std::size_t choice(const char* key, std::span<const std::string_view> words,
                     std::optional<std::size_t> fallback) {
    const Json* field = get(key, !fallback);
    if (!field) return fallback.value_or(0);
    const std::string word = field->is_string() ? field->get<std::string>() : std::string{};
    const auto it = std::find(words.begin(), words.end(), word);
    if (it == words.end()) {
      fail_as(key, fmt::format("one of {}", fmt::join(words, ", ")));
      return 0;
    }
    return static_cast<std::size_t>(it - words.begin());
  }

  void fail(std::string_view why) {
    if (status_.ok()) status_ = Status(Code::invalid_argument, fmt::format("{}: {}", where_, why));
  }

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const Json* get(const char* key, bool required) {
    if (!status_.ok()) return nullptr;
    const auto it = json_.find(key);
    if (it != json_.end()) return &*it;
    if (required) fail(fmt::format("the field {} is missing", in_quotes(key)));
    return nullptr;
  }

  void fail_as(const char* key, std::string_view what) {
    fail(fmt::format("the field {} must be {}", in_quotes(key), what));
  }

  const Json& json_;
  std::string where_;
  Status status_;
};

std::string place(std::string_view origin, const char* list, std::size_t index, const Json& json) {
  const auto name = json.is_object() ? json.find("name") : json.end();
  const bool named = json.is_object() && name != json.end() && name->is_string();
  return named ? fmt::format("{}: {}[{}] {}", origin, list, index,
                             in_quotes(name->get<std::string>()))
               : fmt::format("{}: {}[{}]", origin, list, index);
}

Result<HookType> read_type(const Json& json, const std::string& where) {
  static constexpr std::array<std::string_view, 10> kKnown{
      "name", "aliases", "transformer_lens", "description", "shape", "number", "scope",
      "rows", "stage",   "sharded"};
  static constexpr std::array<std::string_view, 2> kScopes{"layer", "global"};
  static constexpr std::array<std::string_view, 4> kRows{"tokens", "requests", "experts", "fixed"};
  static constexpr std::array<std::string_view, 3> kStages{"any", "first", "last"};
  Fields fields(json, where);
  fields.only(kKnown);
  HookType type;
  type.name = fields.text("name", true);
  type.aliases = fields.texts("aliases", false);
  type.transformer_lens = fields.text("transformer_lens", false);
  type.description = fields.text("description", true);
  type.shape = fields.texts("shape", true);
  type.number = fields.number("number");
  type.scope = static_cast<Scope>(fields.choice("scope", kScopes, std::nullopt));
  type.rows = static_cast<RowBasis>(fields.choice("rows", kRows, std::nullopt));
  type.stage = static_cast<Stage>(fields.choice("stage", kStages, 0));
  type.sharded = fields.flag("sharded");
  if (type.scope == Scope::layer && !type.transformer_lens.empty() &&
      type.transformer_lens.find("{layer}") == std::string::npos) {
    fields.fail("the field \"transformer_lens\" of a hook with layers must hold {layer}");
  }
  if (!fields.status().ok()) return fields.status();
  return type;
}

Result<Preset> read_preset(const Json& json, const std::string& where) {
  static constexpr std::array<std::string_view, 3> kKnown{"name", "selection", "description"};
  Fields fields(json, where);
  fields.only(kKnown);
  Preset preset;
  preset.name = fields.text("name", true);
  preset.selection = fields.text("selection", true);
  preset.description = fields.text("description", true);
  if (!fields.status().ok()) return fields.status();
  return preset;
}

template <class Entry, class Read>
Status read_list(const Json& json, const char* key, std::string_view origin, Read read,
                 std::vector<std::pair<Entry, std::string>>& out) {
  const auto list = json.find(key);
  if (list == json.end()) return {};
  if (!list->is_array()) {
    return {Code::invalid_argument, fmt::format("{}: {} must be a list", origin, in_quotes(key))};
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string where = place(origin, key, i, (*list)[i]);
    Result<Entry> entry = read((*list)[i], where);
    if (!entry.ok()) return entry.status();
    out.emplace_back(std::move(entry).value(), where);
  }
  return {};
}

}  // namespace

Result<CatalogueFile> read_catalogue(std::string_view text, std::string_view origin) {
  static constexpr std::array<std::string_view, 2> kLists{"types", "presets"};
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, …": the number helps nobody.
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != std::string_view::npos)
      what.remove_prefix(end + 2);
    return Status(Code::invalid_argument, fmt::format("{}: not JSON: {}", origin, what));
  }
  Fields file(json, std::string(origin));
  file.only(kLists);
  if (!file.status().ok()) return file.status();
  CatalogueFile result;
  if (Status s = read_list(json, "types", origin, read_type, result.types); !s.ok()) return s;
  if (Status s = read_list(json, "presets", origin, read_preset, result.presets); !s.ok()) return s;
  return result;
}

}  // namespace graphtap
