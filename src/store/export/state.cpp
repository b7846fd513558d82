#include "store/export/state.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "store/mapped_file.hpp"

namespace graphtap::store {

using Json = nlohmann::json;

Result<std::optional<ExportState>> ExportState::read(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) {
    if (file.status().code() == Code::not_found) return std::optional<ExportState>();
    return file.status();
  }
  const auto bytes = file.value()->bytes();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  try {
    const Json json = Json::parse(text, text + bytes.size());
    ExportState state;
    json.at("store").get_to(state.store);
    json.at("query").get_to(state.query);
    json.at("options").get_to(state.options);
    json.at("digest").get_to(state.digest);
    for (const Json& finished : json.at("finished")) {
      state.finished.push_back(
          {finished.at("name").get<std::string>(), finished.at("bytes").get<std::uint64_t>()});
    }
    return std::optional<ExportState>(std::move(state));
  } catch (const Json::exception& error) {
    return Status(Code::corrupt,
                  fmt::format("{} is no state of an export ({}): remove it to begin anew",
                              path.string(), error.what()));
  }
}

Status ExportState::write(FileOps& ops, const std::filesystem::path& path) const {
  Json files = Json::array();
  for (const Finished& file : finished)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  const Json json{{"store", store},
                  {"query", query},
                  {"options", options},
                  {"digest", digest},
                  {"finished", files}};
  return replace_file(ops, path, json.dump(1) + "\n");
}

std::string ExportState::difference(const ExportState& other) const {
  if (store != other.store) return fmt::format("it is of another store ({})", store);
  if (query != other.query) return fmt::format("it is of another query ({})", query);
  if (options != other.options) return fmt::format("it has other options ({})", options);
#ifndef GRAPHTAP_BUG_export_resumes_changed_store
  if (digest != other.digest) return "the store has changed since: the query selects other rows";
#endif
  return {};
}

}  // namespace graphtap::store
