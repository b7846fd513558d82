#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtap/catalogue.hpp"

namespace graphtap {

/// A catalogue file read but not yet compared with the names that exist: each entry with the words
/// that say where it stands, for messages.
struct CatalogueFile {
  std::vector<std::pair<HookType, std::string>> types;
  std::vector<std::pair<Preset, std::string>> presets;
};

/// Errors: invalid_argument for malformed JSON, or a missing, unknown or ill-typed field.
[[nodiscard]] Result<CatalogueFile> read_catalogue(std::string_view json, std::string_view origin);

}  // namespace graphtap
