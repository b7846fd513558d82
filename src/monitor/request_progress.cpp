#include "monitor/request_progress.hpp"

#include <algorithm>

namespace graphtap {

void RequestProgress::begin(std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  computed_until_.emplace(serial, 0);
}

void RequestProgress::finish(std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  computed_until_.erase(serial);
}

std::vector<RowSpan> RequestProgress::advance(std::span<const RowSpan> spans) {
  return mark(spans, true);
}

std::vector<RowSpan> RequestProgress::marked(std::span<const RowSpan> spans) {
  return mark(spans, false);
}

std::vector<RowSpan> RequestProgress::mark(std::span<const RowSpan> spans, bool advance) {
  std::vector<RowSpan> out;
  out.reserve(spans.size());
  const std::lock_guard lock(mutex_);
  for (RowSpan span : spans) {
    const auto known =
        span.request ? computed_until_.find(span.request->serial) : computed_until_.end();
    if (known == computed_until_.end()) {
      out.push_back(std::move(span));
      continue;
    }
    const std::int64_t end = span.first_token + span.rows;
    const std::int64_t again =
        std::clamp<std::int64_t>(known->second - span.first_token, 0, span.rows);
    // A draft may be rejected and computed again: it counts once it is no longer speculative.
    if (advance && !has(span.flags, RowFlags::speculative))
      known->second = std::max(known->second, end);
    if (again > 0) {
      RowSpan repeated = span;
      repeated.rows = static_cast<std::uint32_t>(again);
      repeated.flags = repeated.flags | RowFlags::recomputed;
      out.push_back(std::move(repeated));
      span.first_token += again;
      span.rows -= static_cast<std::uint32_t>(again);
    }
    if (span.rows > 0) out.push_back(std::move(span));
  }
  return out;
}

}  // namespace graphtap
