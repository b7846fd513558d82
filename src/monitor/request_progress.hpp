#pragma once
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "graphtap/request.hpp"

namespace graphtap {

/// Up to which token each live request was computed in planned steps, so that ranges computed again
/// (after a preemption) are marked. Thread-safe.
class RequestProgress {
 public:
  void begin(std::uint64_t serial);
  void finish(std::uint64_t serial);

  /// `spans` with the rows their request had computed before flagged `recomputed` (a span of both
  /// kinds is split); moves the requests' progress on. Unattributed spans and unknown requests pass
  /// unchanged.
  [[nodiscard]] std::vector<RowSpan> advance(std::span<const RowSpan> spans);
  /// The same flags, but the progress stays.
  [[nodiscard]] std::vector<RowSpan> marked(std::span<const RowSpan> spans);

 private:
  std::vector<RowSpan> mark(std::span<const RowSpan> spans, bool advance);
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::int64_t> computed_until_;
};

}  // namespace graphtap
