// Every shape a source may have, in graph and in eager form: strides, parts, sums, chunks (A14).
#include <gtest/gtest.h>

#include <cstring>

#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::KeepingSink;
using testing::small_options;

constexpr std::uint32_t kRows = 6;

/// One f32 hook with rows of `width`, and an engine that shows it a source.
struct Shown {
  explicit Shown(std::int64_t width, std::uint64_t ring_bytes = 64 << 10)
      : engine(testing::make_engine()),
        device(engine->device()),
        sink(std::make_shared<KeepingSink>()) {
    HookTable table("m");
    HookSpec spec;
    spec.type = "resid_pre";
    spec.layer = 0;
    spec.row_shape = {width};
    EXPECT_TRUE(table.add(std::move(spec)).ok());
    MonitorOptions options = small_options();
    options.ring_bytes = ring_bytes;
    monitor = std::make_unique<Monitor>(device, std::move(table), options,
                                        std::vector<std::shared_ptr<Sink>>{sink});
    lane = monitor->make_lane();
    stream = device->create_stream().value();
    memory = reinterpret_cast<float*>(engine->tensor(1 << 20).value());
    for (int i = 0; i < (1 << 18); ++i) memory[i] = static_cast<float>(i % 4096);
  }
  /// The rows of one step, through an eager call or through a graph; empty if it was a gap.
  std::vector<float> capture(StepKind kind, const Source& source, std::uint32_t rows) {
    sink->steps.clear();
    const std::vector<RowSpan> spans{{monitor->begin_request("a"), 0, rows}};
    StepShape shape;
    shape.kind = kind;
    shape.tokens = spans;
    if (kind == StepKind::eager) {
      Step step = lane->begin(shape, stream);
      lane->produce(0, source, stream);
      step.end();
    } else {
      EXPECT_TRUE(engine->begin_capture(stream).ok());
      lane->produce(0, source, stream);
      const Graph graph = engine->end_capture(stream).value();
      const auto bound = lane->bind(graph, device->instantiate(graph, 0).value());
      Step step = lane->begin(shape, stream);
      EXPECT_TRUE(step.launch(*bound).ok());
      step.end();
      EXPECT_TRUE(monitor->flush(std::chrono::seconds(1)).ok());
    }
    EXPECT_TRUE(monitor->flush(std::chrono::seconds(1)).ok());
    EXPECT_EQ(engine->violations(), std::vector<std::string>{});
    std::vector<float> values;
    attributed = 0;
    for (const auto& step : sink->steps) {
      for (const auto& record : step.records) {
        const std::size_t at = values.size();
        values.resize(at + record.payload.size() / sizeof(float));
        std::memcpy(values.data() + at, record.payload.data(), record.payload.size());
        for (const Slice& slice : record.slices) attributed += slice.rows;
      }
    }
    return values;
  }
  std::unique_ptr<testing::Engine> engine;
  std::shared_ptr<Device> device;
  std::shared_ptr<KeepingSink> sink;
  std::unique_ptr<Monitor> monitor;
  std::shared_ptr<Lane> lane;
  Stream stream{};
  float* memory = nullptr;
  std::uint32_t attributed = 0;
};

class Sources : public ::testing::TestWithParam<StepKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Sources, ::testing::Values(StepKind::graph, StepKind::eager),
                         [](const auto& kind) {
                           return kind.param == StepKind::graph ? "graph" : "eager";
                         });

TEST_P(Sources, A14_RowsMayLieAnywhereApartAndBackwards) {
  for (const std::int64_t stride : {12, 16, 40, -28}) {
    SCOPED_TRACE(stride);
    Shown shown(3);
    const Source source{
        .data = shown.memory + 200, .rows = kRows, .part_bytes = 12, .row_stride = stride};
    const std::vector<float> values = shown.capture(GetParam(), source, 4);
    ASSERT_EQ(values.size(), 12u);
    for (int row = 0; row < 4; ++row) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(values[static_cast<std::size_t>(row * 3 + i)],
                  shown.memory[200 + row * stride / 4 + i]);
      }
    }
  }
}

TEST_P(Sources, A14_HeadsStridedWithinATokenAreParts) {
  Shown shown(8);
  const Source source{.data = shown.memory,
                      .rows = kRows,
                      .parts = 4,
                      .part_bytes = 8,
                      .part_stride = 24,
                      .row_stride = 100 * 4};
  const std::vector<float> values = shown.capture(GetParam(), source, 5);
  ASSERT_EQ(values.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(values[i], shown.memory[i / 8 * 100 + i % 8 / 2 * 6 + i % 2]) << i;
  }
}

TEST_P(Sources, A14_APairIsSummed) {
  Shown shown(4);
  const Source source{.data = shown.memory,
                      .rows = kRows,
                      .part_bytes = 16,
                      .row_stride = 16,
                      .addend = shown.memory + 1000,
                      .addend_row_stride = 32};
  const std::vector<float> values = shown.capture(GetParam(), source, 5);
  ASSERT_EQ(values.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(values[i], shown.memory[i] + shown.memory[1000 + i / 4 * 8 + i % 4]) << i;
  }
}

// Chunks of a size that only the device knows; whole, the rows have their owners, else nobody can
// say.
TEST_P(Sources, A14_C2_ChunksArePackedAndAttributedOnlyWhenWhole) {
  Shown shown(4);
  auto* const counts = reinterpret_cast<std::int64_t*>(shown.memory + 4096);
  const Source source{.data = shown.memory,
                      .rows = kRows,
                      .part_bytes = 16,
                      .row_stride = 16,
                      .chunk_bytes = counts,
                      .chunks = 3,
                      .chunk_stride = 64};
  for (const auto& [a, b, c] : {std::tuple{32, 32, 32}, std::tuple{16, 0, 48}}) {
    counts[0] = a;
    counts[1] = b;
    counts[2] = c;
    const auto total = static_cast<std::size_t>(a + b + c) / 4;
    const std::vector<float> values = shown.capture(GetParam(), source, 6);
    ASSERT_EQ(values.size(), total);
    std::size_t at = 0;
    for (int chunk = 0; chunk < 3; ++chunk) {
      for (std::int64_t i = 0; i < counts[chunk] / 4; ++i, ++at) {
        EXPECT_EQ(values[at], shown.memory[chunk * 16 + i]);
      }
    }
    EXPECT_EQ(shown.attributed, total == 24 ? 6u : 0u);
    EXPECT_EQ(shown.monitor->stats().total.missing(), 0u);
  }
}

TEST_P(Sources, I2_ATensorWithFewerRowsThanPlannedIsAGap) {
  Shown shown(4);
  const Source source{.data = shown.memory, .rows = 3, .part_bytes = 16, .row_stride = 16};
  EXPECT_TRUE(shown.capture(GetParam(), source, 4).empty());
  EXPECT_EQ(shown.sink->gaps(GapReason::source_too_small), 1u);
}

TEST_P(Sources, I1_ATensorWithOtherRowsThanTheTableSaysIsNeverDelivered) {
  Shown shown(4);
  const Source source{.data = shown.memory, .rows = kRows, .part_bytes = 8, .row_stride = 16};
  EXPECT_TRUE(shown.capture(GetParam(), source, 4).empty());
  EXPECT_EQ(shown.monitor->stats().total.missing(), 1u);
  if (GetParam() == StepKind::graph) {
    EXPECT_NE(shown.monitor->stats().last_device_error.find("8 bytes"), std::string::npos);
  }
}

TEST_P(Sources, ArgumentsThatMakeNoSenseAreAGap) {
  Shown shown(4);
  const Source source{.data = nullptr, .rows = kRows, .part_bytes = 16, .row_stride = 16};
  EXPECT_TRUE(shown.capture(GetParam(), source, 4).empty());
  EXPECT_EQ(shown.monitor->stats().total.missing(), 1u);
  EXPECT_EQ(shown.monitor->stats().device_errors, 1u);
}

// A split record takes its rows from the middle of strided tensors and pairs.
TEST(Sources, A12_A14_PiecesOfStridedPairs) {
  Shown shown(4, 8192);
  const Source source{.data = shown.memory,
                      .rows = 700,
                      .parts = 2,
                      .part_bytes = 8,
                      .part_stride = 12,
                      .row_stride = 20,
                      .addend = shown.memory + 16384,
                      .addend_row_stride = 24};
  const std::vector<float> values = shown.capture(StepKind::eager, source, 700);
  ASSERT_EQ(values.size(), 2800u);
  EXPECT_GT(shown.sink->steps.size(), 1u);
  EXPECT_EQ(shown.attributed, 700u);
  for (std::size_t i = 0; i < 2800; ++i) {
    const std::size_t row = i / 4, within = i % 4 / 2 * 3 + i % 2;
    ASSERT_EQ(values[i], shown.memory[row * 5 + within] + shown.memory[16384 + row * 6 + within])
        << i;
  }
}

TEST(Sources, A12_AChunkedTensorCannotBeSplitAndIsAGap) {
  Shown shown(4, 8192);
  auto* const counts = reinterpret_cast<std::int64_t*>(shown.memory + 100'000);
  counts[0] = 700 * 16;
  const Source source{.data = shown.memory,
                      .rows = 700,
                      .part_bytes = 16,
                      .row_stride = 16,
                      .chunk_bytes = counts,
                      .chunks = 1,
                      .chunk_stride = 700 * 16};
  EXPECT_TRUE(shown.capture(StepKind::eager, source, 700).empty());
  EXPECT_GT(shown.sink->gaps(GapReason::mismatch), 1u);
}

}  // namespace
}  // namespace graphtap
