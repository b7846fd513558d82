#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/store_sink.hpp"
#include "store/keeper.hpp"
#include "store/live_index.hpp"
#include "store/lock.hpp"
#include "store/retention.hpp"
#include "store/segment_writer.hpp"
#include "store/step_encoder.hpp"

namespace graphtap::store {

/// The sink that writes a store: steps and events to segments, in the caller's thread; everything
/// else in the keeper's.
class StoreSink final : public Sink {
 public:
  StoreSink(FileOps& ops, Layout layout, WriterLock lock, SegmentIdentity identity, RunInfo run,
            const HookTable& table, const StoreOptions& options, std::uint64_t next_segment);
  ~StoreSink() override;
  StoreSink(const StoreSink&) = delete;
  StoreSink& operator=(const StoreSink&) = delete;

  /// The first segment, so that a store that cannot be written says so when it is opened. `older`:
  /// the segments that are there.
  Status begin(const StoreOptions& options, const std::vector<std::uint64_t>& older);

  [[nodiscard]] std::string name() const override { return "store " + layout_.directory.string(); }
  Status write(const DeliveredStep& step) override;
  Status event(const RequestEvent& event) override;
  Status flush() override;
  Status close() override;

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // ticket, part
  using Clock = std::chrono::steady_clock;
  template <class Item>
  Status put(FrameKind kind, const Item& item);
  Status append(FrameKind kind, std::span<const std::byte> meta, std::uint64_t bytes);
  Status begin_segment();
  Status end_segment();
  void fence();
  [[nodiscard]] bool full(std::uint64_t frame_bytes) const;
  Status check_free(std::uint64_t frame_bytes);
  bool make_room(const Status& failure, std::uint64_t needed, std::uint64_t& freed);
  void remember(Key key);

  FileOps& ops_;
  const Layout layout_;
  WriterLock lock_;
  const SegmentIdentity identity_;
  const std::shared_ptr<const RunInfo> run_;
  const std::string run_text_;
  const HookTable table_;
  const std::uint64_t segment_bytes_;
  const std::chrono::seconds segment_age_;  // 0: of any age
  const bool power_;                        // Durability::power
  const std::uint64_t keep_free_bytes_;
  const WhenFull when_full_;
  std::uint64_t next_segment_;
  Clock::time_point segment_begun_;
  std::mutex mutex_;
  bool closed_ = false;
  StepEncoder encoder_;
  std::unique_ptr<SegmentWriter> segment_;  // null after a failed write
  LiveIndex live_;
  std::set<Key> stored_;
  std::deque<Key> order_;
  Retention retention_;
  std::optional<Keeper> keeper_;  // last: its thread uses live_ and retention_
};

}  // namespace graphtap::store
