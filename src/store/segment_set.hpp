#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"
#include "store/layout.hpp"
#include "store/segment.hpp"

namespace graphtap::store {

/// All segments of a store, in order, without the frames that were written twice: a write that was
/// reported as failed and was whole all the same ends one segment and is repeated at the beginning
/// of the next. Segments keep their addresses. load() must be alone; const calls may run at the
/// same time.
class SegmentSet {
 public:
  /// Opens what is new and takes in what was appended, of segments numbered below `end`. Errors:
  /// unsupported (a newer format), io_error (the directory). A segment that cannot be opened is a
  /// finding.
  Status load(const Layout& layout, std::uint64_t end = std::numeric_limits<std::uint64_t>::max());

  [[nodiscard]] const std::vector<std::unique_ptr<Segment>>& all() const noexcept {
    return segments_;
  }
  /// Of the segments and about those that cannot be opened.
  [[nodiscard]] std::vector<Finding> findings() const;

 private:
  void drop_repeated();
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Finding> unreadable_;
  std::uint64_t last_number_ = 0;  // looked at so far
  std::size_t compared_ = 0;       // segments before it need no further look at their last frame
};

}  // namespace graphtap::store
