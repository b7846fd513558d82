#include "store/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "base/near_match.hpp"
#include "store/format.hpp"

namespace graphtap::store {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kFormatName = "graphtap-store";
constexpr std::string_view kSuffix = ".gts";

Status not_ours(const Layout& layout, std::string_view why) {
  return {Code::invalid_argument,
          fmt::format("{} is not a graphtap store: {}", layout.directory.string(), why)};
}

std::optional<std::uint64_t> segment_number(std::string_view file) {
  if (!file.ends_with(kSuffix)) return std::nullopt;
  file.remove_suffix(kSuffix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), number);
  if (error != std::errc{} || end != file.data() + file.size() || number == 0) return std::nullopt;
  // Only the one spelling that the writer uses: "1.gts" beside "000001.gts" would be two of one.
  return file == fmt::format("{:06}", number) ? std::optional{number} : std::nullopt;
}

}  // namespace

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Id random_id() {
  Id id{};
  for (std::size_t i = 0; i < id.size(); i += 8) {
    std::uint64_t word = random_number();
    for (std::size_t j = 0; j < 8; ++j, word >>= 8) id[i + j] = static_cast<unsigned char>(word);
  }
  return id;
}

std::string to_hex(const Id& id) { return fmt::format("{:02x}", fmt::join(id, "")); }

std::optional<Id> id_from_hex(std::string_view text) {
  Id id{};
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, id[i], 16);
    if (error != std::errc{} || end != digits + 2) return std::nullopt;
  }
  return id;
}

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string segment_name(std::uint64_t number) { return fmt::format("segments/{:06}.gts", number); }

std::filesystem::path Layout::segment(std::uint64_t number) const {
  return directory / segment_name(number);
}

std::string manifest_text(const Manifest& manifest) {
  const Json json{{"format", kFormatName},
                  {"version", {manifest.major, manifest.minor}},
                  {"id", to_hex(manifest.store_id)},
                  {"created_unix_ns", manifest.created_unix_ns},
                  {"created_by", manifest.created_by}};
  return json.dump(2) + "\n";
}

Status newer_version(const std::filesystem::path& path, unsigned major, unsigned minor) {
  return {Code::unsupported,
          fmt::format("{}: format version {}.{} is newer than this graphtap reads ({}.x); use the "
                      "graphtap that wrote it, or a later one",
                      path.string(), major, minor, kMajor)};
}

Result<Manifest> parse_manifest(std::string_view text, const std::filesystem::path& path) {
  const auto corrupt = [&](std::string_view why) {
    return Status(Code::corrupt, fmt::format("{}: {}", path.string(), why));
  };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return corrupt("not a JSON object, though a store's manifest is one");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_string() || *format != kFormatName) {
    return Status(Code::invalid_argument, fmt::format("{}: the field \"format\" is not {}",
                                                      path.string(), in_quotes(kFormatName)));
  }
  const auto version = json.find("version");
  const auto is_number = [](const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= 0xffff;
  };
  if (version == json.end() || !version->is_array() || version->size() != 2 ||
      !is_number((*version)[0]) || !is_number((*version)[1])) {
    return corrupt("the field \"version\" is not two numbers");
  }
  Manifest manifest;
  manifest.major = (*version)[0].get<std::uint16_t>();
  manifest.minor = (*version)[1].get<std::uint16_t>();
  if (manifest.major > kMajor) return newer_version(path, manifest.major, manifest.minor);
  const auto id = json.find("id");
  const std::optional<Id> store_id =
      id != json.end() && id->is_string() ? id_from_hex(id->get<std::string>()) : std::nullopt;
  if (!store_id) return corrupt("the field \"id\" is not 32 hexadecimal digits");
  manifest.store_id = *store_id;
  if (const auto at = json.find("created_unix_ns"); at != json.end() && at->is_number_integer()) {
    manifest.created_unix_ns = at->get<std::int64_t>();
  }
  if (const auto by = json.find("created_by"); by != json.end() && by->is_string()) {
    manifest.created_by = by->get<std::string>();
  }
  return manifest;
}

Result<Manifest> read_manifest(const Layout& layout) {
  std::error_code error;
  const auto kind = std::filesystem::status(layout.directory, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return Status(Code::not_found, fmt::format("{}: no such directory", layout.directory.string()));
  }
  if (kind != std::filesystem::file_type::directory)
    return not_ours(layout, "it is not a directory");
  std::ifstream file(layout.manifest(), std::ios::binary);
  if (!file) {
    if (std::filesystem::exists(layout.manifest(), error) || error) {
      return Status(Code::io_error, fmt::format("{}: cannot be read", layout.manifest().string()));
    }
    return not_ours(layout, "it has no graphtap-store.json");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_manifest(text, layout.manifest());
}

Result<std::vector<std::uint64_t>> list_segments(const Layout& layout) {
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entries(layout.segments(), error);
  if (error == std::errc::no_such_file_or_directory) return numbers;  // made, and then interrupted
  for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
    if (const auto number = segment_number(entries->path().filename().string())) {
      numbers.push_back(*number);
    }
  }
  if (error) return system_error(error.value(), "listing", layout.segments());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Status check_free_for_store(const Layout& layout) {
  std::error_code error;
  const auto kind = std::filesystem::status(layout.directory, error).type();
  if (kind == std::filesystem::file_type::not_found) return {};
  if (kind != std::filesystem::file_type::directory)
    return not_ours(layout, "it is not a directory");
  std::filesystem::directory_iterator entries(layout.directory, error);
  for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const bool left_behind = name == "LOCK" || name == "graphtap-store.json.new" ||
                             (name == "segments" && std::filesystem::is_empty(*entries, error));
    if (!left_behind) {
      return not_ours(layout,
                      fmt::format("it holds {} and no graphtap-store.json; give a new or an "
                                  "empty directory",
                                  in_quotes(name)));
    }
  }
  if (error) return system_error(error.value(), "listing", layout.directory);
  return {};
}

}  // namespace graphtap::store
