#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graphtap/status.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// What an unfinished export leaves beside its output: what is being exported, and which files are
/// whole.
struct ExportState {
  struct Finished {
    std::string name;
    std::uint64_t bytes = 0;
  };
  std::string store;    // the store's id
  std::string query;    // query_text()
  std::string options;  // those that change the output
  std::string digest;   // ExportPlan::digest
  std::vector<Finished> finished;

  /// Nothing if there is no such file. Errors: corrupt, io_error, unavailable.
  [[nodiscard]] static Result<std::optional<ExportState>> read(const std::filesystem::path& path);
  /// Errors: those of replace_file().
  Status write(FileOps& ops, const std::filesystem::path& path) const;

  /// Why an export in this state cannot be gone on with by `other`; empty if it can.
  [[nodiscard]] std::string difference(const ExportState& other) const;
};

}  // namespace graphtap::store
