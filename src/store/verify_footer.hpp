#pragma once
#include <vector>

#include "graphtap/store_records.hpp"
#include "store/segment.hpp"

namespace graphtap::store {

/// Scans a closed segment as if it had no footer and compares what its footer says.
void verify_footer(const Segment& segment, std::vector<Finding>& findings);

}  // namespace graphtap::store
