#include "store/run_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace graphtap::store {
namespace {

using Json = nlohmann::json;
constexpr std::array<std::string_view, 4> kBases{"tokens", "requests", "experts", "fixed"};
constexpr std::array<std::string_view, 2> kScopes{"layer", "global"};
constexpr std::array<std::string_view, 3> kStages{"any", "first", "last"};

/// In the form that Catalogue::extend() reads, so that a type of the user's own comes back as one.
Json type_json(const HookType& type) {
  Json json{{"name", type.name},
            {"aliases", type.aliases},
            {"description", type.description},
            {"shape", type.shape},
            {"scope", kScopes.at(static_cast<std::size_t>(type.scope))},
            {"rows", kBases.at(static_cast<std::size_t>(type.rows))},
            {"stage", kStages.at(static_cast<std::size_t>(type.stage))},
            {"sharded", type.sharded}};
  if (!type.transformer_lens.empty()) json["transformer_lens"] = type.transformer_lens;
  if (type.number >= 0) json["number"] = type.number;
  return json;
}

Json hook_json(const Hook& hook) {
  Json json{{"name", hook.name},        {"type", hook.type},
            {"layer", hook.layer},      {"dtype", to_string(hook.dtype)},
            {"shape", hook.row_shape},  {"rows", kBases.at(static_cast<std::size_t>(hook.rows))},
            {"ordinals", hook.ordinals}};
  if (hook.rows == RowBasis::fixed) json["fixed_rows"] = hook.fixed_rows;
  return json;
}

/// Reads fields of the stored JSON; throws std::runtime_error that names the field.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("is not an object");
  }
  [[nodiscard]] const Json& at(const char* key) const {
    const auto field = json_.find(key);
    if (field == json_.end()) fail(fmt::format("lacks the field \"{}\"", key));
    return *field;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& field = at(key);
    if (!field.is_string()) fail(fmt::format("field \"{}\" is not a text", key));
    return field.get<std::string>();
  }
  [[nodiscard]] std::int64_t number(const char* key, std::int64_t least, std::int64_t most) const {
    return in_range(at(key), key, least, most);
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(const char* key, std::int64_t least,
                                                  std::int64_t most) const {
    const Json& field = at(key);
    if (!field.is_array()) fail(fmt::format("field \"{}\" is not a list", key));
    std::vector<std::int64_t> values;
    for (const Json& value : field) values.push_back(in_range(value, key, least, most));
    return values;
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(where_ + " " + why);
  }

 private:
  [[nodiscard]] std::int64_t in_range(const Json& value, const char* key, std::int64_t least,
                                      std::int64_t most) const {
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max());
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
      fail(fmt::format("field \"{}\" is not a number from {} to {}", key, least, most));
    }
    return value.get<std::int64_t>();
  }
  const Json& json_;
  std::string where_;
};

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Hook read_hook(const Json& json, std::size_t id) {
  const Fields fields(json, fmt::format("hook {}", id));
  Hook hook;
  hook.id = static_cast<HookId>(id);
  hook.name = fields.text("name");
  hook.type = fields.text("type");
  hook.layer = static_cast<int>(fields.number("layer", -1, std::numeric_limits<int>::max()));
  const std::optional<DType> dtype = parse_dtype(fields.text("dtype"));
  if (!dtype) fields.fail("has an unknown dtype");
  hook.dtype = *dtype;
  hook.row_shape = fields.numbers("shape", kPerStepColumns, kMost);
  if (std::count(hook.row_shape.begin(), hook.row_shape.end(), kPerStepColumns) > 1) {
    fields.fail("has two per-step dimensions");
  }
  const auto basis = std::find(kBases.begin(), kBases.end(), fields.text("rows"));
  if (basis == kBases.end()) fields.fail("has an unknown row basis");
  hook.rows = static_cast<RowBasis>(basis - kBases.begin());
  hook.ordinals = static_cast<std::uint16_t>(fields.number("ordinals", 1, 0xffff));
  if (fields.has("fixed_rows")) {
    hook.fixed_rows = static_cast<std::uint32_t>(fields.number("fixed_rows", 1, 0xffffffff));
  }
  return hook;
}

Json ranks_json(const Ranks& ranks) {
  return {{"tensor", ranks.tensor},
          {"pipeline", ranks.pipeline},
          {"data", ranks.data},
          {"expert", ranks.expert}};
}

Ranks read_ranks(const Fields& fields) {
  const auto rank = [&](const char* key) {
    return static_cast<std::int32_t>(fields.number(key, std::numeric_limits<std::int32_t>::min(),
                                                   std::numeric_limits<std::int32_t>::max()));
  };
  return {rank("tensor"), rank("pipeline"), rank("data"), rank("expert")};
}

/// Rebuilds the table that the names of selections are looked up in. A shipped type is taken as
/// this version ships it: the records' shapes come from the stored hooks, never from here.
void rebuild_table(const Json& types, RunHeader& header) {
  Catalogue catalogue = Catalogue::builtin();
  for (const Json& type : types) {
    const auto name = type.is_object() ? type.find("name") : type.end();
    if (!type.is_object() || name == type.end() || !name->is_string()) continue;
    if (catalogue.find(name->get<std::string>())) continue;
    const Json file{{"types", Json::array({type})}};
    if (Status s = catalogue.extend(file.dump(), "the run's catalogue"); !s.ok()) {
      header.table_problem = s.message();
      return;
    }
  }
  auto table = std::make_shared<HookTable>(header.info.model, std::move(catalogue));
  for (const Hook& hook : header.info.hooks) {
    const Result<HookId> id = table->add(
        {hook.type, hook.layer, hook.dtype, hook.row_shape, hook.ordinals, hook.fixed_rows});
    if (!id.ok() || (*table)[id.value()].name != hook.name) {
      header.table_problem = id.ok() ? "a hook type was renamed" : id.status().message();
      return;
    }
  }
  header.table = std::move(table);
}

}  // namespace

std::string run_json(const RunInfo& info, const HookTable& table) {
  Json types = Json::array();
  Json hooks = Json::array();
  std::set<std::string> seen;
  for (const Hook& hook : table.hooks()) {
    hooks.push_back(hook_json(hook));
    if (!seen.insert(hook.type).second) continue;
    if (const HookType* type = table.catalogue().find(hook.type)) types.push_back(type_json(*type));
  }
  return Json{{"run", info.number},
              {"id", info.id},
              {"name", info.name},
              {"model", info.model},
              {"started_unix_ns", info.started_unix_ns},
              {"graphtap", info.graphtap_version},
              {"format", {info.format_major, info.format_minor}},
              {"ranks", ranks_json(info.ranks)},
              {"world", ranks_json(info.world)},
              {"types", std::move(types)},
              {"hooks", std::move(hooks)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RunHeader> parse_run_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  RunHeader header;
  RunInfo& info = header.info;
  try {
    const Fields run(json, "the run header");
    info.number = static_cast<std::uint32_t>(run.number("run", 1, 0xffffffff));
    info.id = run.text("id");
    info.name = run.text("name");
    info.model = run.text("model");
    info.started_unix_ns =
        run.number("started_unix_ns", std::numeric_limits<std::int64_t>::min(), kMost);
    info.graphtap_version = run.text("graphtap");
    const std::vector<std::int64_t> version = run.numbers("format", 0, 0xffff);
    if (version.size() != 2) run.fail("field \"format\" is not two numbers");
    info.format_major = static_cast<std::uint16_t>(version[0]);
    info.format_minor = static_cast<std::uint16_t>(version[1]);
    info.ranks = read_ranks(Fields(run.at("ranks"), "the run header's ranks"));
    if (run.has("world"))  // since 1.1
      info.world = read_ranks(Fields(run.at("world"), "the run header's world"));
    const Json& hooks = run.at("hooks");
    if (!hooks.is_array() || hooks.size() > 0xffff)
      run.fail("field \"hooks\" is not a list of hooks");
    std::uint32_t slot = 0;
    for (const Json& hook : hooks) {
      info.hooks.push_back(read_hook(hook, info.hooks.size()));
      info.hooks.back().first_slot = slot;
      slot += info.hooks.back().ordinals;
    }
    const Json& types = run.at("types");
    if (!types.is_array()) run.fail("field \"types\" is not a list");
    rebuild_table(types, header);
  } catch (const std::exception& error) {
    return Status(Code::corrupt, error.what());
  }
  return header;
}

}  // namespace graphtap::store
