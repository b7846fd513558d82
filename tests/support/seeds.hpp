#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace graphtap::testing {

/// How many random schedules a test runs that usually runs `usual`: fewer if GRAPHTAP_SEEDS says so
/// (a sanitizer on a GPU), never more. With fewer, what must have happened often enough is not
/// asked for.
[[nodiscard]] inline std::uint64_t seeds(std::uint64_t usual) {
  const char* text = std::getenv("GRAPHTAP_SEEDS");
  return text == nullptr ? usual : std::min<std::uint64_t>(usual, std::strtoull(text, nullptr, 10));
}

}  // namespace graphtap::testing
