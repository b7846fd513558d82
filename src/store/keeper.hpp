#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_sink.hpp"
#include "store/index.hpp"
#include "store/layout.hpp"
#include "store/live_index.hpp"
#include "store/retention.hpp"
#include "store/segment_set.hpp"

namespace graphtap::store {

/// The writer's second thread: brings index.sqlite up to date in batches, removes segments beyond
/// the store's limits and, for Durability::power, syncs what was written within the stated
/// interval, so that none of it makes a write wait.
class Keeper {
 public:
  /// `first_segment`: the run's first; older ones may have to be indexed first.
  Keeper(FileOps& ops, Layout layout, Id store_id, std::uint64_t first_segment,
         const StoreOptions& options, LiveIndex& live, Retention& retention);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Something was written to `file`. Cheap.
  void touch(const std::shared_ptr<File>& file);
  /// Waits until everything written before is synced (Durability::power) and in the index, unless
  /// the index of an older part of the store is still being built. Errors: io_error, exhausted (of
  /// a sync).
  Status flush();
  /// What went wrong with syncing and removing since the last call.
  [[nodiscard]] Status take_error();
  /// The last batch and sync; closes the index. Errors: as flush(). Idempotent.
  Status stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : std::uint8_t {
    starting,
    building,  // the index of older segments, which may take long
    ready,
  };
  void run();
  void work(bool force);
  void prepare_index();
  void give_up_index();
  void set_stage(Stage stage);
  void update_index(bool force);
  void retire_segments();
  void sync_files();
  /// When there is something to do though nothing is written. mutex_ must be held.
  [[nodiscard]] std::optional<Clock::time_point> due() const;

  FileOps& ops_;
  const Layout layout_;
  const Id store_id_;
  const std::uint64_t first_segment_;
  const Durability durability_;
  const std::chrono::milliseconds sync_interval_;
  LiveIndex& live_;
  Retention& retention_;

  std::optional<Index> index_;  // the thread's own
  Clock::time_point totals_due_{};

  std::mutex sync_mutex_;  // held while syncing; taken before mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_wake_;
  std::atomic<bool> dirty_{false};
  std::vector<std::shared_ptr<File>> unsynced_;
  Clock::time_point first_unsynced_{};
  std::uint64_t requested_ = 0;
  std::uint64_t done_ = 0;
  Stage stage_ = Stage::starting;
  bool stop_ = false;
  Status error_;
  std::thread thread_;
};

/// Adds everything that the segments hold to an empty index. Errors: those of SQLite.
Status index_segments(Index& index, const SegmentSet& segments);

}  // namespace graphtap::store
