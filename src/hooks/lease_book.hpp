#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "graphtap/hook_set.hpp"
#include "graphtap/lease.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// What all leases together want: one immutable value a step is planned from.
struct Demand {
  std::uint64_t version = 0;
  HookSet enabled;     ///< union of all leases ∩ active
  HookSet unfiltered;  ///< hooks that some lease wants in full; the others need row lists
  std::vector<std::shared_ptr<const LeaseSpec>> filtered;  ///< leases with filters or sampling
  std::vector<int> priority;                               ///< by hook: the highest of its leases
};

/// Holds the leases and publishes their union. Reading the current demand is one atomic load when
/// the version is unchanged; changing it is independent of the number of graphs (A15). Thread-safe.
class LeaseBook : public std::enable_shared_from_this<LeaseBook> {
 public:
  [[nodiscard]] static std::shared_ptr<LeaseBook> make(HookSet active);

  /// Errors: invalid_argument for a set over another table, a window that is empty or reversed, a
  /// sampling stride of 0. Hooks outside `active` are dropped from the claim, as an error if none
  /// is left although the spec named some.
  Result<Lease> add(LeaseSpec spec);

  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::shared_ptr<const Demand> current() const;
  [[nodiscard]] const HookSet& active() const noexcept { return active_; }
  [[nodiscard]] std::vector<LeaseSpec> leases() const;  ///< for statistics

 private:
  friend class Lease;
  explicit LeaseBook(HookSet active);
  Status check(LeaseSpec& spec) const;
  Status update(std::uint64_t id, LeaseSpec spec);
  void remove(std::uint64_t id) noexcept;
  void publish();  // precondition: mutex_ held

  const HookSet active_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<const LeaseSpec>> leases_;
  std::shared_ptr<const Demand> demand_;
  std::atomic<std::uint64_t> version_{0};
  std::uint64_t next_id_ = 1;
};

}  // namespace graphtap
