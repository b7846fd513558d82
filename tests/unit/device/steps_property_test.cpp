// Graph steps planned, launched far ahead, switched and closed in random ways: every frame must
// come out byte for byte as its plan and the enable bits at its launch say.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/host/random.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::address;
using test::HeaderImage;
using test::make_device;
using test::must;

constexpr std::uint32_t kHooks = 5;
constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kRowBytes = 8;  // the marker: step, hook and row
constexpr std::uint64_t kMagic = wire::kMagic ^ 5;
constexpr std::uint64_t kSlotBytes = wire::record_bytes(kRows * kRowBytes);
constexpr std::uint64_t kFrameBytes = wire::census_bytes(kHooks) + kHooks * kSlotBytes;

std::uint64_t marker(std::uint64_t step, std::uint32_t hook, std::uint32_t row) {
  return step << 32 | hook << 8 | row;
}

struct Totals {
  int planned = 0;
  int unplanned = 0;
  int gated = 0;
  int specialised = 0;
  int deepest = 0;
};

class Engine {
 public:
  Engine(HostMode mode, std::uint64_t seed)
      : random_(seed),
        device_(make_device(mode, seed, 0.05 + 0.1 * static_cast<double>(seed % 8))) {
    streams_[0] = must(device_->create_stream());
    streams_[1] = must(device_->create_stream());
    side_ = must(device_->create_stream());
    lane_ = must(device_->create_event());
    header_ = must(device_->allocate(wire::header_bytes(kHooks, 0)));
    frames_ = must(device_->allocate(kFrameBytes * kSteps));
    staging_ = must(device_->allocate_pinned(kFrameBytes * kSteps));
    activations_ = must(device_->allocate(kHooks * kRows * kRowBytes));
    capture();
  }

  void run(Totals& totals) {
    for (std::uint64_t step = 1; step <= kSteps; ++step) one_step(step, totals);
    device_->run_until_idle();
  }

  // What came out, in device memory and in the copies made of it.
  void check() {
    EXPECT_EQ(device_->containment_violations(), 0u);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const auto& want = expected_[step - 1];
      const std::size_t at = (step - 1) * kFrameBytes;
      ASSERT_EQ(std::memcmp(frames_ + at, want.data(), kFrameBytes), 0) << "frame of step " << step;
      ASSERT_EQ(std::memcmp(staging_ + at, want.data(), kFrameBytes), 0) << "copy of step " << step;
    }
  }

 private:
  static constexpr std::uint64_t kSteps = 24;

  void write_activations(std::uint32_t hook) {
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const std::uint64_t value = marker(step_on_device_, hook, row);
      std::memcpy(activations_ + (hook * kRows + row) * kRowBytes, &value, kRowBytes);
    }
  }

  // A step counter, then a kernel and a producer for each hook; some hooks lie on a side branch.
  void capture() {
    const Stream main = streams_[0];
    const Event fork = must(device_->create_event());
    const Event join = must(device_->create_event());
    must(device_->begin_capture(main));
    must(device_->compute(main, [this] { ++step_on_device_; }));
    must(device_->record(fork, main));
    must(device_->wait(side_, fork));
    for (std::uint32_t hook = 0; hook < kHooks; ++hook) {
      const Stream where = random_.below(3) == 0 ? side_ : main;
      must(device_->compute(where, [this, hook] { write_activations(hook); }));
      ProducerCall call;
      call.id = {static_cast<std::uint16_t>(hook), 0, hook};
      call.header = reinterpret_cast<wire::StepHeader*>(header_);
      call.source.data = activations_ + hook * kRows * kRowBytes;
      call.source.rows = kRows;
      call.source.part_bytes = kRowBytes;
      call.source.row_stride = kRowBytes;
      must(device_->produce(call, where));
      producers_.push_back(must(device_->captured_tail(where)));
    }
    must(device_->record(join, side_));
    must(device_->wait(main, join));
    must(device_->compute(main, [] {}));
    graph_ = must(device_->end_capture(main));
    exec_ = must(device_->instantiate(graph_, 0));
  }

  // An exec without the producers that this step does not need.
  Exec specialise(std::uint32_t keep) {
    const Graph clone = must(device_->clone(graph_));
    for (std::uint32_t hook = 0; hook < kHooks; ++hook) {
      if (keep >> hook & 1u) continue;
      must(device_->remove_node(clone, must(device_->find_in_clone(clone, producers_[hook]))));
    }
    const Exec exec = must(device_->instantiate(clone, 0));
    device_->destroy_graph(clone);
    return exec;
  }

  void one_step(std::uint64_t step, Totals& totals) {
    const Stream stream = streams_[random_.below(2)];
    must(device_->wait(stream, lane_));
    const bool planned = random_.below(4) != 0;
    std::uint32_t on = static_cast<std::uint32_t>(random_.below(1u << kHooks));
    std::uint32_t rows = static_cast<std::uint32_t>(random_.below(kRows + 3));
    std::uint32_t capacity = static_cast<std::uint32_t>(random_.below(4));
    if (planned) upload_plan(step, on, rows, capacity, stream);

    std::uint32_t runs = on;
    if (random_.below(4) == 0) {
      const Exec special = specialise(on);
      must(device_->launch(special, stream));
      device_->destroy_exec(special);
      ++totals.specialised;
    } else {
      for (int flips = 0; flips < 3; ++flips) {
        const auto hook = static_cast<std::uint32_t>(random_.below(kHooks));
        enabled_ ^= 1u << hook;
        must(device_->set_enabled(exec_, producers_[hook], enabled_ >> hook & 1u));
      }
      must(device_->launch(exec_, stream));
      runs &= enabled_;
    }
    must(device_->close_step(reinterpret_cast<wire::StepHeader*>(header_), stream));
    const std::size_t at = (step - 1) * kFrameBytes;
    must(device_->download(staging_ + at, frames_ + at, kFrameBytes, stream));
    must(device_->record(lane_, stream));

    expect(step, planned ? on : 0, planned ? runs : 0, planned, rows, capacity);
    totals.planned += planned;
    totals.unplanned += !planned;
    totals.gated += planned && runs != on;
    totals.deepest = std::max(totals.deepest, static_cast<int>(device_->pending(streams_[0]) +
                                                               device_->pending(streams_[1])));
  }

  void upload_plan(std::uint64_t step, std::uint32_t on, std::uint32_t rows, std::uint32_t capacity,
                   Stream stream) {
    HeaderImage image(kHooks, 0);
    image.head().ticket = step;
    image.head().frame = address(frames_ + (step - 1) * kFrameBytes);
    image.head().magic = kMagic;
    for (std::uint32_t hook = 0; hook < kHooks; ++hook) {
      const std::uint64_t offset = wire::census_bytes(kHooks) + hook * kSlotBytes;
      image.slot(hook) = {on >> hook & 1u ? static_cast<std::uint32_t>(offset / wire::kAlign) : 0u,
                          rows, wire::kAllRows, capacity};
    }
    std::byte* pinned =
        must(device_->allocate_pinned(image.size()));  // a slot of its own for each step
    std::memcpy(pinned, image.data(), image.size());
    must(device_->zero(frames_ + (step - 1) * kFrameBytes, wire::census_bytes(kHooks), stream));
    must(device_->upload(header_, pinned, image.size(), stream));
  }

  void expect(std::uint64_t step, std::uint32_t on, std::uint32_t runs, bool planned,
              std::uint32_t rows, std::uint32_t capacity) {
    std::vector<std::byte> frame(kFrameBytes);
    const std::uint32_t copied = std::min({rows, kRows, capacity * 16 / kRowBytes});
    for (std::uint32_t hook = 0; planned && hook < kHooks; ++hook) {
      if (!(on & runs & (1u << hook))) continue;
      const std::uint32_t fired = 1;
      std::memcpy(frame.data() + hook * sizeof(fired), &fired, sizeof(fired));
      std::byte* record = frame.data() + wire::census_bytes(kHooks) + hook * kSlotBytes;
      const wire::RecordHead head{kMagic, step,   static_cast<std::uint16_t>(hook),
                                  0,      copied, copied * kRowBytes};
      std::memcpy(record, &head, sizeof(head));
      for (std::uint32_t row = 0; row < copied; ++row) {
        const std::uint64_t value = marker(step, hook, row);
        std::memcpy(record + sizeof(head) + row * kRowBytes, &value, sizeof(value));
      }
    }
    expected_.push_back(std::move(frame));
  }

  Random random_;
  std::uint64_t step_on_device_ = 0;  // written by kernels only
  std::unique_ptr<HostDevice> device_;
  Stream streams_[2]{};
  Stream side_{};
  Event lane_{};
  std::byte* header_ = nullptr;
  std::byte* frames_ = nullptr;
  std::byte* staging_ = nullptr;
  std::byte* activations_ = nullptr;
  std::vector<Node> producers_;
  Graph graph_{};
  Exec exec_{};
  std::uint32_t enabled_ = (1u << kHooks) - 1;
  std::vector<std::vector<std::byte>> expected_;
};

class Steps : public ::testing::TestWithParam<HostMode> {};

TEST_P(Steps, I1_I2_I4_FramesAreWhatPlanAndEnableBitsSay) {
  Totals totals;
  const std::uint64_t seeds = GetParam() == HostMode::cooperative ? 400 : 40;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Engine engine(GetParam(), seed);
    engine.run(totals);
    engine.check();
  }
  RecordProperty("deepest", totals.deepest);
  EXPECT_GT(totals.planned, 100);
  EXPECT_GT(totals.unplanned, 100);
  EXPECT_GT(totals.gated, 100);
  EXPECT_GT(totals.specialised, 100);
  if (GetParam() == HostMode::cooperative) {
    EXPECT_GT(totals.deepest, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Steps, ::testing::Values(HostMode::cooperative, HostMode::threaded),
                         test::mode_of);

// A random graph of streams that fork and join, launched many times: every launch runs each node
// once, in an order that the edges allow.
TEST(Launches, I2_ARandomGraphRunsInAnOrderItsEdgesAllow) {
  std::size_t orders_seen = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto device = make_device(HostMode::cooperative, seed);
    Stream streams[3];
    for (Stream& stream : streams) stream = must(device->create_stream());
    std::vector<int> order;
    std::vector<Node> nodes;
    const auto kernel = [&](Stream stream) {
      const int number = static_cast<int>(nodes.size());
      must(device->compute(stream, [&order, number] { order.push_back(number); }));
      nodes.push_back(must(device->captured_tail(stream)));
    };
    const auto after = [&](Stream stream, Stream other) {
      const Event event = must(device->create_event());
      must(device->record(event, other));
      must(device->wait(stream, event));
      device->destroy_event(event);
    };
    must(device->begin_capture(streams[0]));
    kernel(streams[0]);
    after(streams[1], streams[0]);
    after(streams[2], streams[0]);
    for (int i = 0; i < 12; ++i) {
      const auto a = random.below(3);
      if (random.below(3) == 0) after(streams[a], streams[(a + 1 + random.below(2)) % 3]);
      kernel(streams[a]);
    }
    after(streams[0], streams[1]);
    after(streams[0], streams[2]);
    kernel(streams[0]);
    const Graph graph = must(device->end_capture(streams[0]));
    const Exec exec = must(device->instantiate(graph, 0));
    std::vector<int> first;
    for (int launch = 0; launch < 5; ++launch) {
      order.clear();
      must(device->launch(exec, streams[0]));
      device->run_until_idle();
      ASSERT_EQ(order.size(), nodes.size()) << "seed " << seed;
      std::vector<std::size_t> place(nodes.size(), nodes.size());
      for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = i;
      const auto number_of = [&](Node node) {
        return static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), node) -
                                        nodes.begin());
      };
      for (const GraphEdge& edge : device->edges(graph)) {
        ASSERT_LT(place[number_of(edge.from)], place[number_of(edge.to)]) << "seed " << seed;
      }
      if (launch == 0) first = order;
      orders_seen += order != first;
    }
  }
  EXPECT_GT(orders_seen, 200u);
}

}  // namespace
}  // namespace graphtap
