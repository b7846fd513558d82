// The small things around the values of store_records.hpp.
#include "graphtap/store_records.hpp"

#include <algorithm>

#include "graphtap/store_reader.hpp"

namespace graphtap {
namespace {

std::vector<std::int64_t> with_rows(std::int64_t rows, const Hook& hook, std::int64_t columns) {
  std::vector<std::int64_t> shape{rows};
  for (std::int64_t dim : hook.row_shape) shape.push_back(dim == kPerStepColumns ? columns : dim);
  return shape;
}

}  // namespace

std::vector<std::int64_t> RecordView::shape() const { return with_rows(rows, *hook, columns); }

std::vector<std::int64_t> Gathered::shape() const {
  std::vector<std::int64_t> shape = with_rows(tokens.end - tokens.begin, *hook, columns);
  if (joined_dim > 0) shape[1] = joined_dim;
  return shape;
}

bool RequestAccount::plain() const noexcept {
  return recomputed_rows + speculative_rows + rejected_rows + not_computed_tokens == 0 &&
         std::all_of(gaps.begin(), gaps.end(), [](std::uint64_t count) { return count == 0; });
}

std::vector<std::int32_t> RunAccount::absent_tensor_ranks() const {
  std::vector<std::int32_t> absent;
  for (std::int32_t rank = 0; rank < run->world.tensor; ++rank) {
    const bool there =
        std::any_of(ranks.begin(), ranks.end(), [&](const Ranks& r) { return r.tensor == rank; });
    if (!there) absent.push_back(rank);
  }
  return absent;
}

bool RankFilter::matches(const Ranks& ranks) const noexcept {
  const auto fits = [](const std::optional<std::int32_t>& wanted, std::int32_t rank) {
    return !wanted || *wanted == rank;
  };
  return fits(tensor, ranks.tensor) && fits(pipeline, ranks.pipeline) && fits(data, ranks.data) &&
         fits(expert, ranks.expert);
}

std::uint64_t HookTotals::missing() const noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (!is_shed(static_cast<GapReason>(i))) count += gaps[i];
  }
  return count;
}

std::uint64_t HookTotals::shed() const noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (is_shed(static_cast<GapReason>(i))) count += gaps[i];
  }
  return count;
}

const char* to_string(RunSummary::State state) noexcept {
  switch (state) {
    case RunSummary::State::open:
      return "open";
    case RunSummary::State::closed:
      return "closed";
    case RunSummary::State::interrupted:
      return "interrupted";
  }
  return "unknown";
}

const char* to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "unknown";
}

const char* to_string(MissingTokens::Why why) noexcept {
  switch (why) {
    case MissingTokens::Why::not_captured:
      return "not captured";
    case MissingTokens::Why::not_computed:
      return "not computed";
    case MissingTokens::Why::gap:
      return "gap";
    case MissingTokens::Why::rejected:
      return "rejected";
    case MissingTokens::Why::damaged:
      return "damaged";
  }
  return "unknown";
}

}  // namespace graphtap
