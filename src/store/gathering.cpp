#include "store/gathering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace graphtap::store {

Status Gathering::take(const StoredRecord& record, const Piece& piece, bool readable) {
  if (piece.rejected) {
    out_.rejected += piece.rows;
    mark(piece, Why::rejected, {});
    return {};
  }
  if (!readable) {
    mark(piece, Why::damaged, {});
    return {};
  }
  if (Status s = fit(record); !s.ok()) return s;
  const std::size_t first = place(piece.first_token);
  std::memcpy(out_.data.data() + first * out_.row_bytes,
              record.data.data() + piece.row * record.row_bytes, piece.rows * record.row_bytes);
  for (std::size_t i = first; i < first + piece.rows; ++i) {
    if (tokens_[i].there) ++out_.duplicates;
    tokens_[i].there = true;
  }
  return {};
}

void Gathering::mark(const Piece& piece, Why why, GapReason reason) {
  const std::size_t first = place(piece.first_token);
  for (std::size_t i = first; i < first + piece.rows; ++i) mark(tokens_[i], why, reason);
}

void Gathering::mark_not_computed(const TokenRange& range) {
  const std::int64_t begin = std::max(range.begin, out_.tokens.begin);
  const std::int64_t end = std::min(range.end, out_.tokens.end);
  for (std::int64_t token = begin; token < end; ++token)
    mark(tokens_[place(token)], Why::not_computed, {});
}

Status Gathering::finish() {
  if (out_.row_bytes == 0) {
    // Nothing is there: the rows it would have had, where that is known without a step.
    out_.row_bytes = hook_.row_bytes();
    if (count() > 0 && out_.row_bytes > (std::uint64_t{1} << 62) / count())
      return {Code::exhausted, "the range does not fit into memory"};
    out_.data.resize(count() * out_.row_bytes);
  }
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (token.there) continue;
    const auto at = out_.tokens.begin + static_cast<std::int64_t>(i);
    MissingTokens* last = out_.missing.empty() ? nullptr : &out_.missing.back();
    if (last && last->tokens.end == at && last->why == token.why && last->reason == token.reason) {
      ++last->tokens.end;
    } else {
      out_.missing.push_back({{at, at + 1}, token.why, token.reason});
    }
  }
  return {};
}

/// What says most about a token wins: damage, then a lost record, then a draft, then a cache.
void Gathering::mark(Token& token, Why why, GapReason reason) {
  const auto rank = [](Why w) {
    switch (w) {
      case Why::damaged:
        return 4;
      case Why::gap:
        return 3;
      case Why::rejected:
        return 2;
      case Why::not_computed:
        return 1;
      default:
        return 0;
    }
  };
  if (rank(why) < rank(token.why)) return;
  token.why = why;
  token.reason = why == Why::gap ? reason : GapReason::not_fired;
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
