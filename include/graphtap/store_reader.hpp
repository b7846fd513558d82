#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"

namespace graphtap {

/// Parallel ranks of the process that captured. What is left out means "any".
struct RankFilter {
  std::optional<std::int32_t> tensor{}, pipeline{}, data{}, expert{};
  [[nodiscard]] bool matches(const Ranks& ranks) const noexcept;
};

/// Which rows to read. Everything left out means "any"; all conditions must hold.
struct Query {
  std::optional<std::uint32_t> run{};     ///< RunInfo::number
  std::optional<std::uint64_t> serial{};  ///< of the request
  std::string request{};                  ///< the user's id; every request that has it
  std::string hooks{};                    ///< a selection, e.g. "resid_pre:20-29" (see Selection)
  std::string type{};                     ///< a hook type
  std::optional<int> layer{};
  std::optional<std::uint16_t> ordinal{};
  std::int64_t begin = 0;  ///< tokens [begin, end) of the request
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  bool skip_rejected = false;  ///< leave out rows of tokens that were not accepted
  RankFilter ranks{};          ///< steps of these ranks only
};

/// One hook of one request, as one buffer.
struct GatherQuery {
  std::optional<std::uint32_t> run{};     ///< needed if two runs have the request
  std::optional<std::uint64_t> serial{};  ///< of the request; or
  std::string request{};                  ///< its user id
  std::string hook{};                     ///< "blocks.24.resid_pre", "final_logits"
  std::uint16_t ordinal = 0;
  std::int64_t begin = 0;
  std::int64_t end = -1;  ///< -1: to the last token stored
  RankFilter ranks{};
};

/// Tokens of a gather that have no row, and why.
struct MissingTokens {
  enum class Why : std::uint8_t {
    not_captured,  ///< the hook was not enabled for them, or no step computed them
    not_computed,  ///< from a prefix cache
    gap,           ///< wanted and lost: see `reason`
    rejected,      ///< computed as a draft that was not accepted
    damaged,       ///< stored, but its checksum does not match
  };
  TokenRange tokens;
  Why why = Why::not_captured;
  GapReason reason = GapReason::not_fired;  ///< for Why::gap
};
[[nodiscard]] const char* to_string(MissingTokens::Why why) noexcept;

/// The result of a gather: row i holds token `tokens.begin + i`; rows of missing tokens are zero.
struct Gathered {
  const RunInfo* run = nullptr;
  const Hook* hook = nullptr;
  std::uint64_t request = 0;
  TokenRange tokens;
  std::uint64_t row_bytes = 0;
  std::int64_t columns = 0;
  std::vector<std::byte> data;         ///< (tokens.end - tokens.begin) × row_bytes
  std::vector<MissingTokens> missing;  ///< rising, disjoint
  std::uint64_t duplicates = 0;        ///< rows passed over: a later step computed the token again
  std::uint64_t rejected = 0;          ///< rows passed over: drafts that were not accepted
  /// Tensor-parallel ranks that the rows came from, rising. Several: of a sharded hook the parts of
  /// a row are joined along its first dimension, of any other the lowest rank's row is taken.
  std::vector<std::int32_t> tensor_ranks;
  bool sharded = false;         ///< the hook is split over tensor-parallel ranks
  std::int64_t joined_dim = 0;  ///< of joined rows: the size of the first dimension of a row

  [[nodiscard]] std::vector<std::int64_t> shape() const;  ///< {tokens, row shape…}
};

/// Joins what the ranks of a tensor-parallel model captured of one hook and request, each gathered
/// from the store of its rank: rows of sharded hooks (Catalogue: `sharded`) along their first
/// dimension in order of rank, of others the lowest rank's. A token counts as there if every part
/// of its row is. Token ranges may differ; the result covers them all.
/// Errors: invalid_argument (nothing to join; other hooks or dtypes; a rank twice), not_found (a
/// rank of the group is not among them), unsupported (the first dimension is the per-step one).
[[nodiscard]] Result<Gathered> merge_shards(std::vector<Gathered> shards);

struct RequestFilter {
  std::optional<std::uint32_t> run{};
  std::optional<std::uint64_t> serial{};
  std::string id{};
};

struct ReadOptions {
  enum class Check : std::uint8_t {
    never,          ///< payloads are handed out as they are; heads are always checked
    open_segments,  ///< payloads of segments that were never closed are checked when first touched
    always,
  };
  Check payloads = Check::open_segments;
};

class StoreCore;
class FrameWalk;
namespace store {
class Exporter;
}

/// Goes through a query's result in the order in which it was stored: by run, then in step order
/// per lane. Memory is bounded by one step. One thread at a time; must not outlive its reader.
/// Damaged frames are passed over and show up in StoreReader::findings().
template <class View>
class Cursor {
 public:
  explicit Cursor(std::unique_ptr<FrameWalk> walk) noexcept;
  Cursor(Cursor&&) noexcept;
  Cursor& operator=(Cursor&&) noexcept;
  ~Cursor();

  /// Fills `out` with the next result; false at the end.
  bool next(View& out);

 private:
  std::unique_ptr<FrameWalk> walk_;
};
using RecordCursor = Cursor<RecordView>;
using GapCursor = Cursor<GapView>;
using StepCursor = Cursor<StepView>;

/// Reads a store: while a writer fills it, after a crash, on a read-only file system. Never writes
/// to the directory and needs no index: closed segments carry their own, open ones are scanned.
///
/// Thread-safety: const calls may run at the same time; refresh() must be alone. Segments are
/// mapped: a segment file that someone else cuts short while it is being read ends the process with
/// SIGBUS, as every mapping does. graphtap itself never shortens a segment.
class StoreReader {
 public:
  /// Errors: not_found (no such directory), invalid_argument (not a store), unsupported (a newer
  /// format), corrupt (the manifest), io_error. Damage inside segments is no error: see findings().
  [[nodiscard]] static Result<std::shared_ptr<StoreReader>> open(
      const std::filesystem::path& directory, ReadOptions options = {});
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  /// Sees what was written since. What was handed out before stays valid; cursors do not see it.
  Status refresh();

  [[nodiscard]] std::vector<const RunInfo*> runs() const;
  [[nodiscard]] StoreSummary summary() const;
  /// By run, then by serial.
  [[nodiscard]] std::vector<RequestSummary> requests(const RequestFilter& filter = {}) const;
  /// One entry for each hook of the run, by HookId. Errors: not_found.
  [[nodiscard]] Result<std::vector<HookTotals>> totals(std::uint32_t run) const;

  /// What a look at every step brings out about rows and their owners, run by run. Reads the
  /// descriptions of all steps, no payloads.
  [[nodiscard]] std::vector<RunAccount> accounts() const;

  /// Rows, one view for each (record, request, flags). Errors: invalid_argument (the selection, or
  /// a hook no run of the store has), not_found (a run or request that is not there; near matches
  /// are named).
  [[nodiscard]] Result<RecordCursor> read(const Query& query) const;
  [[nodiscard]] Result<GapCursor> gaps(const Query& query) const;
  /// Whole steps; conditions on hooks and requests choose steps that hold such records or gaps.
  [[nodiscard]] Result<StepCursor> steps(const Query& query = {}) const;
  /// A token range of one request and hook as one buffer: of a token computed twice the later one,
  /// of tokens that were not accepted none. Errors: as read(); invalid_argument if two requests
  /// match (both are named); unsupported if rows differ in width. Rows of several tensor-parallel
  /// ranks are joined as by merge_shards().
  [[nodiscard]] Result<Gathered> gather(const GatherQuery& query) const;

  /// Damage met so far, at opening and by cursors.
  [[nodiscard]] std::vector<Finding> findings() const;

 private:
  friend class store::Exporter;
  explicit StoreReader(std::unique_ptr<StoreCore> core) noexcept;
  std::unique_ptr<StoreCore> core_;
};

}  // namespace graphtap
