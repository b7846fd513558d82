#include "gate/recorded_producer.hpp"

#include <fmt/format.h>

namespace graphtap {

std::string why_unverified(const Result<NodeInfo>& found, const ProducerId& id,
                           const wire::StepHeader* header) {
#if defined(GRAPHTAP_BUG_unverified_node_managed)
  return {};
#endif
  if (!found.ok()) return "its node could not be inspected: " + found.status().message();
  const NodeInfo& info = found.value();
  if (!info.is_producer) return "its node is not a producer";
  if (info.id != id) {
    return fmt::format(
        "its node belongs to hook {} ordinal {} slot {}, recorded as hook {} ordinal {} slot {}",
        info.id.hook, info.id.ordinal, info.id.slot, id.hook, id.ordinal, id.slot);
  }
  if (info.header != header) return "its node reads another step header";
  return {};
}

}  // namespace graphtap
