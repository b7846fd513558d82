#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "device/event_pool.hpp"
#include "drain/accounts.hpp"
#include "drain/drain.hpp"
#include "drain/request_ledger.hpp"
#include "gate/registry.hpp"
#include "graphtap/monitor.hpp"
#include "hooks/lease_book.hpp"
#include "monitor/request_progress.hpp"
#include "plan/frame_ring.hpp"
#include "plan/planner.hpp"

namespace graphtap {

class LaneCore;

/// What a monitor's parts share: memory, the desired set, the drain, the sinks and the threads.
/// Lanes and open steps keep it alive.
class MonitorCore : public std::enable_shared_from_this<MonitorCore> {
 public:
  static std::shared_ptr<MonitorCore> make(std::shared_ptr<Device> device, HookTable table,
                                           MonitorOptions options,
                                           std::vector<std::shared_ptr<Sink>> sinks);
  ~MonitorCore();
  MonitorCore(const MonitorCore&) = delete;
  MonitorCore& operator=(const MonitorCore&) = delete;

  // For lanes.
  /// Finds room for `frame` under the policy; what finds none moves to frame.shed. Gives it a
  /// ticket.
  void reserve(StepPlan& plan, FramePlan& frame, const std::vector<int>& priority);
  /// The largest frame that can ever be delivered.
  [[nodiscard]] std::uint64_t frame_limit() const;
  /// Waits until `ready` returns true; false if the time is over or the monitor closes. Holds no
  /// lock.
  bool wait_for_space(FrameRing& ring, std::uint64_t deadline_ns,
                      const std::function<bool()>& ready);
  void hand_over(EndedFrame frame);
  /// Counts a device error that is not already counted; remembers a lost device.
  void note_error(const Status& status);
  /// Whoever saw it: a lane, the drain or the gate.
  [[nodiscard]] bool lost() const noexcept {
    return lost_->load(std::memory_order_acquire) || registry->is_device_lost();
  }
  /// Tells everybody, if the gate was the first to see it.
  void notice_loss();
  [[nodiscard]] bool closing() const noexcept { return closing_.load(std::memory_order_acquire); }
  /// A hook whose source is chunked may deliver fewer bytes than its rows would take.
  void set_chunked(HookId hook) noexcept { chunked_[hook].store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_chunked(HookId hook) const noexcept {
    return chunked_[hook].load(std::memory_order_relaxed);
  }

  // For the facade.
  Request begin_request(std::string id, std::int64_t prompt_tokens);
  void request_event(RequestEvent event, bool after_steps);
  std::shared_ptr<LaneCore> make_lane();
  Status enable(LeaseSpec spec, Apply apply);
  Lease watch(LeaseSpec spec);
  Status flush(std::uint64_t timeout_ns);
  Status close(std::uint64_t deadline_ns);
  Status resize_ring(std::uint64_t bytes);
  Stats stats();
  bool pump();

  const std::shared_ptr<Device> device;
  const std::shared_ptr<const HookTable> shared_table;  // deliveries keep it too
  const HookTable& table;
  MonitorOptions options;
  std::shared_ptr<LeaseBook> leases;
  EventPool events;
  Accounts accounts;
  RequestLedger ledger;
  RequestProgress progress;
  Outstanding outstanding;
  std::unique_ptr<Planner> planner;
  std::shared_ptr<Registry> registry;

 private:
  MonitorCore(std::shared_ptr<Device> device, HookTable table, MonitorOptions options);
  void start(std::vector<std::shared_ptr<Sink>> sinks);
  Result<std::shared_ptr<FrameRing>> make_ring(std::uint64_t bytes);
  Result<std::shared_ptr<FrameRing>> make_staging(std::uint64_t bytes);
  [[nodiscard]] std::shared_ptr<FrameRing> ring() const;
  [[nodiscard]] std::uint64_t deadline_after(std::uint64_t nanoseconds) const noexcept;
  bool wait_until(const std::function<bool()>& done, std::uint64_t deadline_ns);
  bool pump_drain();
  void drain_loop();
  void wake() noexcept;
  Status finish_steps(std::uint64_t deadline_ns);
  Status stop_sinks(std::uint64_t deadline_ns);
  void restore_graphs();

  const std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::atomic<bool>> chunked_;  // by hook
  Lease default_lease_;
  std::vector<std::unique_ptr<SinkRunner>> sinks_;
  std::shared_ptr<FrameRing> staging_;
  std::unique_ptr<Drain> drain_;
  std::vector<Stream> copy_streams_;

  mutable std::mutex ring_mutex_;
  std::shared_ptr<FrameRing> ring_;
  std::uint64_t ring_high_water_ = 0, ring_wraps_ = 0;  // of rings that were replaced

  std::mutex lanes_mutex_;
  std::vector<std::weak_ptr<LaneCore>> lanes_;
  std::uint32_t next_lane_ = 0;
  std::atomic<std::uint64_t> next_request_{1};
  std::atomic<std::uint64_t> switches_{0};

  std::mutex pump_mutex_;  // one drain round at a time
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  std::uint64_t wakes_ = 0;
  std::atomic<bool> closing_{false};
  std::atomic<bool> stopped_{false};
  std::mutex close_mutex_;
  bool closed_ = false;
  Status close_status_;
  std::thread thread_;
};

}  // namespace graphtap
