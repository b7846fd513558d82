#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "graphtap/hook_table.hpp"
#include "graphtap/sink.hpp"

namespace graphtap {

/// When what was written survives what.
enum class Durability : std::uint8_t {
  process,  ///< survives a crash of this process: each step is handed to the kernel as it comes
  power,    ///< also survives power loss, up to the last sync_interval
};

struct StoreOptions {
  std::uint64_t segment_bytes = 256ull << 20;   ///< a segment is closed when it would grow past this
  Durability durability = Durability::process;
  std::chrono::milliseconds sync_interval{1000};  ///< fsync at least this often, for Durability::power
  std::string run_name;                           ///< shown by `ls`; default: model name and start time
};

/// Opens (or creates) the store directory for writing. One writer a store: a lock file says who.
/// Errors: unavailable (locked, read-only), invalid_argument (a directory that is not ours and not
/// empty), unsupported (a newer format), exhausted (disk full), io_error.
[[nodiscard]] Result<std::shared_ptr<Sink>> open_store_sink(const std::filesystem::path& directory,
                                                            const HookTable& table,
                                                            StoreOptions options = {});

}  // namespace graphtap
