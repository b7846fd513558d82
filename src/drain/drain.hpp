#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.hpp"
#include "device/event_pool.hpp"
#include "drain/accounts.hpp"
#include "drain/copier.hpp"
#include "drain/ended_frame.hpp"
#include "drain/request_ledger.hpp"
#include "graphtap/options.hpp"
#include "graphtap/sink.hpp"
#include "sinks/sink_runner.hpp"

namespace graphtap {

/// What the drain is built on; all outlive it.
struct DrainParts {
  Device& device;
  EventPool& events;
  std::shared_ptr<const HookTable> table;
  std::shared_ptr<FrameRing> staging;
  Accounts& accounts;
  RequestLedger& ledger;
  Outstanding& outstanding;
  std::shared_ptr<std::atomic<bool>> lost;  // the device was; set here
  std::vector<std::unique_ptr<SinkRunner>>& sinks;
};

/// Takes ended frames, lane by lane in order: waits for their events without blocking, copies them
/// to staging, verifies, and offers the result to every sink. Driven by pump(), from one
/// thread at a time; add() may be called from any thread and never blocks on the device.
class Drain {
 public:
  /// Device refusals in a row after which a frame is given up.
  static constexpr std::uint32_t kAttempts = Copier::kAttempts;

  Drain(DrainParts parts, Ranks ranks, std::uint64_t sink_patience_ns,
        std::vector<Stream> copy_streams);

  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Once closed it takes nothing more: what comes is counted as missing (shutdown) at once.
  void add(EndedFrame frame);
  void close();
  /// One round over all lanes. True if anything moved.
  bool pump();
  /// Everything in flight becomes gaps of this reason at the next pump(); no device call is made
  /// for it.
  void give_up(GapReason reason);
  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::uint64_t device_errors() const;
  [[nodiscard]] std::string last_device_error() const;
  [[nodiscard]] bool device_lost() const noexcept {
    return parts_.lost->load(std::memory_order_acquire);
  }
  /// Nothing is in flight and no memory waits for a device that refused to say when it is done with
  /// it.
  [[nodiscard]] bool resting() const;
  /// Counts an error that a lane saw; device_lost is remembered.
  void note_error(const Status& status);

 private:
  enum class Phase : std::uint8_t { running, ended, copying, delivering, done };
  struct Item {
    EndedFrame frame;
    Phase phase = Phase::running;
    std::uint32_t refusals = 0;
    std::uint64_t ended_ns = 0;
    std::shared_ptr<FrameLoan> staging;
    std::shared_ptr<FrameCopy> copy;
    std::shared_ptr<const DeliveredStep> delivery;
    std::vector<bool> accepted;  // by sink
    std::uint64_t refused_since_ns = 0;
  };

  /// Memory that the device may still write or read although its frame is over.
  struct Quarantined {
    std::vector<Event> events;  // behind the device's last use
    bool fenced = false;        // all of them are recorded
    std::vector<std::shared_ptr<FrameLoan>> loans;
  };

  bool pump_lane(std::deque<Item>& items);
  bool advance(Item& item, bool first);
  bool await_end(Item& item);
  bool start_copy(Item& item);
  bool await_copy(Item& item);
  bool deliver(Item& item);
  bool offer(Item& item, std::uint64_t now);
  void abandon(Item& item, GapReason reason);
  bool refused(Item& item, const Status& status);
  void settle(Item& item);
  bool release_quarantine();
  bool emit_events();

  DrainParts parts_;
  const Ranks ranks_;
  const std::uint64_t sink_patience_ns_;
  const std::vector<Stream> copy_streams_;

  mutable std::mutex mutex_;  // incoming_, errors
  std::vector<EndedFrame> incoming_;
  std::uint64_t errors_ = 0;
  std::string last_error_;
  bool closed_ = false;

  Copier copier_;                                    // the pumping thread's
  std::map<std::uint32_t, std::deque<Item>> lanes_;  // the pumping thread's
  std::vector<Quarantined> quarantine_;              // the pumping thread's
  std::atomic<std::size_t> in_flight_{0}, quarantined_{0};
  std::atomic<int> given_up_{0};  // a GapReason
};

}  // namespace graphtap
