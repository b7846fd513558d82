#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graphtap/store_records.hpp"
#include "store/directory.hpp"
#include "store/index.hpp"
#include "store/segment_writer.hpp"

namespace graphtap::store {

/// The directory of the segment being written, and the rows that index.sqlite does not have yet.
/// The sink's thread fills it; take() may be called from another one.
class LiveIndex {
 public:
  void begin_run(std::shared_ptr<const RunInfo> run);
  void begin_segment(const SegmentWriter& segment);
  /// The frame that `segment` has just appended. False, with `why`, if it contradicts itself.
  bool add(const SegmentWriter& segment, std::span<const std::byte> meta, std::string& why);
  /// The segment takes no more frames: its last rows are kept until they are taken.
  void end_segment(const SegmentWriter& segment, bool closed);
  /// It was removed again.
  void drop_segment();

  // For the thread that fills it.
  [[nodiscard]] bool knows(std::uint64_t serial) const { return directory_.knows(serial); }
  [[nodiscard]] std::size_t frames() const { return directory_.frames().size(); }
  [[nodiscard]] std::optional<std::span<const std::byte>> encode_footer() {
    return directory_.encode(writer_);
  }

  /// Moves the new rows out. Totals of the segment being written only if asked for: they change
  /// every time.
  [[nodiscard]] IndexBatch take(bool totals);
  /// These segments were removed: take() says so.
  void forget(const std::vector<std::uint64_t>& segments);
  /// Bytes of the segment being written.
  [[nodiscard]] std::uint64_t segment_bytes();

 private:
  void collect(bool totals, bool closed);

  std::mutex mutex_;
  std::shared_ptr<const RunInfo> run_;
  Directory directory_;
  SectionWriter writer_;
  std::uint64_t number_ = 0;  // 0: no segment
  std::uint64_t size_ = 0;
  std::size_t frames_taken_ = 0, events_taken_ = 0, requests_taken_ = 0;
  IndexBatch pending_;
};

}  // namespace graphtap::store
