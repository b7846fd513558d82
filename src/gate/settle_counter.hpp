#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "graphtap/hook_set.hpp"

namespace graphtap {

/// How often each of the few latest sets was launched. Launches need not follow each other: a step
/// that is sampled every tenth time settles too. A set that is pushed out by newer ones starts
/// over. Not thread-safe.
class SettleCounter {
 public:
  std::uint32_t count(const HookSet& set);   ///< including this launch
  void forget(const HookSet& set) noexcept;  ///< starts it over

 private:
  struct Entry {
    HookSet set;
    std::uint32_t launches = 0;
    std::uint64_t last = 0;  // 0: unused
  };
  std::array<Entry, 8> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace graphtap
