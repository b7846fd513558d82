#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gate/gate_device.hpp"
#include "gate/gate_stats.hpp"
#include "gate/specialised_execs.hpp"

namespace graphtap {

/// Builds specialised execs behind the launches' back, within a byte budget over all graphs.
///
/// One helper thread (from the first graph on), or none: then its owner calls pump(). Building
/// holds no lock that a launch takes. An exec that does not fit, after those that may go have gone
/// (least recently used first), is given up; the budget is never exceeded but for the moment
/// between building and measuring. Thread-safe.
class Specialiser {
 public:
  Specialiser(std::shared_ptr<GateDevice> device, std::shared_ptr<GateCounters> counters,
              std::uint64_t budget_bytes, bool manual);
  ~Specialiser();  ///< stop()
  Specialiser(const Specialiser&) = delete;
  Specialiser& operator=(const Specialiser&) = delete;

  /// Its execs count for the budget and can be evicted from now on.
  void add(const std::shared_ptr<SpecialisedExecs>& graph);
  /// `graph` wants a job done (SpecialisedExecs::Choice::wants_job).
  void enqueue(const std::shared_ptr<SpecialisedExecs>& graph);
  /// Does one job. True if there was one.
  bool pump();
  /// Drops what is queued and ends the thread. Idempotent.
  void stop() noexcept;

 private:
  void run();
  [[nodiscard]] std::shared_ptr<SpecialisedExecs> next();  // null: none is queued
  void work(SpecialisedExecs& graph, const SpecialisedExecs::Job& job);
  [[nodiscard]] bool make_room(std::uint64_t bytes);

  const std::shared_ptr<GateDevice> device_;
  const std::shared_ptr<GateCounters> counters_;
  const std::uint64_t budget_bytes_;
  const bool manual_;

  std::mutex work_mutex_;  // one job at a time, for those who pump from several threads

  std::mutex mutex_;  // innermost: nothing is called under it
  std::condition_variable ready_;
  std::deque<std::weak_ptr<SpecialisedExecs>> queue_;
  std::vector<std::weak_ptr<SpecialisedExecs>> graphs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace graphtap
