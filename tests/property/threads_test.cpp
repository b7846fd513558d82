// The same promises with real threads: engines that step, people who switch, watch, flush and look,
// all at once, on the threaded host device (for TSan) or on a GPU. Checked for right labels
// everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "device/host/random.hpp"
#include "graphtap/monitor.hpp"
#include "property/support/oracle.hpp"
#include "support/engine.hpp"

namespace graphtap::property {
namespace {

constexpr int kLayers = 6;
constexpr std::uint32_t kRows = 4;
constexpr std::int64_t kWidth = 16;  // floats a row

std::uint64_t steps_a_lane() {
  if (std::getenv("GRAPHTAP_SANITIZER") != nullptr)
    return 200;  // compute-sanitizer: a hundred times slower
  const char* seeds = std::getenv("GRAPHTAP_SEEDS");
  const std::uint64_t asked = seeds != nullptr ? std::strtoull(seeds, nullptr, 10) : 20'000;
  return std::clamp<std::uint64_t>(asked, 5000, 200'000);
}

// Checks labels from the drain's threads; the step number is in every row.
class LabelSink final : public Sink {
 public:
  std::string name() const override { return "labels"; }
  Status write(const DeliveredStep& step) override {
    for (const Record& record : step.records) {
      for (const Slice& slice : record.slices) {
        for (std::uint32_t i = 0; i < slice.rows; ++i) {
          const std::byte* row = record.payload.data() + (slice.row + i) * record.row_bytes;
          if (is_marker(row, record.row_bytes, {record.hook->id, record.ordinal},
                        slice.request->serial, slice.first_token + i, step.step)) {
            ++right;
          } else {
            ++wrong;
          }
        }
      }
    }
    gaps += step.gaps.size();
    return {};
  }
  std::atomic<std::uint64_t> right{0}, wrong{0}, gaps{0};
};

struct Shared {
  std::unique_ptr<testing::Engine> engine;
  Monitor* monitor = nullptr;
  HookTable table{"threads"};
};

// A server with one lane: captures two graphs, then replays one or the other, running ahead of its
// stream.
void serve(Shared& shared, std::uint64_t seed, std::uint64_t steps) {
  Random random(seed);
  testing::Engine& engine = *shared.engine;
  Device& device = *engine.device();
  const auto lane = shared.monitor->make_lane();
  const Stream stream = device.create_stream().value();
  struct Row {
    std::uint64_t serial;
    std::int64_t token;
    std::uint64_t step;
  };
  struct Captured {
    Graph graph{};
    Exec exec{};
    std::shared_ptr<BoundGraph> bound;
    std::byte* input = nullptr;
  };
  std::vector<Captured> graphs(2);
  for (Captured& graph : graphs) {
    graph.input = engine.tensor(kRows * sizeof(Row)).value();
    ASSERT_TRUE(engine.begin_capture(stream).ok());
    for (HookId hook = 0; hook < kLayers; ++hook) {
      const std::uint64_t row_bytes = kWidth * sizeof(float);
      std::byte* data = engine.tensor(kRows * row_bytes).value();
      ASSERT_TRUE(engine
                      .compute(stream,
                               [=, in = graph.input] {
                                 for (std::uint32_t r = 0; r < kRows; ++r) {
                                   Row row;
                                   std::memcpy(&row, in + r * sizeof(row), sizeof(row));
                                   write_marker(data + r * row_bytes, row_bytes, {hook, 0},
                                                row.serial, row.token, row.step);
                                 }
                               })
                      .ok());
      Source source;
      source.data = data;
      source.rows = kRows;
      source.part_bytes = row_bytes;
      source.row_stride = static_cast<std::int64_t>(row_bytes);
      lane->produce(hook, source, stream);
    }
    graph.graph = engine.end_capture(stream).value();
    graph.exec = device.instantiate(graph.graph, 0).value();
    graph.bound = lane->bind(graph.graph, graph.exec);
  }
  Request request = shared.monitor->begin_request("r" + std::to_string(seed), 0);
  std::int64_t token = 0;
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto rows = static_cast<std::uint32_t>(1 + random.below(kRows));
    const RowSpan span{request, token, rows, RowFlags::none};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = {&span, 1};
    Step step = lane->begin(shape, stream);
    std::vector<Row> input(kRows);
    for (std::uint32_t r = 0; r < rows; ++r) input[r] = {request->serial, token + r, i};
    Captured& graph = graphs[random.below(2)];
    ASSERT_TRUE(
        engine
            .compute(stream, [to = graph.input,
                              input] { std::memcpy(to, input.data(), input.size() * sizeof(Row)); })
            .ok());
    ASSERT_TRUE(step.launch(*graph.bound).ok());
    step.end();
    token += rows;
    if (random.chance(0.02)) {
      shared.monitor->finish_request(request);
      request = shared.monitor->begin_request("r", 0);
      token = 0;
    }
  }
  shared.monitor->finish_request(request);
  const Event last = device.create_event().value();
  ASSERT_TRUE(device.record(last, stream).ok());
  ASSERT_TRUE(device.synchronize(last).ok());
}

TEST(Threads, A4_A18_EverythingFromEveryThreadAtOnce) {
  const std::uint64_t steps = steps_a_lane();
  Shared shared;
  testing::EngineOptions engine_options;
  engine_options.threaded = true;
  engine_options.quarantine = false;
  shared.engine = testing::make_engine(engine_options);
  for (int layer = 0; layer < kLayers; ++layer) {
    (void)shared.table.add({"resid_pre", layer, DType::f32, {kWidth}}).value_or_throw();
  }
  for (const Policy policy : {Policy::lossless, Policy::shed}) {
    auto sink = std::make_shared<LabelSink>();
    MonitorOptions options;
    options.ring_bytes = 64 << 10;
    options.header_slots = 8;
    options.policy = policy;
    options.settle_launches = 4;
    Monitor monitor(shared.engine->device(), shared.table, options, {sink});
    shared.monitor = &monitor;
    std::atomic<bool> done{false};
    std::vector<std::thread> others;
    for (std::uint64_t t = 0; t < 2; ++t) {
      others.emplace_back([&, t] {  // switches
        Random random(100 + t);
        const char* sets[] = {"", "none", "resid_pre:2", "resid_pre:0,5", "resid_pre:1-4"};
        while (!done) {
          const Apply apply = random.chance(0.5) ? Apply::now : Apply::at_next_launch;
          EXPECT_TRUE(monitor.enable(sets[random.below(5)], apply).ok());
          std::this_thread::yield();
        }
      });
    }
    others.emplace_back([&] {  // watches
      Random random(7);
      while (!done) {
        LeaseSpec spec;
        spec.hooks =
            HookSet::of(kLayers, std::vector<HookId>{static_cast<HookId>(random.below(kLayers))});
        if (random.chance(0.5)) spec.windows = {{0, 20, TokenWindow::From::sequence}};
        const Lease lease = monitor.watch(spec);
        std::this_thread::yield();
      }
    });
    others.emplace_back([&] {  // looks
      while (!done) {
        const Stats stats = monitor.stats();
        EXPECT_LE(stats.total.delivered, stats.total.planned);
        (void)monitor.flush(std::chrono::milliseconds(5));
        std::this_thread::yield();
      }
    });
    std::vector<std::thread> engines;
    for (std::uint64_t t = 0; t < 2; ++t) {
      engines.emplace_back([&, t] { serve(shared, t + 1, steps); });
    }
    for (std::thread& thread : engines) thread.join();
    done = true;
    for (std::thread& thread : others) thread.join();
    ASSERT_TRUE(monitor.flush(std::chrono::seconds(30)).ok());
    const Stats stats = monitor.stats();
    EXPECT_EQ(sink->wrong, 0u);
    EXPECT_GT(sink->right, 0u);
    EXPECT_EQ(stats.total.planned,
              stats.total.delivered + stats.total.missing() + stats.total.shed());
    // A record may be missing only where a flip came between a plan and its launch.
    EXPECT_EQ(stats.total.missing(), stats.total.gap(GapReason::not_fired));
    EXPECT_EQ(sink->gaps, stats.total.missing() + stats.total.shed());
    EXPECT_TRUE(monitor.close(std::chrono::seconds(10)).ok());
    shared.engine->run_until_idle();
    for (const std::string& violation : shared.engine->violations())
      ADD_FAILURE() << "I4: " << violation;
  }
}

}  // namespace
}  // namespace graphtap::property
