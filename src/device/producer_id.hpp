#pragma once
#include <cstdint>

namespace graphtap {

/// Who a producer is: baked into its node at capture, compared with the plan when its record
/// arrives.
struct ProducerId {
  std::uint16_t hook = 0;
  std::uint16_t ordinal = 0;
  std::uint32_t slot = 0;
  friend bool operator==(const ProducerId&, const ProducerId&) = default;
};

}  // namespace graphtap
