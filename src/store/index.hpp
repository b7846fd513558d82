#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"
#include "store/directory.hpp"
#include "store/layout.hpp"
#include "store/segment.hpp"
#include "store/sqlite.hpp"

namespace graphtap::store {

/// Rows for index.sqlite, taken over from the writer every so often or from whole segments at a
/// rebuild.
struct IndexBatch {
  struct Segment {
    std::uint64_t number = 0;
    std::uint32_t run = 0;
    std::uint64_t bytes = 0;  // of whole frames
    std::uint64_t frames = 0;
    bool closed = false;
  };
  template <class Entry>
  struct Row {
    std::uint64_t segment = 0;
    std::uint32_t run = 0;
    std::uint32_t place = 0;  // of a frame or event in its segment
    Entry entry;
  };
  struct RequestRow {
    std::uint32_t run = 0;
    std::uint64_t serial = 0;
    std::int64_t prompt_tokens = 0;
    std::string id;
  };
  std::vector<std::shared_ptr<const RunInfo>> runs;
  std::vector<Segment> segments;
  std::vector<Row<FrameEntry>> frames;
  std::vector<Row<RangeEntry>> ranges;
  std::vector<Row<EventEntry>> events;
  std::vector<RequestRow> requests;
  std::vector<Row<HookTotalEntry>> hook_totals;
  std::vector<Row<GapTotalEntry>> gap_totals;
  std::vector<std::uint64_t> removed;  ///< segments that are no longer there

  [[nodiscard]] bool empty() const noexcept {
    return segments.empty() && runs.empty() && removed.empty();
  }
  /// Everything that a segment holds.
  void add(const store::Segment& segment);
};

/// index.sqlite, the derived index that SQL queries go to. No reader of ours depends on it;
/// whatever is wrong with it, it is built anew from the segments. One thread at a time.
class Index {
 public:
  /// Makes an empty index in place of whatever is there.
  [[nodiscard]] static Result<Index> create(const std::filesystem::path& path, const Id& store_id);
  /// Opens one that was closed properly. Errors: corrupt (another store's, another version, or not
  /// closed).
  [[nodiscard]] static Result<Index> open(const std::filesystem::path& path, const Id& store_id);

  /// One transaction. Rows that are there already are replaced.
  Status apply(const IndexBatch& batch);
  /// Marks it complete and leaves one plain file, which can be read from read-only media.
  Status close();
  /// Segments it says it covers, by number.
  [[nodiscard]] Result<std::vector<IndexBatch::Segment>> covered();

 private:
  struct Statements;
  Index(std::unique_ptr<Database> db, std::unique_ptr<Statements> statements);
  static Result<Index> prepare(Database db);
  Status apply_rows(const IndexBatch& batch);
  Status remove(const std::vector<std::uint64_t>& segments);
  std::unique_ptr<Database> db_;  // statements point to it
  std::unique_ptr<Statements> statements_;

 public:
  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();
};

/// Removes an index and what SQLite keeps beside it.
void remove_index(const std::filesystem::path& path);

/// What comparing an index with the segments brought.
struct IndexCheck {
  std::uint64_t rows = 0;
  std::vector<Finding> findings;
};
/// Compares every row. With `live` (a writer is at work) an index that is behind is a note, else a
/// warning.
[[nodiscard]] IndexCheck check_index(Database& db, const Id& store_id,
                                     const std::vector<const Segment*>& segments, bool live);

}  // namespace graphtap::store
