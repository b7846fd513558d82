#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_reader.hpp"

namespace graphtap {

enum class ExportFormat : std::uint8_t { safetensors, npz };
/// "safetensors", "npz"; also the ending of such a file, behind the dot.
[[nodiscard]] const char* to_string(ExportFormat format) noexcept;

/// How far an export is. Bytes are those of tensors.
struct ExportProgress {
  std::uint64_t rows = 0, all_rows = 0;
  std::uint64_t bytes = 0, all_bytes = 0;
  std::uint64_t resumed_bytes = 0;  ///< of `bytes`: written by an earlier, interrupted export
  std::size_t file = 0, files = 0;  ///< the one being written, from 1
  bool verifying = false;           ///< it is being read back
};

struct ExportOptions {
  ExportFormat format = ExportFormat::safetensors;
  std::uint64_t max_file_bytes = 4ull
                                 << 30;  ///< of tensors in one file; a larger tensor has its own
  bool compress = false;                 ///< deflate the members of an npz file
  bool float32 = false;    ///< f16, bf16 and fp8 values are widened to float32, exactly
  bool verify = true;      ///< read every tensor back and compare checksums
  bool overwrite = false;  ///< replace what is there
  std::uint64_t buffer_bytes = 64ull << 20;  ///< rows held in memory at a time
  /// Called for every buffer, from the thread of the export; false stops it.
  std::function<bool(const ExportProgress&)> progress{};
};

struct ExportReport {
  std::vector<std::filesystem::path> files;  ///< in order; all of them, also when stopped
  std::filesystem::path index;               ///< which tensor is in which file; empty for one file
  std::uint64_t tensors = 0;
  std::uint64_t rows = 0;
  std::uint64_t missing_rows = 0;       ///< of `rows`: zeros, and the file says why
  std::uint64_t bytes = 0;              ///< of tensors
  std::uint64_t unattributed_rows = 0;  ///< that the query selects and no tensor holds
  std::size_t kept_files = 0;           ///< finished by an earlier, interrupted export
  std::size_t written_files = 0;
  bool stopped = false;  ///< by progress(); the same call goes on where it stopped
};

/// Writes what `query` selects as one tensor a (run, request, hook, ordinal), of shape
/// {tokens, row shape…}, with what StoreReader::gather() gives: of a token computed twice the later
/// row, of missing tokens zeros. `to` is a file that ends in the format's name, or a directory
/// (made if need be), in which the file is called "export.<format>". Several files are numbered,
/// with an index beside them. docs/export.md describes names, files and what is said of each
/// tensor.
///
/// Memory: `buffer_bytes`, and about 200 bytes a tensor. A file appears under its name when it is
/// whole, verified and synced. An export that did not end leaves a small state file beside its
/// output: the same call goes on with the files that are lacking. One export at a time to a place.
///
/// Errors: those of StoreReader::read(); not_found (nothing stored matches); invalid_argument
/// (there is something at `to`, or an unfinished export of something else: both need `overwrite`);
/// unsupported (a hook whose rows differ in width); exhausted (disk full), unavailable (read-only),
/// io_error (also: what was written does not read back).
[[nodiscard]] Result<ExportReport> export_store(const StoreReader& reader, const Query& query,
                                                const std::filesystem::path& to,
                                                const ExportOptions& options = {});

}  // namespace graphtap
