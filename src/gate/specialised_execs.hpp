#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gate/gate_device.hpp"
#include "gate/gate_stats.hpp"
#include "gate/private_clone.hpp"
#include "gate/settle_counter.hpp"
#include "graphtap/hook_set.hpp"

namespace graphtap {

/// The specialised execs of one bound graph: chosen from by its launches, filled and thinned out by
/// the Specialiser.
///
/// Locks: one short mutex, under which nothing is built or destroyed. Launches take it inside the
/// lane's lock; the helper thread takes it holding nothing else that a launch wants. Life of an
/// exec: choose() hands one out, and until the next choose() or launched() it is not destroyed,
/// whatever happens (a handed-out exec may not have been launched yet; destroying one in flight is
/// allowed).
class SpecialisedExecs {
 public:
  /// `full`: all managed hooks of the graph; the owner's exec serves that set.
  SpecialisedExecs(std::shared_ptr<GateDevice> device, std::shared_ptr<GateCounters> counters,
                   std::shared_ptr<PrivateClone> clone, HookSet full,
                   std::uint32_t settle_launches);
  ~SpecialisedExecs();
  SpecialisedExecs(const SpecialisedExecs&) = delete;
  SpecialisedExecs& operator=(const SpecialisedExecs&) = delete;

  struct Choice {
    Exec exec{};             ///< 0: none holds all of the set; use the owner's
    bool wants_job = false;  ///< give this graph to the Specialiser
  };
  /// For a launch with `set` (a subset of `full`): the smallest exec that holds all of it.
  [[nodiscard]] Choice choose(const HookSet& set);
  /// What choose() handed out has been launched, so that it may be destroyed.
  void launched() noexcept { handed_out_.store(Exec{}, std::memory_order_release); }
  /// Ends it: destroys the clone and all execs; one that is handed out goes with this object.
  void close() noexcept;

  // For the Specialiser.
  struct Job {
    HookSet set;
    std::shared_ptr<PrivateClone> clone;
  };
  /// The set that was asked for last, if it is still wanted.
  [[nodiscard]] std::optional<Job> take_job();
  /// The size of an exec built before, 0 if none was: what the next one will take, about.
  [[nodiscard]] std::uint64_t likely_bytes() const;
  /// Takes over `exec`; destroys it at once if the graph was closed meanwhile.
  void publish(const HookSet& set, Exec exec, std::uint64_t bytes);
  /// The set could not be built or kept: no further one is asked for until some launches have
  /// passed, twice as many after each failure in a row. `bytes`: its size, if it came to that.
  void failed(std::uint64_t bytes = 0);

  /// What may be evicted: everything but the empty set's exec, the current set's, and one handed
  /// out.
  struct Evictable {
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> oldest;  ///< when the one that was used longest ago was used last
  };
  [[nodiscard]] Evictable evictable() const;
  /// Destroys the one that was used longest ago, if there is one.
  void evict_oldest();

 private:
  struct Entry {
    HookSet set;
    Exec exec{};
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
  };
  using Entries = std::vector<Entry>;
  // Precondition of these: mutex_ held.
  [[nodiscard]] Entry* best(const HookSet& set);
  [[nodiscard]] bool may_go(const Entry& entry) const;
  [[nodiscard]] bool wants(const HookSet& set);
  // Precondition: mutex_ not held.
  void destroy(const Entry& entry) noexcept;

  const std::shared_ptr<GateDevice> device_;
  const std::shared_ptr<GateCounters> counters_;
  const HookSet full_;
  const std::uint32_t settle_launches_;

  std::atomic<Exec> handed_out_{Exec{}};  // set under mutex_, cleared without

  mutable std::mutex mutex_;
  std::shared_ptr<PrivateClone> clone_;  // null: closed
  Entries entries_;
  SettleCounter settle_;
  HookSet current_;  // of the last launch
  std::optional<HookSet> wanted_;
  std::optional<HookSet> building_;
  std::uint64_t launches_ = 0, retry_at_ = 0;
  std::uint32_t failures_ = 0;
  std::uint64_t last_bytes_ = 0;
};

}  // namespace graphtap
