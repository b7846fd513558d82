#include "hooks/lease_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/near_match.hpp"

namespace graphtap {
namespace {

// By hook: the highest priority among its leases, 0 where it has none.
std::vector<int> highest(const std::map<std::uint64_t, std::shared_ptr<const LeaseSpec>>& leases,
                         std::size_t hooks) {
  const bool plain = std::all_of(leases.begin(), leases.end(),
                                 [](const auto& entry) { return entry.second->priority == 0; });
  if (plain) return std::vector<int>(hooks, 0);  // the usual case, and a switch must stay cheap
  constexpr int kNone = std::numeric_limits<int>::min();
  std::vector<int> priority(hooks, kNone);
  for (const auto& [id, spec] : leases) {
    for (HookId hook : spec->hooks.ids()) priority[hook] = std::max(priority[hook], spec->priority);
  }
  std::replace(priority.begin(), priority.end(), kNone, 0);
  return priority;
}

}  // namespace

std::shared_ptr<LeaseBook> LeaseBook::make(HookSet active) {
  return std::shared_ptr<LeaseBook>(new LeaseBook(std::move(active)));
}

LeaseBook::LeaseBook(HookSet active) : active_(std::move(active)) {
  publish();  // nobody else can see the book yet
}

Result<Lease> LeaseBook::add(LeaseSpec spec) {
  if (Status s = check(spec); !s.ok()) return s;
  auto shared = std::make_shared<const LeaseSpec>(std::move(spec));
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_id_++;
  leases_.emplace(id, std::move(shared));
  publish();
  return Lease(weak_from_this(), id);
}

std::shared_ptr<const Demand> LeaseBook::current() const {
  const std::lock_guard lock(mutex_);
  return demand_;
}

std::vector<LeaseSpec> LeaseBook::leases() const {
  const std::lock_guard lock(mutex_);
  std::vector<LeaseSpec> specs;
  specs.reserve(leases_.size());
  for (const auto& [id, spec] : leases_) specs.push_back(*spec);
  return specs;
}

Status LeaseBook::check(LeaseSpec& spec) const {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::invalid_argument, fmt::format("lease {}: {}", in_quotes(spec.name), why));
  };
  if (spec.hooks.universe() != active_.universe()) {
    return refuse(fmt::format("its hook set is over a table of {} hooks, the monitor's has {}",
                              spec.hooks.universe(), active_.universe()));
  }
  for (const TokenWindow& window : spec.windows) {
    if (window.begin < 0 || window.end <= window.begin) {
      return refuse(
          fmt::format("the token window [{}, {}) holds no token; it needs 0 <= begin < end",
                      window.begin, window.end));
    }
  }
  if (spec.sampling.every_step == 0 || spec.sampling.every_request == 0) {
    return refuse("a sampling stride of 0; every row is a stride of 1");
  }
  const bool named_some = !spec.hooks.empty();
  spec.hooks = spec.hooks & active_;
  if (named_some && spec.hooks.empty()) {
    return refuse("none of its hooks is active; active hooks are chosen when the monitor is made");
  }
  return {};
}

Status LeaseBook::update(std::uint64_t id, LeaseSpec spec) {
  if (Status s = check(spec); !s.ok()) return s;
  auto shared = std::make_shared<const LeaseSpec>(std::move(spec));
  const std::lock_guard lock(mutex_);
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return {Code::unavailable, "this lease was released"};
  lease->second = std::move(shared);
  publish();
  return {};
}

void LeaseBook::remove(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  leases_.erase(id);
  try {
    publish();
  } catch (const std::bad_alloc&) {
    // The old union stays in force until the next change: more than wanted is captured, nothing is
    // wrong.
  }
}

void LeaseBook::publish() {
  auto next = std::make_shared<Demand>();
  next->version = version_.load(std::memory_order_relaxed) + 1;
  next->enabled = HookSet::none(active_.universe());
  next->unfiltered = next->enabled;
  for (const auto& [id, spec] : leases_) {
#if defined(GRAPHTAP_BUG_lease_union_forgets)
    if (id == leases_.rbegin()->first) continue;
#endif
    next->enabled = next->enabled | spec->hooks;
    if (spec->unfiltered()) {
      next->unfiltered = next->unfiltered | spec->hooks;
    } else {
      next->filtered.push_back(spec);
    }
  }
  next->priority = highest(leases_, active_.universe());
  demand_ = std::move(next);
  // After demand_, so that who sees the new version also gets the new demand.
  version_.store(demand_->version, std::memory_order_release);
}

}  // namespace graphtap
