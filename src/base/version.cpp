#include "graphtap/version.hpp"

namespace graphtap {

const char* version() noexcept { return GRAPHTAP_VERSION; }

}  // namespace graphtap
