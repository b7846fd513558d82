#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "graphtap/store_export.hpp"

namespace graphtap::store {

/// Where an export puts its files.
struct ExportTarget {
  std::filesystem::path directory;
  bool folder = false;    // the directory was named, not a file in it: it may be made
  std::string stem;       // "export" of "export.safetensors"
  std::string extension;  // ".safetensors"

  /// Errors: invalid_argument (the ending contradicts the format).
  [[nodiscard]] static Result<ExportTarget> of(const std::filesystem::path& to,
                                               ExportFormat format);
  /// A file of this name; without the directory where that is the current one.
  [[nodiscard]] std::filesystem::path at(const std::string& name) const;
  /// "export.npz", or "export-00002-of-00003.npz"; `file` from 0.
  [[nodiscard]] std::filesystem::path file(std::size_t file, std::size_t files) const;
  [[nodiscard]] std::filesystem::path index() const;
  [[nodiscard]] std::filesystem::path state() const;
  /// Files that an export to this place has made or may have made, whatever their number: the
  /// index and the state file are not among them. Errors: io_error, unavailable.
  [[nodiscard]] Result<std::vector<std::filesystem::path>> existing() const;
};

}  // namespace graphtap::store
