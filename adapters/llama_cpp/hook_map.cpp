#include "llama_cpp/hook_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "llama_cpp/builtin_maps.hpp"

namespace graphtap::llama {
namespace {

using Json = nlohmann::json;
constexpr int kFormat = 1;
constexpr int kMostDimensions = 4;

/// Thrown inside this file only: the path of the entry that is wrong and why.
struct Wrong {
  std::string what;
};

[[noreturn]] void wrong(std::string_view where, std::string_view why) {
  throw Wrong{fmt::format("{} {}", where, why)};
}

void only(const Json& json, std::string_view where, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) wrong(where, "must be an object");
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      wrong(where, fmt::format("has an unknown field \"{}\"; known are {}", item.key(),
                               fmt::join(known, ", ")));
    }
  }
}

std::string text(const Json& json, std::string_view where, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    wrong(where, fmt::format("needs \"{}\", a text", key));
  }
  return it->get<std::string>();
}

int number(const Json& json, std::string_view where, const char* key, int fallback, int most) {
  const auto it = json.find(key);
  if (it == json.end()) return fallback;
  if (!it->is_number_integer() || it->get<std::int64_t>() < 0 || it->get<std::int64_t>() > most) {
    wrong(where, fmt::format("needs \"{}\" to be a number from 0 to {}", key, most));
  }
  return it->get<int>();
}

const Json& list(const Json& json, std::string_view where, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array() || it->empty()) {
    wrong(where, fmt::format("needs \"{}\", a list that is not empty", key));
  }
  return *it;
}

NodePattern read_pattern(const Json& json, std::string_view where) {
  only(json, where, {"tensor", "op", "occurrence", "input", "layer"});
  NodePattern pattern;
  pattern.tensor = text(json, where, "tensor");
  pattern.op = text(json, where, "op");
  pattern.occurrence = number(json, where, "occurrence", 0, 65'535);
  pattern.input = number(json, where, "input", -1, 9);
  if (json.contains("layer")) pattern.layer = number(json, where, "layer", 0, 65'535);
  return pattern;
}

MapHook read_hook(const Json& json, std::string_view where) {
  only(json, where, {"type", "rows", "columns", "heads", "nodes"});
  MapHook hook;
  hook.type = text(json, where, "type");
  if (!json.contains("rows")) wrong(where, "needs \"rows\", the dimension that counts rows");
  hook.rows = number(json, where, "rows", 0, kMostDimensions - 1);
  hook.columns = number(json, where, "columns", -1, kMostDimensions - 1);
  if (hook.columns == hook.rows) wrong(where, "has the same dimension for rows and columns");
  if (json.contains("heads")) {
    if (!json["heads"].is_boolean()) wrong(where, "needs \"heads\" to be true or false");
    hook.heads = json["heads"].get<bool>();
  }
  const Json& nodes = list(json, where, "nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    hook.nodes.push_back(read_pattern(nodes[i], fmt::format("{}.nodes[{}]", where, i)));
  }
  return hook;
}

MapChecks read_checks(const Json& json) {
  only(json, "checks", {"tokens", "positions", "cells"});
  MapChecks checks;
  const auto read = [&json](const char* key, std::optional<NodePattern>& into) {
    if (!json.contains(key)) return;
    const std::string where = fmt::format("checks.{}", key);
    into = read_pattern(json[key], where);
    if (into->input < 0) wrong(where, "needs \"input\": a check reads a node's input");
  };
  read("tokens", checks.tokens);
  read("positions", checks.positions);
  read("cells", checks.cells);
  return checks;
}

HookMap read_map(const Json& json) {
  only(json, "the map", {"format", "name", "architectures", "checks", "hooks", "catalogue"});
  const int format = number(json, "the map", "format", 0, 65'535);
  if (format != kFormat) {
    wrong("the map", fmt::format("has format {}; this version reads format {}", format, kFormat));
  }
  HookMap map;
  map.name = text(json, "the map", "name");
  if (json.contains("architectures")) {
    for (const Json& value : list(json, "the map", "architectures")) {
      if (!value.is_string()) wrong("architectures", "must be a list of texts");
      map.architectures.push_back(value.get<std::string>());
    }
  }
  if (json.contains("checks")) map.checks = read_checks(json["checks"]);
  const Json& hooks = list(json, "the map", "hooks");
  for (std::size_t i = 0; i < hooks.size(); ++i) {
    map.hooks.push_back(read_hook(hooks[i], fmt::format("hooks[{}]", i)));
  }
  if (json.contains("catalogue")) map.catalogue = json["catalogue"].dump();
  return map;
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
}

}  // namespace

std::optional<std::string> NodePattern::name_for(int layer_index, int layers) const {
  if (layer && *layer != layer_index) return std::nullopt;
  const bool previous = tensor.find("{previous}") != std::string::npos;
  if (previous && layer_index < 1) return std::nullopt;
  if (layer_index < 0 && tensor.find("{layer}") != std::string::npos) return std::nullopt;
  std::string name = tensor;
#if defined(GRAPHTAP_BUG_llama_layer_off_by_one)
  replace(name, "{layer}", std::to_string(layer_index == 0 ? 0 : layer_index - 1));
#endif
  replace(name, "{layer}", std::to_string(layer_index));
  replace(name, "{previous}", std::to_string(layer_index - 1));
  replace(name, "{last}", std::to_string(layers - 1));
  return name;
}

Result<HookMap> HookMap::parse(std::string_view json, std::string_view origin) {
  try {
    return read_map(Json::parse(json));
  } catch (const Wrong& error) {
    return Status(Code::invalid_argument, fmt::format("hook map {}: {}", origin, error.what));
  } catch (const Json::exception& error) {
    return Status(Code::invalid_argument, fmt::format("hook map {}: {}", origin, error.what()));
  }
}

Result<HookMap> HookMap::load(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Status(Code::not_found, fmt::format("hook map {}: no such file", file.string()));
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) {
    return Status(Code::io_error, fmt::format("hook map {}: cannot be read", file.string()));
  }
  return parse(json, file.string());
}

std::optional<HookMap> HookMap::builtin(std::string_view architecture) {
  for (const std::string_view json : builtin_maps()) {
    HookMap map = parse(json, "built in").value_or_throw();
    const auto& known = map.architectures;
    if (std::find(known.begin(), known.end(), architecture) != known.end()) return map;
  }
  return std::nullopt;
}

void HookMap::extend(HookMap other) {
  name += "+" + other.name;
  for (MapHook& hook : other.hooks) {
    const auto same = std::find_if(hooks.begin(), hooks.end(),
                                   [&hook](const MapHook& mine) { return mine.type == hook.type; });
    if (same == hooks.end()) {
      hooks.push_back(std::move(hook));
    } else {
      *same = std::move(hook);
    }
  }
  if (other.checks.tokens) checks.tokens = std::move(other.checks.tokens);
  if (other.checks.positions) checks.positions = std::move(other.checks.positions);
  if (other.checks.cells) checks.cells = std::move(other.checks.cells);
  if (!other.catalogue.empty()) catalogue = std::move(other.catalogue);
}

}  // namespace graphtap::llama
