#pragma once
#include <string>

#include "device/device.hpp"
#include "graphtap/handles.hpp"
#include "graphtap/status.hpp"
#include "plan/wire.hpp"

namespace graphtap {

/// One producer call that was captured into a graph.
struct RecordedProducer {
  ProducerId id;
  Node node{};                               ///< 0: its node is not known
  const wire::StepHeader* header = nullptr;  ///< the one it was captured with
  bool managed = false;  ///< its node was verified: it may be disabled or removed
  std::string reason;    ///< why it is not managed
};

/// Why the node that `found` tells of may not be touched as the producer `id` that reads `header`;
/// empty if it may. The one check that makes a node managed.
[[nodiscard]] std::string why_unverified(const Result<NodeInfo>& found, const ProducerId& id,
                                         const wire::StepHeader* header);

}  // namespace graphtap
