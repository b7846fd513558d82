#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/near_match.hpp"
#include "store/export/document.hpp"

namespace graphtap::store {
namespace {

using Json = nlohmann::json;
using Why = MissingTokens::Why;

constexpr int kDeepest = 12;

/// Reads fields; throws std::runtime_error that names the field.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("is not an object");
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(where_ + " " + why);
  }
  [[nodiscard]] const Json& at(const std::string& key) const {
    const auto field = json_.find(key);
    if (field == json_.end()) fail("lacks " + in_quotes(key));
    return *field;
  }
  [[nodiscard]] std::string text(const std::string& key) const {
    if (!json_.contains(key) && json_.contains(key + "_hex")) return unhexed(key + "_hex");
    if (!at(key).is_string()) fail(in_quotes(key) + " is no text");
    return at(key).get<std::string>();
  }
  [[nodiscard]] bool flag(const std::string& key) const {
    if (!at(key).is_boolean()) fail(in_quotes(key) + " is neither true nor false");
    return at(key).get<bool>();
  }
  [[nodiscard]] std::uint64_t number(const std::string& key, std::uint64_t most) const {
    const Json& json = at(key);
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most) {
      fail(fmt::format("{} is no whole number from 0 to {}", in_quotes(key), most));
    }
    return json.get<std::uint64_t>();
  }
  [[nodiscard]] std::int64_t tokens(const std::string& key) const {
    return static_cast<std::int64_t>(number(key, INT64_MAX));
  }
  [[nodiscard]] const Json& list(const std::string& key) const {
    if (!at(key).is_array()) fail(in_quotes(key) + " is no list");
    return at(key);
  }
  [[nodiscard]] TokenRange range(const Json& json, const std::string& key) const {
    const bool right = json.is_array() && json.size() == 2 && json[0].is_number_unsigned() &&
                       json[1].is_number_unsigned() &&
                       json[0].get<std::uint64_t>() <= json[1].get<std::uint64_t>() &&
                       json[1].get<std::uint64_t>() <= INT64_MAX;
    if (!right) fail(in_quotes(key) + " is no range [begin, end) of tokens");
    return {json[0].get<std::int64_t>(), json[1].get<std::int64_t>()};
  }
  [[nodiscard]] TokenRange range(const std::string& key) const { return range(at(key), key); }
  [[nodiscard]] std::vector<TokenRange> ranges(const std::string& key) const {
    std::vector<TokenRange> all;
    for (const Json& json : list(key)) all.push_back(range(json, key));
    return all;
  }
  [[nodiscard]] DType dtype(const std::string& key) const {
    const std::optional<DType> type = parse_dtype(text(key));
    if (!type) fail(in_quotes(key) + " is no element type");
    return *type;
  }
  [[nodiscard]] bool has(const std::string& key) const { return json_.contains(key); }

 private:
  [[nodiscard]] std::string unhexed(const std::string& key) const {
    const std::string hex = at(key).is_string() ? at(key).get<std::string>() : "-";
    std::string text;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      const std::string digits = hex.substr(i, 2);
      if (digits.size() != 2 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
        fail(in_quotes(key) + " is no text in hexadecimal digits");
      }
      text += static_cast<char>(std::stoi(digits, nullptr, 16));
    }
    return text;
  }
  const Json& json_;
  std::string where_;
};

MissingTokens read_missing(const Reader& tensor, const Json& json) {
  const Reader reader(json, "an entry of \"missing\"");
  MissingTokens missing;
  missing.tokens = reader.range("tokens");
  const std::string why = reader.text("why");
  bool known = false;
  for (const Why each :
       {Why::not_captured, Why::not_computed, Why::gap, Why::rejected, Why::damaged}) {
    if (why == to_string(each)) missing.why = each, known = true;
  }
  if (!known) tensor.fail("has rows missing for an unknown reason, " + in_quotes(why));
  if (missing.why != Why::gap) return missing;
  const std::string reason = reader.text("reason");
  for (std::size_t i = 1; i < kGapReasons; ++i) {
    const auto each = static_cast<GapReason>(i);
    if (reason == to_string(each) && reason != to_string(static_cast<GapReason>(0))) {
      missing.reason = each;
      return missing;
    }
  }
  tensor.fail("has a gap of an unknown reason, " + in_quotes(reason));
}

DocumentTensor read_tensor(const std::string& name, const Json& json, const Document& document) {
  const Reader reader(json, "tensor " + in_quotes(name));
  DocumentTensor tensor;
  tensor.name = name;
  tensor.run = static_cast<std::uint32_t>(reader.number("run", UINT32_MAX));
  tensor.serial = reader.number("serial", UINT64_MAX);
  tensor.ordinal = static_cast<std::uint16_t>(reader.number("ordinal", UINT16_MAX));
  tensor.dtype = reader.dtype("dtype");
  tensor.stored_as = reader.dtype("stored_as");
  tensor.tokens = reader.range("tokens");
  if (reader.has("columns")) tensor.columns = reader.tokens("columns");
  std::int64_t at = tensor.tokens.begin;
  for (const Json& entry : reader.list("missing")) {
    tensor.missing.push_back(read_missing(reader, entry));
    const TokenRange& range = tensor.missing.back().tokens;
    if (range.begin < at || range.end > tensor.tokens.end) {
      reader.fail("has missing ranges that overlap or leave its tokens");
    }
    at = range.end;
  }
  const std::string hook = reader.text("hook");
  for (const RunHeader& run : document.runs) {
    if (run.info.number != tensor.run) continue;
    const std::optional<HookId> id = run.table->find(hook);
    if (!id) reader.fail(fmt::format("is of hook {}, which its run lacks", in_quotes(hook)));
    tensor.hook = *id;
    const Hook& known = (*run.table)[*id];
    if (known.dtype != tensor.dtype || tensor.ordinal >= known.ordinals) {
      reader.fail(
          fmt::format("is of another type or ordinal than hook {} of its run", in_quotes(hook)));
    }
    return tensor;
  }
  reader.fail(fmt::format("is of run {}, which is not described", tensor.run));
}

DocumentRequest read_request(const Json& json) {
  const Reader reader(json, "an entry of \"requests\"");
  DocumentRequest request;
  request.run = static_cast<std::uint32_t>(reader.number("run", UINT32_MAX));
  request.serial = reader.number("serial", UINT64_MAX);
  if (request.serial == 0) reader.fail("has the serial 0");
  request.id = reader.text("id");
  request.prompt_tokens = reader.tokens("prompt_tokens");
  request.finished = reader.flag("finished");
  request.valid = reader.flag("valid");
  request.not_computed = reader.ranges("not_computed");
  request.rejected = reader.ranges("rejected");
  return request;
}

/// Refuses what is nested too deep and names that are there twice, while it is parsed.
Json parse_checked(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string why;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (!why.empty()) return false;
    if (depth > kDeepest) why = "is nested too deep";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(value.get<std::string>()).second) {
      why = in_quotes(value.get<std::string>()) + " is there twice";
    }
    return why.empty();
  };
  Json json = Json::parse(text, check, false);
  if (!why.empty()) throw std::runtime_error(why);
  if (json.is_discarded()) throw std::runtime_error("is no JSON");
  return json;
}

}  // namespace

Result<Document> parse_document(std::string_view text, const std::string& file) {
  Document document;
  try {
    const Json json = parse_checked(text);
    const Reader reader(json, "it");
    if (const std::uint64_t version = reader.number("graphtap_export", UINT32_MAX);
        version != kDocumentVersion) {
      return Status(Code::unsupported,
                    fmt::format("{}: exported in version {} of the description, this is version {}",
                                file, version, kDocumentVersion));
    }
    document.store_id = reader.text("store");
    for (const Json& run : reader.list("runs")) {
      Result<RunHeader> header = parse_run_json(run.dump());
      if (!header.ok()) throw std::runtime_error("\"runs\": " + header.status().message());
      if (!header.value().table) {
        throw std::runtime_error("\"runs\": " + header.value().table_problem);
      }
      document.runs.push_back(std::move(header).value());
    }
    for (const Json& request : reader.list("requests")) {
      document.requests.push_back(read_request(request));
    }
    if (!reader.at("tensors").is_object()) reader.fail("\"tensors\" is no object");
    for (const auto& [name, tensor] : reader.at("tensors").items()) {
      document.tensors.push_back(read_tensor(name, tensor, document));
    }
  } catch (const std::exception& error) {
    return Status(
        Code::corrupt,
        fmt::format("{}: the description that graphtap wrote is damaged: {}", file, error.what()));
  }
  return document;
}

}  // namespace graphtap::store
