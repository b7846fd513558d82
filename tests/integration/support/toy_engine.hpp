#pragma once
// A decoder-shaped toy on the host device: its residual stream after layer L for token t is a
// number that no other (layer, token, step) has, so that a record under a wrong label cannot go
// unnoticed.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "device/host/host_device.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap::toy {

inline constexpr std::uint32_t kWidth = 8;  // floats a row

inline float value(int layer, std::int64_t token, std::uint64_t step, std::uint32_t column) {
  return static_cast<float>(layer) * 65536.0f + static_cast<float>(token) * 64.0f +
         static_cast<float>(column) + static_cast<float>(step % 61) / 64.0f;
}

/// What was delivered, by step: the layers, and whether every value was right.
class Book final : public Sink {
 public:
  std::string name() const override { return "book"; }
  Status write(const DeliveredStep& step) override {
    for (const Record& record : step.records) {
      layers[step.step].insert(record.hook->layer);
      rows[step.step] = record.rows;
      bytes += record.payload.size();
      ++records;
      for (const Slice& slice : record.slices) {
        for (std::uint32_t r = 0; r < slice.rows; ++r) {
          float row[kWidth];
          std::memcpy(row, record.payload.data() + (slice.row + r) * record.row_bytes, sizeof(row));
          for (std::uint32_t c = 0; c < kWidth; ++c) {
            if (row[c] != value(record.hook->layer, slice.first_token + r, step.step, c)) ++wrong;
          }
        }
      }
    }
    for (const Gap& gap : step.gaps) gaps[step.step].insert(gap.hook->layer);
    return {};
  }
  std::map<std::uint64_t, std::set<int>> layers, gaps;
  std::map<std::uint64_t, std::uint32_t> rows;
  std::uint64_t records = 0, bytes = 0, wrong = 0;
};

/// One graph of the toy for a batch of up to `capacity` rows.
struct ToyGraph {
  Graph graph{};
  Exec exec{};
  std::shared_ptr<BoundGraph> bound;
  std::uint32_t capacity = 0;
  std::byte* input = nullptr;
};

class Toy {
 public:
  explicit Toy(int layers, MonitorOptions options = {}, std::uint64_t seed = 1)
      : layers_(layers),
        device(std::make_shared<HostDevice>(host_options(seed))),
        book(std::make_shared<Book>()) {
    for (int layer = 0; layer < layers; ++layer) {
      (void)table.add({"resid_pre", layer, DType::f32, {kWidth}}).value_or_throw();
    }
    options.manual = true;
    if (options.ring_bytes == MonitorOptions{}.ring_bytes) options.ring_bytes = 1 << 20;
    monitor =
        std::make_unique<Monitor>(device, table, options, std::vector<std::shared_ptr<Sink>>{book});
    lane = monitor->make_lane();
    stream = device->create_stream().value();
    request = monitor->begin_request("r", 0);
  }

  /// Captures the model; `only` limits which layers' hooks are in the graph.
  ToyGraph capture(std::uint32_t capacity, bool bind = true, const std::set<int>* only = nullptr) {
    ToyGraph graph;
    graph.capacity = capacity;
    graph.input = device->allocate(sizeof(Input)).value();
    EXPECT_TRUE(device->begin_capture(stream).ok());
    run_layers(graph.input, capacity, only);
    graph.graph = device->end_capture(stream).value();
    graph.exec = device->instantiate(graph.graph, 0).value();
    if (bind) graph.bound = lane->bind(graph.graph, graph.exec, {"toy", {}, 0, false});
    return graph;
  }

  /// A decode step of `rows` tokens through `graph`; returns its number.
  std::uint64_t decode(ToyGraph& graph, std::uint32_t rows = 1) {
    const RowSpan span{request, token, rows, RowFlags::none};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = {&span, 1};
    Step step = lane->begin(shape, stream);
    feed(graph.input, rows);
    if (graph.bound) {
      last_launch = step.launch(*graph.bound);
    } else {
      last_launch = device->launch(graph.exec, stream);
    }
    step.end();
    token += rows;
    return steps++;
  }

  /// An eager step (prefill) of `rows` tokens.
  std::uint64_t prefill(std::uint32_t rows) {
    const RowSpan span{request, token, rows, RowFlags::none};
    StepShape shape;
    shape.kind = StepKind::eager;
    shape.tokens = {&span, 1};
    Step step = lane->begin(shape, stream);
    std::byte* input = device->allocate(sizeof(Input)).value();
    feed(input, rows);
    run_layers(input, rows, nullptr);
    step.end();
    token += rows;
    return steps++;
  }

  void flush() {
    const Status status = monitor->flush(std::chrono::seconds(60));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(book->wrong, 0u);
  }
  [[nodiscard]] std::set<int> all_layers() const {
    std::set<int> all;
    for (int layer = 0; layer < layers_; ++layer) all.insert(layer);
    return all;
  }
  [[nodiscard]] std::vector<Node> producers(const ToyGraph& graph) const {
    std::vector<Node> found;
    for (const Node node : device->nodes(graph.graph)) {
      if (device->kind(graph.graph, node).value() == NodeKind::producer) found.push_back(node);
    }
    return found;
  }

 private:
  struct Input {
    std::int64_t first_token;
    std::uint64_t step;
    std::uint32_t rows;
  };
  static HostOptions host_options(std::uint64_t seed) {
    HostOptions options;
    options.mode = HostMode::cooperative;
    options.seed = seed;
    options.advance = 0.2;  // several launches in flight
    options.quarantine = true;
    return options;
  }
  void feed(std::byte* input, std::uint32_t rows) {
    const Input in{token, steps, rows};
    EXPECT_TRUE(device->compute(stream, [input, in] { std::memcpy(input, &in, sizeof(in)); }).ok());
  }
  void run_layers(std::byte* input, std::uint32_t rows, const std::set<int>* only) {
    for (int layer = 0; layer < layers_; ++layer) {
      std::byte* data = device->allocate(rows * kWidth * sizeof(float)).value();
      EXPECT_TRUE(device
                      ->compute(stream,
                                [=] {
                                  Input in;
                                  std::memcpy(&in, input, sizeof(in));
                                  auto* out = reinterpret_cast<float*>(data);
                                  for (std::uint32_t r = 0; r < rows; ++r) {
                                    for (std::uint32_t c = 0; c < kWidth; ++c) {
                                      out[r * kWidth + c] =
                                          r < in.rows ? value(layer, in.first_token + r, in.step, c)
                                                      : -1.0f;  // padding
                                    }
                                  }
                                })
                      .ok());
      if (only != nullptr && only->count(layer) == 0) continue;
      Source source;
      source.data = data;
      source.rows = rows;
      source.part_bytes = kWidth * sizeof(float);
      source.row_stride = kWidth * sizeof(float);
      lane->produce(static_cast<HookId>(layer), source, stream);
    }
  }

  const int layers_;

 public:
  std::shared_ptr<HostDevice> device;
  HookTable table{"toy"};
  std::shared_ptr<Book> book;
  std::unique_ptr<Monitor> monitor;
  std::shared_ptr<Lane> lane;
  Stream stream{};
  Request request;
  std::int64_t token = 0;
  std::uint64_t steps = 0;
  Status last_launch;
};

}  // namespace graphtap::toy
