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
  std::uint64_t segment_bytes = 256ull << 20;  ///< a segment is closed when it would grow past this
  Durability durability = Durability::process;
  std::chrono::milliseconds sync_interval{
      1000};               ///< fsync at least this often, for Durability::power
  std::string run_name{};  ///< shown by `ls`; default: model name and start time
  Ranks ranks{};           ///< of this process; steps carry their own as well
};

/// Opens (or creates) the store directory for writing and begins a run. One writer a store: a lock
/// file says who. What write() and event() accepted is visible to readers when they return. A
/// refused write leaves nothing behind that a reader would show; trying it again stores the step
/// once. Errors: unavailable (locked, read-only), invalid_argument (a directory that is not ours
/// and not empty), unsupported (a newer format), corrupt (the manifest), exhausted (disk full),
/// io_error. Of the sink's calls: invalid_argument (a step that contradicts itself or the table),
/// exhausted, io_error, unavailable (after close()). Trouble with index.sqlite never fails a call:
/// it is derived.
[[nodiscard]] Result<std::shared_ptr<Sink>> open_store_sink(const std::filesystem::path& directory,
                                                            const HookTable& table,
                                                            StoreOptions options = {});

}  // namespace graphtap
