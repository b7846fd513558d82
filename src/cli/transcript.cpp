#include "cli/transcript.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;
constexpr const char* kFormat = "graphtap-transcript";

std::filesystem::path path_of(const std::filesystem::path& store, const std::string& run_id) {
  return store / "transcripts" / (run_id + ".json");
}

// JSON strings are UTF-8, pieces of tokens are bytes: those that are no text are kept in
// hexadecimal.
Json piece_json(const std::string& piece) {
  const Json text(piece);
  try {
    (void)text.dump();
    return text;
  } catch (const Json::type_error&) {
    std::string hex;
    for (const char c : piece) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return {{"hex", hex}};
  }
}

std::string piece_from(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const std::string hex = json.at("hex").get<std::string>();
  std::string piece;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    piece += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return piece;
}

}  // namespace

Status write_transcript(const std::filesystem::path& store, const std::string& run_id,
                        const Transcript& transcript) {
  Json requests = Json::array();
  for (const auto& [serial, text] : transcript.requests) {
    Json pieces = Json::array();
    for (const std::string& piece : text.pieces) pieces.push_back(piece_json(piece));
    requests.push_back({{"serial", serial},
                        {"id", piece_json(text.id)},
                        {"prompt_tokens", text.prompt_tokens},
                        {"tokens", text.tokens},
                        {"pieces", std::move(pieces)},
                        {"finish", text.finish}});
  }
  const Json json{{"format", kFormat},
                  {"version", 1},
                  {"model", piece_json(transcript.model)},
                  {"requests", std::move(requests)}};
  const std::filesystem::path path = path_of(store, run_id);
  std::filesystem::path fresh = path;
  fresh += ".new";
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << json.dump(1) << '\n';
  file.close();
  if (file) std::filesystem::rename(fresh, path, error);
  if (!file || error) return {Code::io_error, fmt::format("{}: cannot be written", path.string())};
  return {};
}

Result<Transcript> read_transcript(const std::filesystem::path& store, const std::string& run_id) {
  const std::filesystem::path path = path_of(store, run_id);
  std::ifstream file(path, std::ios::binary);
  if (!file) return Transcript{};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat || json.at("version") != 1) {
      return Status(Code::unsupported, fmt::format("{}: another format or version", path.string()));
    }
    Transcript transcript;
    transcript.model = piece_from(json.at("model"));
    for (const Json& request : json.at("requests")) {
      RequestText& entry = transcript.requests[request.at("serial").get<std::uint64_t>()];
      entry.id = piece_from(request.at("id"));
      entry.prompt_tokens = request.at("prompt_tokens").get<std::uint64_t>();
      entry.tokens = request.at("tokens").get<std::vector<std::int32_t>>();
      for (const Json& piece : request.at("pieces")) entry.pieces.push_back(piece_from(piece));
      entry.finish = request.at("finish").get<std::string>();
    }
    return transcript;
  } catch (const std::exception& what) {
    return Status(Code::corrupt, fmt::format("{}: {}", path.string(), what.what()));
  }
}

}  // namespace graphtap::cli
