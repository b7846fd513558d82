#pragma once
#include <array>
#include <cstdint>

#include "device/host/faults.hpp"

namespace graphtap::property {

/// How often each thing happened over all schedules of a run.
struct Counts {
  std::uint64_t schedules = 0, steps = 0, records = 0, gaps = 0;
  std::uint64_t wraps = 0, sheds = 0, ordinals = 0, exec_swaps = 0, doubly_stale = 0;
  std::uint64_t late_graphs = 0, replaced_execs = 0, cleared = 0, ring_resizes = 0;
  std::uint64_t unplanned_launches = 0, missed_launches = 0, double_launches = 0, late_launches = 0;
  std::uint64_t swapped_ids = 0, nodes_off = 0, aborted = 0, stream_changes = 0;
  std::uint64_t eager_steps = 0, filtered_leases = 0, recomputed_rows = 0, flushes = 0;
  std::uint64_t lost_devices = 0, sink_failures = 0;
  std::array<std::array<std::uint64_t, kFaultModes>, kCalls> faults{};
};

}  // namespace graphtap::property
