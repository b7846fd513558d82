#include "store/export/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <system_error>

#include "base/near_match.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

namespace fs = std::filesystem;

Result<ExportTarget> ExportTarget::of(const fs::path& to, ExportFormat format) {
  ExportTarget target;
  target.extension = fmt::format(".{}", to_string(format));
  const fs::path ending = to.extension();
  std::error_code ignored;
  if (fs::is_directory(to, ignored) || ending.empty() || !to.has_filename()) {
    target.directory = to;
    target.folder = true;
    target.stem = "export";
    return target;
  }
  if (ending != target.extension) {
    const bool other = ending == ".npz" || ending == ".safetensors";
    return Status(Code::invalid_argument,
                  fmt::format("{} does not end in {}: {}", in_quotes(to.string()), target.extension,
                              other ? "it is the ending of another format"
                                    : "name a file that does, or a directory"));
  }
  target.directory = to.has_parent_path() ? to.parent_path() : fs::path(".");
  target.stem = to.stem().string();
  return target;
}

fs::path ExportTarget::at(const std::string& name) const {
  return directory == "." ? fs::path(name) : directory / name;
}
fs::path ExportTarget::file(std::size_t file, std::size_t files) const {
  if (files == 1) return at(stem + extension);
  return at(fmt::format("{}-{:05}-of-{:05}{}", stem, file + 1, files, extension));
}
fs::path ExportTarget::index() const { return at(stem + extension + ".index.json"); }
fs::path ExportTarget::state() const { return at(stem + ".graphtap-export.json"); }

Result<std::vector<fs::path>> ExportTarget::existing() const {
  static const std::regex numbers("-[0-9]{5,}-of-[0-9]{5,}");
  std::vector<fs::path> found;
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return found;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(extension) ||
        name.size() < stem.size() + extension.size()) {
      continue;
    }
    const std::string middle =
        name.substr(stem.size(), name.size() - stem.size() - extension.size());
    if (middle.empty() || std::regex_match(middle, numbers)) found.push_back(at(name));
  }
  if (error) return system_error(error.value(), "looking into", directory);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace graphtap::store
