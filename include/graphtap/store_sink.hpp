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

/// What a write does when the disk has no room.
enum class WhenFull : std::uint8_t {
  refuse,         ///< it fails with Code::exhausted; nothing stored is touched
  remove_oldest,  ///< the oldest whole segments make room, as many as the step needs and no more
};

/// Limits are kept by removing whole segments, oldest first, never the one being written: what is
/// still there stays readable, and a reader that is open keeps what it sees (and its disk space).
struct StoreOptions {
  std::uint64_t segment_bytes = 256ull << 20;  ///< a segment is closed when it would grow past this
  Durability durability = Durability::process;
  std::chrono::milliseconds sync_interval{
      1000};                            ///< fsync at least this often, for Durability::power
  std::uint64_t retain_bytes = 0;       ///< the size of the store; 0: no limit
  std::chrono::seconds retain_age{0};   ///< since a segment's last step; 0: no limit
  std::chrono::seconds segment_age{0};  ///< a segment is closed by the first write after this; 0:
                                        ///< an eighth of retain_age, or never without one
  WhenFull when_full = WhenFull::refuse;
  std::uint64_t keep_free_bytes = 0;  ///< the disk is full, for us, when so little would be free
  std::string run_name{};             ///< shown by `ls`; default: model name and start time
  Ranks ranks{};                      ///< of this process; steps carry their own as well
  Ranks world{};                      ///< sizes of the parallel groups; 0: not known
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
