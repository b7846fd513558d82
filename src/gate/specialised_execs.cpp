#include "gate/specialised_execs.hpp"

#include <algorithm>
#include <utility>

namespace graphtap {

SpecialisedExecs::SpecialisedExecs(std::shared_ptr<GateDevice> device,
                                   std::shared_ptr<GateCounters> counters,
                                   std::shared_ptr<PrivateClone> clone, HookSet full,
                                   std::uint32_t settle_launches)
    : device_(std::move(device)),
      counters_(std::move(counters)),
      full_(std::move(full)),
      settle_launches_(std::max<std::uint32_t>(settle_launches, 1)),
      clone_(std::move(clone)),
      current_(full_) {}

SpecialisedExecs::~SpecialisedExecs() {
  launched();
  close();
}

SpecialisedExecs::Choice SpecialisedExecs::choose(const HookSet& set) {
  Choice choice;
  const std::lock_guard lock(mutex_);
  if (!clone_) return choice;
  ++launches_;
  if (current_ != set) current_ = set;
  const Entry* entry = nullptr;
  if (Entry* found = best(set)) {
    found->used = counters_->clock.fetch_add(1, std::memory_order_relaxed) + 1;
    choice.exec = found->exec;
    entry = found;
  }
  handed_out_.store(choice.exec, std::memory_order_release);
  if (set != full_ && (entry == nullptr || entry->set != set)) choice.wants_job = wants(set);
  return choice;
}

void SpecialisedExecs::close() noexcept {
  std::shared_ptr<PrivateClone> clone;
  Entries going;
  {
    const std::lock_guard lock(mutex_);
    clone = std::move(clone_);
    clone_.reset();
    wanted_.reset();
    const Exec kept = handed_out_.load(std::memory_order_acquire);
    const auto middle = std::partition(entries_.begin(), entries_.end(),
                                       [&](const Entry& entry) { return entry.exec == kept; });
    going.assign(std::make_move_iterator(middle), std::make_move_iterator(entries_.end()));
    entries_.erase(middle, entries_.end());
  }
  for (const Entry& entry : going) destroy(entry);
}

std::optional<SpecialisedExecs::Job> SpecialisedExecs::take_job() {
  const std::lock_guard lock(mutex_);
  if (!clone_ || !wanted_) return std::nullopt;
  building_ = std::exchange(wanted_, std::nullopt);
  return Job{*building_, clone_};
}

std::uint64_t SpecialisedExecs::likely_bytes() const {
  const std::lock_guard lock(mutex_);
  return last_bytes_;
}

void SpecialisedExecs::publish(const HookSet& set, Exec exec, std::uint64_t bytes) {
  counters_->execs_built.fetch_add(1, std::memory_order_relaxed);
  counters_->specialised_execs.fetch_add(1, std::memory_order_relaxed);
  counters_->specialised_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const Entry entry{set, exec, bytes, counters_->clock.load(std::memory_order_relaxed)};
  {
    const std::lock_guard lock(mutex_);
    building_.reset();
    failures_ = 0;
    last_bytes_ = bytes;
    settle_.forget(set);
    if (clone_) {
      entries_.push_back(entry);
      return;
    }
  }
  destroy(entry);  // closed while it was built
}

void SpecialisedExecs::failed(std::uint64_t bytes) {
  constexpr std::uint32_t kMaxDoublings = 16;
  const std::lock_guard lock(mutex_);
  building_.reset();
  if (bytes != 0) last_bytes_ = bytes;
  retry_at_ = launches_ + (std::uint64_t{settle_launches_} << std::min(failures_, kMaxDoublings));
  ++failures_;
}

SpecialisedExecs::Evictable SpecialisedExecs::evictable() const {
  Evictable all;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!may_go(entry)) continue;
    all.bytes += entry.bytes;
    if (!all.oldest || entry.used < *all.oldest) all.oldest = entry.used;
  }
  return all;
}

void SpecialisedExecs::evict_oldest() {
  Entry going;
  {
    const std::lock_guard lock(mutex_);
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (may_go(*it) && (oldest == entries_.end() || it->used < oldest->used)) oldest = it;
    }
    if (oldest == entries_.end()) return;
    going = std::move(*oldest);
    entries_.erase(oldest);
  }
  destroy(going);
  counters_->execs_evicted.fetch_add(1, std::memory_order_relaxed);
}

SpecialisedExecs::Entry* SpecialisedExecs::best(const HookSet& set) {
  Entry* best = nullptr;
  for (Entry& entry : entries_) {
    bool holds = entry.set.contains_all(set);
#if defined(GRAPHTAP_BUG_exec_chosen_by_superset_forgotten)
    holds = true;
#endif
    if (!holds) continue;
    if (best == nullptr || entry.set.count() < best->set.count()) best = &entry;
  }
  return best;
}

bool SpecialisedExecs::may_go(const Entry& entry) const {
  return !entry.set.empty() && entry.set != current_ &&
         entry.exec != handed_out_.load(std::memory_order_acquire);
}

bool SpecialisedExecs::wants(const HookSet& set) {
  const std::uint32_t launches = settle_.count(set);
  if (launches < (set.empty() ? 1 : settle_launches_) || launches_ < retry_at_) return false;
  if (building_ == set || wanted_ == set) return false;
  // A newer set takes the place of one that waits, but for the empty set's: that one always pays.
  if (wanted_ && wanted_->empty()) return false;
  const bool queued = wanted_.has_value();
  wanted_ = set;
  return !queued;
}

void SpecialisedExecs::destroy(const Entry& entry) noexcept {
  device_->destroy_exec(entry.exec);
  counters_->specialised_execs.fetch_sub(1, std::memory_order_relaxed);
  counters_->specialised_bytes.fetch_sub(entry.bytes, std::memory_order_relaxed);
}

}  // namespace graphtap
