#include "store/gathering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace graphtap::store {

Status Gathering::take(const StoredRecord& record, const Piece& piece, bool readable) {
  if (piece.rejected) {
    out_.rejected += piece.rows;
    mark(piece, Why::rejected, GapReason::not_fired);
    return {};
  }
  if (!readable) {
    mark(piece, Why::damaged, GapReason::not_fired);
    return {};
  }
  if (Status s = fit(record); !s.ok()) return s;
  const auto first = static_cast<std::size_t>(piece.first_token - out_.tokens.begin);
  std::memcpy(out_.data.data() + first * out_.row_bytes,
              record.data.data() + piece.row * record.row_bytes, piece.rows * record.row_bytes);
  out_.duplicates += coverage_.add(tokens_of(piece));
  return {};
}

void Gathering::mark(const Piece& piece, Why why, GapReason reason) {
  coverage_.mark(tokens_of(piece), why, reason);
}

void Gathering::mark_not_computed(const TokenRange& range) {
  coverage_.mark({std::max(range.begin, out_.tokens.begin), std::min(range.end, out_.tokens.end)},
                 Why::not_computed);
}

Status Gathering::finish() {
  if (out_.row_bytes == 0) {
    // Nothing is there: the rows it would have had, where that is known without a step.
    out_.row_bytes = hook_.row_bytes();
    if (count() > 0 && out_.row_bytes > (std::uint64_t{1} << 62) / count())
      return {Code::exhausted, "the range does not fit into memory"};
    out_.data.resize(count() * out_.row_bytes);
  }
  out_.missing = coverage_.missing(out_.tokens);
  return {};
}

Status Gathering::fit(const StoredRecord& record) {
  if (out_.row_bytes == 0) {
    if (count() > 0 && record.row_bytes > std::numeric_limits<std::uint64_t>::max() / count()) {
      return {Code::exhausted, "the range does not fit into memory"};
    }
    out_.row_bytes = record.row_bytes;
    out_.columns = record.columns;
    out_.data.resize(count() * record.row_bytes);
    return {};
  }
  if (out_.row_bytes == record.row_bytes) return {};
  return {Code::unsupported,
          fmt::format("rows of {} differ in width ({} and {} bytes): read them record by record",
                      hook_.name, out_.row_bytes, record.row_bytes)};
}

}  // namespace graphtap::store
