#pragma once
#include <memory>

#include "rig.hpp"

namespace graphtap::bench {

/// Everything of switching.json, in parts that share the device and a stream.
struct SwitchBench {
  Report& report;
  const std::shared_ptr<Device>& device;
  const OwnStream& stream;
  bool quick;
  [[nodiscard]] int count(int full) const { return quick ? full / 10 + 2 : full; }
};

/// A monitor with one lane and one bound graph.
class BoundModel {
 public:
  BoundModel(const SwitchBench& bench, const ModelShape& shape, GateTier tier, int rows = 1);
  ~BoundModel();
  BoundModel(const BoundModel&) = delete;
  BoundModel& operator=(const BoundModel&) = delete;

  const DecodeModel model;
  Monitor monitor;
  const std::shared_ptr<Lane> lane;
  DecodeBatch batch;
  const Instrumented graph;
  const Exec owner;
  std::shared_ptr<BoundGraph> bound;

  void flush() { check(monitor.flush(std::chrono::seconds(20)), "flush"); }

 private:
  Device& device_;
};

void measure_set_swap(const SwitchBench& bench);
void measure_node_gate(const SwitchBench& bench);
void measure_host_cost(const SwitchBench& bench);
void measure_device_calls(const SwitchBench& bench);
void measure_specialising(const SwitchBench& bench);  ///< build times and memory
void measure_jitter(const SwitchBench& bench);

}  // namespace graphtap::bench
