#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cli/graph/decoder.hpp"
#include "graphtap/sink.hpp"

namespace graphtap::cli {

/// What a step really computed, row by row, as the engine itself knows it.
struct StepTruth {
  struct Row {
    std::uint64_t serial = 0;  ///< of the request
    std::int32_t token = 0;
    std::int64_t position = 0;
  };
  std::size_t phase = 0;  ///< counts are kept by phase
  HookSet enabled;        ///< what was switched on when it was planned
  bool exact = true;      ///< every hook of `enabled` must come, with every row (no sampling)
  std::vector<Row> rows;
  std::vector<std::uint32_t> logit_rows;  ///< indexes into rows of final_logits' rows
};

struct CheckCounts {
  std::uint64_t records = 0;  ///< delivered and looked at
  std::uint64_t rows = 0;     ///< of them, recomputed and compared
  std::uint64_t missing = 0;  ///< gaps that are not sheds
  std::uint64_t shed = 0;
  std::uint64_t wrong = 0;        ///< records that were not what they claim to be
  std::uint64_t unaccounted = 0;  ///< wanted, and neither delivered nor a gap
  CheckCounts& operator+=(const CheckCounts& other) noexcept;
};

/// A sink that believes nothing: for every record it computes anew, from the engine's own list of
/// rows, what the tensor must hold, and compares every byte; and it keeps account of what has to
/// come.
///
/// Thread-safety: expect() and write() may run in different threads.
class Checker final : public Sink {
 public:
  Checker(const HookTable& table, const DecoderShape& shape);
  [[nodiscard]] std::string name() const override { return "checker"; }
  Status write(const DeliveredStep& step) override;

  /// Before the step is begun; steps are numbered from 0 in the order of these calls.
  void expect(StepTruth truth);
  /// Counts of `phase`. After close(): unaccounted is final.
  [[nodiscard]] CheckCounts counts(std::size_t phase) const;
  /// Nothing more will come: what is neither delivered nor a gap is unaccounted.
  void finish();
  /// The first wrong records, in words.
  [[nodiscard]] std::vector<std::string> examples() const;

 private:
  struct Pending {
    StepTruth truth;
    std::vector<std::uint32_t> rows_seen;  // by hook, gaps included
  };
  void check_record(const DeliveredStep& step, const Record& record, Pending& pending);
  [[nodiscard]] bool row_is_right(const Record& record, const std::byte* data,
                                  const StepTruth::Row& row);
  [[nodiscard]] std::uint32_t rows_of(const StepTruth& truth, const Hook& hook) const;
  void complain(std::size_t phase, const std::string& what);
  CheckCounts& phase(std::size_t index);

  const HookTable table_;
  const DecoderShape shape_;
  mutable std::mutex mutex_;
  std::deque<Pending> steps_;
  std::vector<CheckCounts> phases_;
  std::vector<std::string> examples_;
  // What each hook sees of the rows of the step that is being checked, by (token, position), then
  // hook.
  using Seen = std::vector<std::vector<float>>;
  [[nodiscard]] Seen compute_row(std::int32_t token, std::int64_t position) const;
  std::map<std::pair<std::int32_t, std::int64_t>, Seen> rows_;
};

}  // namespace graphtap::cli
