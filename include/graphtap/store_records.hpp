#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/delivery.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/hook_table.hpp"
#include "graphtap/request.hpp"

namespace graphtap {

/// What a store says of one run: the time from one open of the store for writing to its close.
/// Immutable; lives as long as its reader.
struct RunInfo {
  std::uint32_t number = 0;  ///< from 1, in order of opening
  std::string id;            ///< 32 hexadecimal digits, unique everywhere
  std::string name;          ///< StoreOptions::run_name, or model and start time
  std::string model;
  std::int64_t started_unix_ns = 0;
  std::string graphtap_version;  ///< of the writer
  std::uint16_t format_major = 0, format_minor = 0;
  Ranks ranks;              ///< of the writing process
  Ranks world;              ///< sizes of the parallel groups; 0: the writer did not say
  std::vector<Hook> hooks;  ///< the hook table, by HookId
};

/// A range of tokens, [begin, end).
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

/// Where in a run a step stands. Shared by everything that came from it.
struct StepInfo {
  std::uint64_t ticket = 0;  ///< unique in the run
  std::uint64_t step = 0;    ///< per lane
  std::uint64_t set_version = 0;
  std::int64_t end_unix_ns = 0;
  std::uint32_t lane = 0;
  std::uint32_t part = 0;
  StepKind kind = StepKind::graph;
  Ranks ranks;
};

/// Rows of one record that belong to one request and share their flags. `data` is a view into the
/// mapped segment: valid, and constant, while the reader lives.
struct RecordView {
  const RunInfo* run = nullptr;
  const Hook* hook = nullptr;
  StepInfo step;
  std::uint16_t ordinal = 0;
  std::uint64_t request = 0;     ///< serial; 0: unattributed rows
  std::string_view request_id;   ///< the user's; empty for unattributed rows
  std::int64_t first_token = 0;  ///< of the first row; meaningless for unattributed rows
  std::uint32_t row = 0;         ///< of the first row in its record
  std::uint32_t rows = 0;
  std::uint32_t record_rows = 0;    ///< rows the whole record has
  RowFlags flags = RowFlags::none;  ///< recomputed, speculative
  bool rejected = false;  ///< an event after the step says that these tokens were not accepted
  std::uint64_t row_bytes = 0;
  std::int64_t columns = 0;         ///< the size of a kPerStepColumns dimension, else 0
  std::span<const std::byte> data;  ///< rows × row_bytes

  /// {rows, row shape…}, with the per-step dimension filled in.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
};

/// A record that was wanted and is not there; one view for each request whose rows it would have
/// held.
struct GapView {
  const RunInfo* run = nullptr;
  const Hook* hook = nullptr;
  StepInfo step;
  std::uint16_t ordinal = 0;
  GapReason reason = GapReason::not_fired;
  std::uint64_t request = 0;  ///< serial; 0: the gap names no request
  std::string_view request_id;
  std::int64_t first_token = 0;
  std::uint32_t rows = 0;
};

/// A slice as stored: rows [row, row + rows) hold tokens [first_token, first_token + rows) of
/// `request`.
struct StoredSlice {
  std::uint64_t request = 0;  ///< serial; 0: unattributed
  std::int64_t first_token = 0;
  std::uint32_t row = 0;
  std::uint32_t rows = 0;
  RowFlags flags = RowFlags::none;
  friend bool operator==(const StoredSlice&, const StoredSlice&) = default;
};

/// One whole record of a step.
struct StoredRecord {
  const Hook* hook = nullptr;
  std::uint16_t ordinal = 0;
  std::uint32_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::int64_t columns = 0;
  std::span<const std::byte> data;      ///< a view, as RecordView::data
  std::span<const StoredSlice> slices;  ///< owned by the StepView
};

struct StoredGap {
  const Hook* hook = nullptr;
  std::uint16_t ordinal = 0;
  GapReason reason = GapReason::not_fired;
  std::span<const StoredSlice> slices;  ///< owned by the StepView
};

/// One step (or part of one) as it was delivered. `records` and `gaps` are reused by the next step
/// of the cursor that filled it; their data stays.
struct StepView {
  const RunInfo* run = nullptr;
  StepInfo info;
  HookSet wanted;
  std::vector<StoredRecord> records;
  std::vector<StoredGap> gaps;
};

/// A request and what the store holds of it.
struct RequestSummary {
  const RunInfo* run = nullptr;
  std::uint64_t serial = 0;
  std::string id;
  std::int64_t prompt_tokens = 0;
  bool finished = false;                 ///< its completion is in the store
  bool valid = false;                    ///< of the completion: nothing enabled for it is missing
  std::uint64_t records = 0;             ///< of the completion
  std::uint64_t gaps = 0;                ///< of the completion
  TokenRange tokens;                     ///< smallest range around every row and gap stored
  std::uint64_t steps = 0;               ///< step frames that hold rows or gaps of it
  std::vector<TokenRange> not_computed;  ///< from a prefix cache: no rows exist
  std::vector<TokenRange> rejected;      ///< speculative tokens that were not accepted
};

/// What one hook delivered in a run.
struct HookTotals {
  const Hook* hook = nullptr;
  std::uint64_t records = 0;
  std::uint64_t rows = 0;
  std::uint64_t tokens = 0;  ///< rows attributed to a request; a recomputed token counts again
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, kGapReasons> gaps{};  ///< by GapReason

  [[nodiscard]] std::uint64_t missing() const noexcept;  ///< gaps that are not sheds
  [[nodiscard]] std::uint64_t shed() const noexcept;
};

/// What there is to know about a request's rows besides that they are there.
struct RequestAccount {
  std::uint64_t serial = 0;
  std::string id;
  std::uint64_t rows = 0;              ///< in all hooks
  std::uint64_t recomputed_rows = 0;   ///< computed again after a preemption: a reader takes these
  std::uint64_t speculative_rows = 0;  ///< drafts, of which
  std::uint64_t rejected_rows = 0;     ///< were not accepted
  std::uint64_t not_computed_tokens = 0;          ///< from a prefix cache: no rows exist
  std::array<std::uint64_t, kGapReasons> gaps{};  ///< records with rows of it that are not there

  [[nodiscard]] bool plain() const noexcept;  ///< nothing but rows
};

/// The same of a run.
struct RunAccount {
  const RunInfo* run = nullptr;
  std::vector<Ranks> ranks;                ///< of its steps, rising
  std::uint64_t unattributed_rows = 0;     ///< of no request: their owner is not known
  std::uint64_t unattributed_records = 0;  ///< that have such rows
  std::uint64_t short_records = 0;         ///< with fewer rows than were planned (chunked)
  std::uint64_t gaps_of_no_request = 0;    ///< records whose rows no request had claimed
  std::vector<RequestAccount> requests;    ///< by serial

  /// Tensor-parallel ranks of its group that are not in this store; empty if the group's size is
  /// not known.
  [[nodiscard]] std::vector<std::int32_t> absent_tensor_ranks() const;
};

struct RunSummary {
  enum class State : std::uint8_t {
    open,         ///< its writer is at work
    closed,       ///< ended by close()
    interrupted,  ///< its writer ended without close()
  };
  const RunInfo* run = nullptr;
  State state = State::closed;
  std::uint64_t segments = 0;
  std::uint64_t steps = 0;  ///< step frames: each part of a split step counts
  std::uint64_t requests = 0;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t missing = 0;
  std::uint64_t shed = 0;
  std::int64_t first_end_unix_ns = 0, last_end_unix_ns = 0;  ///< of steps; 0 without any
};
[[nodiscard]] const char* to_string(RunSummary::State state) noexcept;

/// How much a finding matters.
enum class Severity : std::uint8_t {
  note,     ///< worth knowing, nothing is wrong: a step being written
  warning,  ///< nothing stored is lost: a torn tail, an index behind its segments
  error,    ///< something that was stored cannot be read, or contradicts itself
};
[[nodiscard]] const char* to_string(Severity severity) noexcept;

/// Something that a look at the store found, and where.
struct Finding {
  Severity severity = Severity::note;
  std::string file;          ///< relative to the store, e.g. "segments/000003.gts"
  std::uint64_t offset = 0;  ///< bytes into the file
  std::string what;
};

/// The store at one glance, for `ls` and `show`.
struct StoreSummary {
  std::string path;
  std::uint64_t segments = 0;
  std::uint64_t file_bytes = 0;  ///< of all segments
  std::string writer;            ///< who holds the lock, e.g. "pid 71 on host-a"; empty: nobody
  std::vector<RunSummary> runs;
  std::vector<Finding> findings;  ///< what reading met so far
};

}  // namespace graphtap
