#include "store/export/document.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "graphtap/version.hpp"
#include "store/segment.hpp"

namespace graphtap::store {
namespace {

using Json = nlohmann::json;
using Why = MissingTokens::Why;

/// Ids are the user's and may be any bytes; JSON holds UTF-8 only.
void put_text(Json& json, const std::string& key, const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    json[key] = text;
  } catch (const Json::type_error&) {
    std::string hex;
    for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    json[key + "_hex"] = hex;
  }
}

Json range_json(const TokenRange& range) { return Json::array({range.begin, range.end}); }

Json ranges_json(const std::vector<TokenRange>& ranges) {
  Json json = Json::array();
  for (const TokenRange& range : ranges) json.push_back(range_json(range));
  return json;
}

Json ranks_json(const RankFilter& filter) {
  Json json = Json::object();
  if (filter.tensor) json["tensor"] = *filter.tensor;
  if (filter.pipeline) json["pipeline"] = *filter.pipeline;
  if (filter.data) json["data"] = *filter.data;
  if (filter.expert) json["expert"] = *filter.expert;
  return json;
}

Json query_json(const Query& query) {
  Json json = Json::object();
  if (query.run) json["run"] = *query.run;
  if (query.serial) json["serial"] = *query.serial;
  if (!query.request.empty()) put_text(json, "request", query.request);
  if (!query.hooks.empty()) put_text(json, "hooks", query.hooks);
  if (!query.type.empty()) put_text(json, "type", query.type);
  if (query.layer) json["layer"] = *query.layer;
  if (query.ordinal) json["ordinal"] = *query.ordinal;
  if (Json ranks = ranks_json(query.ranks); !ranks.empty()) json["ranks"] = std::move(ranks);
  if (query.begin > 0) json["first_token"] = query.begin;
  if (query.end != std::numeric_limits<std::int64_t>::max()) json["end_token"] = query.end;
  return json;
}

std::optional<Json> run_json_of(const RunState& run) {
  for (const RunState::Part& part : run.parts) {
    const std::string_view text = part.segment->run_json();
    if (text.empty()) continue;
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      json["run"] = run.header.info.number;
      return json;
    }
  }
  return std::nullopt;
}

Json request_json(const RunState& run, std::uint64_t serial) {
  const RequestState& state = run.requests.at(serial);
  std::vector<TokenRange> rejected;
  for (const RequestState::Rejection& rejection : state.rejections) {
    rejected.push_back(rejection.tokens);
  }
  Json json{{"run", run.header.info.number},
            {"serial", serial},
            {"prompt_tokens", state.prompt_tokens},
            {"finished", state.finished.has_value()},
            {"valid", state.finished && state.finished->valid != 0},
            {"not_computed", ranges_json(state.not_computed)},
            {"rejected", ranges_json(rejected)}};
  put_text(json, "id", state.id);
  return json;
}

Json tensor_json(const FiledTensor& filed) {
  const PlannedTensor& tensor = *filed.planned;
  Json missing = Json::array();
  for (const MissingTokens& range : tensor.missing) {
    Json json{{"tokens", range_json(range.tokens)}, {"why", to_string(range.why)}};
    if (range.why == Why::gap) json["reason"] = to_string(range.reason);
    missing.push_back(std::move(json));
  }
  Json json{{"run", tensor.run->header.info.number},
            {"serial", tensor.serial},
            {"hook", tensor.hook->name},
            {"ordinal", tensor.ordinal},
            {"dtype", to_string(tensor.hook->dtype)},
            {"stored_as", to_string(filed.stored_as)},
            {"tokens", range_json(tensor.tokens)},
            {"missing", std::move(missing)},
            {"duplicates", tensor.duplicates},
            {"rejected", tensor.rejected}};
  if (tensor.columns > 0) json["columns"] = tensor.columns;
  return json;
}

}  // namespace

std::string query_text(const Query& query) { return query_json(query).dump(); }

Result<std::string> document_text(std::string_view store_id, const Query& query,
                                  std::span<const FiledTensor> tensors) {
  Json runs = Json::array(), requests = Json::array(), entries = Json::object();
  std::set<std::uint32_t> run_numbers;
  std::set<std::pair<std::uint32_t, std::uint64_t>> request_keys;
  for (const FiledTensor& tensor : tensors) {
    const RunState& run = *tensor.planned->run;
    const std::uint32_t number = run.header.info.number;
    if (run_numbers.insert(number).second) {
      std::optional<Json> json = run_json_of(run);
      if (!json) {
        return Status(Code::corrupt, fmt::format("the description of run {} is damaged", number));
      }
      // What was asked of some ranks alone is theirs, whatever the writing process was.
      if (json->contains("ranks")) (*json)["ranks"].update(ranks_json(query.ranks));
      runs.push_back(std::move(*json));
    }
    if (request_keys.emplace(number, tensor.planned->serial).second) {
      requests.push_back(request_json(run, tensor.planned->serial));
    }
    entries[tensor.planned->name] = tensor_json(tensor);
  }
  return Json{{"graphtap_export", kDocumentVersion},
              {"graphtap", version()},
              {"store", store_id},
              {"query", query_json(query)},
              {"runs", runs},
              {"requests", requests},
              {"tensors", entries}}
      .dump();
}

}  // namespace graphtap::store
