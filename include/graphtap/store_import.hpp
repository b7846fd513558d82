#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap {

/// What a tensor from elsewhere holds: rows {tokens, row shape…} of one hook and one request.
struct ForeignTensor {
  std::string hook;               ///< "blocks.24.resid_pre", "final_logits"
  std::string request;            ///< the id it is stored under
  std::string tensor{};           ///< its name in the file; may be left out if there is only one
  std::string model = "unknown";  ///< of the new run
  std::int64_t first_token = 0;   ///< of the first row
};

struct ImportProgress {
  std::uint64_t rows = 0, all_rows = 0;
  std::uint64_t bytes = 0, all_bytes = 0;
};

struct ImportOptions {
  std::optional<ForeignTensor> foreign{};    ///< for a file that graphtap did not write
  std::string run_name{};                    ///< default: that of the run it was exported from
  std::uint64_t buffer_bytes = 32ull << 20;  ///< rows held in memory at a time
  /// Called for every buffer, from the thread of the import; false stops it.
  std::function<bool(const ImportProgress&)> progress{};
};

struct ImportReport {
  std::vector<std::uint32_t> runs;  ///< numbers of the new runs
  std::uint64_t requests = 0;
  std::uint64_t tensors = 0;
  std::uint64_t rows = 0;          ///< stored; missing ones are not
  std::uint64_t missing_rows = 0;  ///< that are gaps again, or absent as before
  std::uint64_t bytes = 0;
  bool stopped = false;  ///< by progress(): the last run holds what was imported until then
};

/// Stores the tensors of safetensors or npz files as new runs of a store (made if need be): one for
/// each run that they were exported from, with the same hooks, request ids, serials and tokens,
/// bit for bit. Lost records are gaps again; other missing rows are absent; whatever an export
/// leaves out (recomputed rows, rejected drafts) stays out. A "*.index.json" stands for the files
/// that it names. Everything in the files is checked before the store is touched.
///
/// Errors: not_found, io_error, corrupt (a file that contradicts itself), unsupported (element
/// types that no hook has; values that were widened to float32), invalid_argument (a file without
/// graphtap's description and no `foreign`, a tensor that is there twice); those of
/// open_store_sink().
[[nodiscard]] Result<ImportReport> import_files(const std::vector<std::filesystem::path>& files,
                                                const std::filesystem::path& store,
                                                const ImportOptions& options = {});

}  // namespace graphtap
