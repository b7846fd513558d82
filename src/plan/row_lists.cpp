#include "plan/row_lists.hpp"

#include <algorithm>

namespace graphtap {
namespace {

bool names(const LeaseSpec& lease, const Slice& slice) {
  if (lease.requests.empty() && lease.sampling.every_request == 1) return true;
  if (!slice.request) return false;  // nobody knows whose row it is: a filter cannot let it through
  if (slice.request->serial % lease.sampling.every_request != 0) return false;
  return lease.requests.empty() || std::find(lease.requests.begin(), lease.requests.end(),
                                             slice.request->id) != lease.requests.end();
}

// The tokens of a slice that are of the wanted phase: a prompt's tokens are prefill, the rest is
// decode.
RowRange phase_rows(Sampling::Phase phase, const Slice& slice) {
  if (phase == Sampling::Phase::any) return {0, slice.rows};
  if (!slice.request) return {0, 0};
  const std::int64_t prompt_left = slice.request->prompt_tokens - slice.first_token;
  const auto prefill =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(prompt_left, 0, slice.rows));
  return phase == Sampling::Phase::prefill ? RowRange{0, prefill} : RowRange{prefill, slice.rows};
}

}  // namespace

std::vector<RowRange> wanted_rows(const LeaseSpec& lease, std::span<const Slice> slices) {
  std::vector<RowRange> ranges;
  for (const Slice& slice : slices) {
    if (!names(lease, slice)) continue;
    const RowRange phase = phase_rows(lease.sampling.phase, slice);
    if (phase.begin == phase.end) continue;
    if (lease.windows.empty()) {
      ranges.push_back({slice.row + phase.begin, slice.row + phase.end});
      continue;
    }
    if (!slice.request) continue;
    for (const TokenWindow& window : lease.windows) {
      const std::int64_t base =
          window.from == TokenWindow::From::response ? slice.request->prompt_tokens : 0;
      const std::int64_t begin = std::max(window.begin + base, slice.first_token + phase.begin);
      const std::int64_t end = std::min(window.end + base, slice.first_token + phase.end);
      if (begin >= end) continue;
      ranges.push_back({slice.row + static_cast<std::uint32_t>(begin - slice.first_token),
                        slice.row + static_cast<std::uint32_t>(end - slice.first_token)});
    }
  }
  return unite(std::move(ranges));
}

std::vector<RowRange> unite(std::vector<RowRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::vector<RowRange> merged;
  for (const RowRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

RowList make_row_list(RowBasis basis, std::span<const RowRange> ranges,
                      std::span<const Slice> slices) {
  RowList list;
  list.basis = basis;
  for (const RowRange& range : ranges) {
    const auto first = static_cast<std::uint32_t>(list.rows.size());
    for (Slice slice : clip(slices, range.begin, range.end - range.begin)) {
      slice.row += first;
      list.slices.push_back(std::move(slice));
    }
    for (std::uint32_t row = range.begin; row < range.end; ++row) list.rows.push_back(row);
  }
  return list;
}

std::vector<Slice> clip(std::span<const Slice> slices, std::uint32_t begin, std::uint32_t rows) {
  std::vector<Slice> out;
  const std::uint32_t end = begin + rows;
  for (const Slice& slice : slices) {
    const std::uint32_t from = std::max(begin, slice.row);
    const std::uint32_t to = std::min(end, slice.row + slice.rows);
    if (from >= to) continue;
    Slice part = slice;
    part.first_token += from - slice.row;
    part.row = from - begin;
    part.rows = to - from;
#if defined(GRAPHTAP_BUG_slice_off_by_one)
    part.first_token += 1;
#endif
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace graphtap
