#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"

namespace graphtap {

/// What verify_store() looked at and what it found.
struct VerifyReport {
  std::uint64_t segments = 0;
  std::uint64_t runs = 0;
  std::uint64_t frames = 0;
  std::uint64_t steps = 0;
  std::uint64_t records = 0;
  std::uint64_t gaps = 0;
  std::uint64_t events = 0;
  std::uint64_t payload_bytes = 0;          ///< of all records
  std::uint64_t payload_bytes_checked = 0;  ///< whose checksums were computed (deep)
  std::uint64_t index_rows = 0;             ///< compared with the segments
  std::vector<Finding> findings;            ///< in order of file and offset

  [[nodiscard]] std::uint64_t count(Severity severity) const noexcept;
  [[nodiscard]] bool ok() const noexcept { return count(Severity::error) == 0; }
};

/// Checks a store without changing it: heads, index footers against frames, tickets rising per
/// lane, slices within their records, request events against what is stored, the SQLite index
/// against the segments; with `deep` also every payload checksum. Works while a writer is at work.
/// Errors: as StoreReader::open; damage inside segments is reported as findings.
[[nodiscard]] Result<VerifyReport> verify_store(const std::filesystem::path& directory, bool deep);

struct IndexReport {
  std::uint64_t segments = 0;
  std::uint64_t steps = 0;
  std::uint64_t requests = 0;
};

/// Builds index.sqlite anew from the segments alone and puts it in place of the old one in one
/// move. Errors: as StoreReader::open; unavailable (a writer is at work, or the store is
/// read-only), exhausted.
[[nodiscard]] Result<IndexReport> rebuild_index(const std::filesystem::path& directory);

}  // namespace graphtap
