#pragma once
// A monitor on the host device's inline stream, pumped by hand: what is timed runs in the caller's
// thread.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/host/host_device.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap::bench {

/// `hooks` hooks, resid_pre of as many layers, rows of `row_bytes`.
inline HookTable table_of(int hooks, std::int64_t row_bytes = 16) {
  HookTable table("bench");
  for (int layer = 0; layer < hooks; ++layer) {
    HookSpec spec;
    spec.type = "resid_pre";
    spec.layer = layer;
    spec.row_shape = {row_bytes / 4};
    (void)table.add(std::move(spec)).value_or_throw();
  }
  return table;
}

inline HookSet half_of(std::size_t hooks) {
  std::vector<HookId> ids;
  for (std::size_t i = 0; i < hooks; i += 2) ids.push_back(static_cast<HookId>(i));
  return HookSet::of(hooks, ids);
}

class Rig {
 public:
  Rig(int hooks, GateTier tier, std::int64_t row_bytes = 16,
      std::shared_ptr<Sink> sink = make_null_sink())
      : host(std::make_shared<HostDevice>(HostOptions{})) {
    MonitorOptions options;
    options.ring_bytes = 16 << 20;
    options.tier = tier;
    options.manual = true;
    monitor = std::make_unique<Monitor>(host, table_of(hooks, row_bytes), options,
                                        std::vector<std::shared_ptr<Sink>>{std::move(sink)});
    lane = monitor->make_lane();
    request = monitor->begin_request("bench", 16);
    spans = {{request, 0, 1}};
    tensor_ = host->allocate(static_cast<std::size_t>(row_bytes)).value();
    row_bytes_ = row_bytes;
  }
  [[nodiscard]] StepShape shape(StepKind kind) const {
    StepShape shape;
    shape.kind = kind;
    shape.tokens = spans;
    return shape;
  }
  [[nodiscard]] Source source() const {
    Source source;
    source.data = tensor_;
    source.rows = 1;
    source.part_bytes = static_cast<std::uint64_t>(row_bytes_);
    source.row_stride = row_bytes_;
    return source;
  }
  std::shared_ptr<BoundGraph> capture() {
    const Stream stream = inline_stream();
    if (!host->begin_capture(stream).ok()) std::abort();
    for (const Hook& hook : monitor->table().hooks()) lane->produce(hook.id, source(), stream);
    const Graph graph = host->end_capture(stream).value();
    return lane->bind(graph, host->instantiate(graph, 0).value());
  }
  void drain() {
    if (!monitor->flush(std::chrono::seconds(60)).ok()) std::abort();
  }

  std::shared_ptr<HostDevice> host;
  std::unique_ptr<Monitor> monitor;
  std::shared_ptr<Lane> lane;
  Request request;
  std::vector<RowSpan> spans;

 private:
  std::byte* tensor_ = nullptr;
  std::int64_t row_bytes_ = 0;
};

}  // namespace graphtap::bench
