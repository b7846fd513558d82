#include "rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "graphtap/cuda_device.hpp"
#include "plan/planner.hpp"
#include "plan/tickets.hpp"

namespace graphtap::bench {

HookTable table_of(int layers) {
  HookTable table("bench");
  for (int layer = 0; layer < layers; ++layer) {
    HookSpec spec;
    spec.type = "resid_pre";
    spec.layer = layer;
    spec.dtype = DType::bf16;
    spec.row_shape = {kHidden};
    (void)take(table.add(std::move(spec)), "add a hook");
  }
  return table;
}

std::shared_ptr<Device> open_device() { return take(make_cuda_device(), "open the CUDA device"); }

Source rows_of(const std::byte* data, int rows) {
  Source source;
  source.data = data;
  source.rows = static_cast<std::uint32_t>(rows);
  source.part_bytes = kRowBytes;
  source.row_stride = static_cast<std::int64_t>(kRowBytes);
  return source;
}

std::vector<HookId> spread(int count, int hooks) {
  std::vector<HookId> ids;
  for (int i = 0; i < count; ++i)
    ids.push_back(static_cast<HookId>((2 * i + 1) * hooks / (2 * count)));
  return ids;
}

Status CountingSink::write(const DeliveredStep& step) {
  if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
  steps.fetch_add(1);
  records.fetch_add(step.records.size());
  gaps.fetch_add(step.gaps.size());
  for (const Record& record : step.records) bytes.fetch_add(record.payload.size());
  return {};
}

DecodeBatch::DecodeBatch(Monitor& monitor, int rows) {
  for (int row = 0; row < rows; ++row) {
    spans_.push_back(
        {monitor.begin_request(fmt::format("request {}", row)), -1, 1, RowFlags::none});
  }
}

StepShape DecodeBatch::next() {
  for (RowSpan& span : spans_) ++span.first_token;
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = spans_;
  return shape;
}

// ---- graphs

Instrumented::Instrumented(Device& device, Lane& lane, const DecodeModel& model, int rows,
                           cudaStream_t stream) {
  const Source source = rows_of(model.residual(), rows);
  graph_ = model.capture(stream, [&](int layer) {
    lane.produce(static_cast<HookId>(layer), source, to_stream(stream));
    producers_.push_back(take(device.captured_tail(to_stream(stream)), "find a producer's node"));
  });
  for (std::size_t hook = 0; hook < producers_.size(); ++hook) {
    const NodeInfo info = take(device.inspect(graph(), producers_[hook]), "inspect a producer");
    if (!info.is_producer || info.id.hook != hook)
      fail("a captured node is not the hook's producer");
    header_ = const_cast<wire::StepHeader*>(info.header);
  }
}

Instrumented::~Instrumented() { (void)cudaGraphDestroy(graph_); }

Derived::Derived(Device& device, const Instrumented& from, std::span<const HookId> keep, How how)
    : device_(device), clone_(take(device.clone(from.graph()), "clone")) {
  std::vector<Node> others;
  for (HookId hook = 0; hook < from.hooks(); ++hook) {
    if (std::find(keep.begin(), keep.end(), hook) != keep.end()) continue;
    others.push_back(take(device.find_in_clone(clone_, from.producer(hook)), "find in the clone"));
  }
  if (how == How::remove) {
    for (const Node node : others) check(device.remove_node(clone_, node), "remove a node");
  }
  exec_ = take(device.instantiate(clone_, 0), "instantiate");
  if (how == How::disable) {
    for (const Node node : others) check(device.set_enabled(exec_, node, false), "disable a node");
  }
}

Derived::~Derived() {
  device_.destroy_exec(exec_);
  device_.destroy_graph(clone_);
}

// ---- the header by hand

HandWrittenHeader::HandWrittenHeader(Device& device, int hooks, int rows)
    : device_(device),
      slots_(static_cast<std::uint32_t>(hooks)),
      rows_(static_cast<std::uint32_t>(rows)),
      image_bytes_(wire::header_bytes(slots_, 0)),
      frame_bytes_(frame_prologue(StepKind::graph, slots_) +
                   slots_ * wire::record_bytes(rows_ * kRowBytes)),
      image_(take(device.allocate_pinned(image_bytes_), "allocate a header image")),
      frame_(take(device.allocate(frame_bytes_), "allocate a frame")) {}

HandWrittenHeader::~HandWrittenHeader() {
  device_.free(frame_);
  device_.free_pinned(image_);
}

void HandWrittenHeader::write(wire::StepHeader* header, std::span<const HookId> on, Stream stream) {
  std::memset(image_, 0, image_bytes_);
  wire::StepHeader head{};
  head.slots = slots_;
  if (!on.empty()) {
    head.ticket = next_ticket();
    head.frame = reinterpret_cast<std::uint64_t>(frame_);
    head.magic = wire::kMagic;
  }
  std::memcpy(image_, &head, sizeof(head));
  const std::uint64_t payload = rows_ * kRowBytes;
  for (const HookId hook : on) {
    wire::SlotPlan slot{};
    const std::uint64_t offset =
        frame_prologue(StepKind::graph, slots_) + hook * wire::record_bytes(payload);
    slot.offset16 = static_cast<std::uint32_t>(offset / wire::kAlign);
    slot.rows = rows_;
    slot.list = wire::kAllRows;
    slot.capacity16 = static_cast<std::uint32_t>(payload / wire::kAlign);
    std::memcpy(image_ + wire::slots_offset() + hook * sizeof(slot), &slot, sizeof(slot));
  }
  check(device_.zero(frame_, frame_prologue(StepKind::graph, slots_), stream), "zero");
  check(device_.upload(reinterpret_cast<std::byte*>(header), image_, image_bytes_, stream),
        "upload");
  check(cudaStreamSynchronize(cuda(stream)), "synchronize");
}

// ---- steps

void native_step(Lane& lane, BoundGraph& graph, DecodeBatch& batch, Stream stream) {
  Step step = lane.begin(batch.next(), stream);
  check(step.launch(graph), "launch");
  step.end();
}

void settle(Lane& lane, BoundGraph& graph, DecodeBatch& batch, const OwnStream& stream,
            Exec owner) {
  const Stopwatch watch;
  while (watch.us() < 10e6) {
    Step step = lane.begin(batch.next(), stream.handle());
    const Exec exec = take(step.prepare(graph), "prepare");
    check(step.launch(graph), "launch");
    step.end();
    stream.synchronize();
    if (exec != owner) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fail("no specialised exec appeared within 10 s");
}

Counts operator-(Counts left, const Counts& right) {
  left.planned -= right.planned;
  left.delivered -= right.delivered;
  left.bytes -= right.bytes;
  for (std::size_t i = 0; i < left.gaps.size(); ++i) left.gaps[i] -= right.gaps[i];
  return left;
}

nlohmann::json accounts_of(const Counts& counts) {
  return {{"planned", counts.planned},
          {"delivered", counts.delivered},
          {"missing", counts.missing()},
          {"shed", counts.shed()},
          {"bytes", counts.bytes}};
}

void check_accounts(const Stats& stats) {
  const auto exact = [](const Counts& counts) {
    return counts.planned == counts.delivered + counts.missing() + counts.shed();
  };
  if (stats.steps_in_flight != 0) fail(fmt::format("{} steps were left", stats.steps_in_flight));
  if (stats.device_errors != 0) fail("a device error: " + stats.last_device_error);
  if (!exact(stats.total)) fail("planned is not delivered + missing + shed");
  for (const Counts& counts : stats.hooks) {
    if (!exact(counts)) fail("planned is not delivered + missing + shed for a hook");
  }
  if (stats.total.missing() != 0)
    fail(fmt::format("{} records are missing", stats.total.missing()));
}

}  // namespace graphtap::bench
