#pragma once
#include <memory>

#include "drain/accounts.hpp"
#include "drain/ended_frame.hpp"
#include "drain/request_ledger.hpp"
#include "graphtap/delivery.hpp"
#include "plan/frame_ring.hpp"

namespace graphtap {

/// Turns a copied frame into what the sinks get, and counts it. `staging` holds the frame's bytes,
/// or is null if there are none (everything is a gap). The result owns its staging block, its plan
/// and the table: a sink that hangs may outlive the monitor.
[[nodiscard]] std::shared_ptr<const DeliveredStep> build_delivery(
    std::shared_ptr<const HookTable> table, const Ranks& ranks, const EndedFrame& ended,
    std::shared_ptr<FrameLoan> staging, Accounts& accounts, RequestLedger& ledger);

}  // namespace graphtap
