#include "gate/settle_counter.hpp"

#include <algorithm>

namespace graphtap {

std::uint32_t SettleCounter::count(const HookSet& set) {
  ++clock_;
  Entry* oldest = &entries_.front();
  for (Entry& entry : entries_) {
    if (entry.last != 0 && entry.set == set) {
      entry.last = clock_;
      return ++entry.launches;
    }
    if (entry.last < oldest->last) oldest = &entry;
  }
  *oldest = {set, 1, clock_};
  return 1;
}

void SettleCounter::forget(const HookSet& set) noexcept {
  for (Entry& entry : entries_) {
    if (entry.last != 0 && entry.set == set) entry = {};
  }
}

}  // namespace graphtap
