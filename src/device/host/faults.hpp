#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "device/host/random.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// The Device calls that can fail, for counting and for injecting failures.
enum class Call : std::uint8_t {
  allocate,
  allocate_pinned,
  create_stream,
  create_event,
  record,
  wait,
  query,
  synchronize,
  upload,
  download,
  zero,
  close_step,
  produce,
  capture_state,
  captured_tail,
  inspect,
  cloneable,
  clone,
  find_in_clone,
  remove_node,
  instantiate,
  set_enabled,
  launch,
};
inline constexpr std::size_t kCalls = 23;
[[nodiscard]] const char* to_string(Call call) noexcept;

enum class FaultMode : std::uint8_t {
  before,  ///< the call fails and nothing happens
  after,   ///< the call fails although it was carried out
  sticky,  ///< the device is lost: this call and every later one fail
};
inline constexpr std::size_t kFaultModes = 3;
[[nodiscard]] const char* to_string(FaultMode mode) noexcept;

/// Failures on order: how a test makes any Device call fail, and counts what it did. Thread-safe.
class Faults {
 public:
  explicit Faults(std::uint64_t seed) : random_(seed) {}

  /// Fails the next `count` calls of that kind, after letting `skip` of them pass.
  void fail_next(Call call, unsigned count, FaultMode mode, unsigned skip = 0);
  /// Fails each call of that kind with this probability, seeded; a call has one rate for each mode.
  void set_rate(Call call, double probability, FaultMode mode);
  /// Forgets everything on order (not the counts, and a lost device stays lost).
  void clear();

  [[nodiscard]] std::uint64_t injected(Call call, FaultMode mode) const;
  [[nodiscard]] std::uint64_t injected() const;  ///< all calls, all modes
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  /// What the device is to do with a call that begins now.
  struct Verdict {
    bool skip = false;  // do not carry it out
    Status status;      // what to return instead of the outcome; ok = no fault
    bool newly_lost = false;
  };
  [[nodiscard]] Verdict judge(Call call);

 private:
  struct Order {
    unsigned skip = 0;
    unsigned count = 0;
    FaultMode mode = FaultMode::before;
    std::array<double, kFaultModes> rate{};
  };

  mutable std::mutex mutex_;
  Random random_;
  std::array<Order, kCalls> orders_{};
  std::array<std::array<std::uint64_t, kFaultModes>, kCalls> injected_{};
  std::atomic<bool> lost_{false};
  std::atomic<bool> armed_{false};  // anything on order: keeps the common path free of the lock
};

}  // namespace graphtap
