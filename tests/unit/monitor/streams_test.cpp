// Side streams that produce, and lanes whose steps change streams. The scheduler decides which
// stream moves.
#include <gtest/gtest.h>

#include "support/seeds.hpp"
#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::Captured;
using testing::Mark;
using testing::Rig;
using testing::RigOptions;

/// `to` waits for all that `from` was given.
void join(Rig& rig, Stream from, Stream to) {
  const Event event = rig.device->create_event().value();
  ASSERT_TRUE(rig.device->record(event, from).ok());
  ASSERT_TRUE(rig.device->wait(to, event).ok());
  rig.device->destroy_event(event);
}

TEST(Streams, AnEagerStepEndsWhenEveryStreamThatProducedHasEnded) {
  for (std::uint64_t seed = 1; seed <= testing::seeds(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RigOptions options;
    options.seed = seed;
    options.advance = seed % 3 == 0 ? 0 : 0.2;
    Rig rig(options);
    const Stream side = rig.device->create_stream().value(),
                 third = rig.device->create_stream().value();
    const auto request = rig.monitor->begin_request("a");
    for (int i = 0; i < 4; ++i) {
      Step step = rig.begin(StepKind::eager, {{request, i * 4, 4}});
      join(rig, rig.stream, side);
      join(rig, rig.stream, third);
      rig.fire({0}, side);
      rig.fire({1, 2}, third);
      rig.fire({3}, rig.stream);
      step.end();  // the engine itself joins nothing
    }
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.sink->records(), 16u);
  }
}

// The side stream forked before the step began: only our own wait puts it behind the upload of the
// row lists.
TEST(Streams, I1_GatheringOnASideStreamWaitsForTheRowLists) {
  for (std::uint64_t seed = 1; seed <= testing::seeds(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RigOptions options;
    options.seed = seed;
    options.advance = seed % 3 == 0 ? 0 : 0.2;
    options.monitor.selection = "none";
    Rig rig(options);
    const Stream side = rig.device->create_stream().value();
    const auto a = rig.monitor->begin_request("a"), b = rig.monitor->begin_request("b");
    LeaseSpec spec;
    spec.hooks = rig.table().all();
    spec.requests = {"b"};
    const Lease lease = rig.monitor->watch(spec);
    for (int i = 0; i < 4; ++i) {
      // b's rows lie somewhere else in each step, so that another step's list gathers the wrong
      // ones.
      const auto before =
          static_cast<std::uint32_t>(1 + (seed + static_cast<std::uint64_t>(i) * 3) % 7);
      const std::uint64_t world = rig.next_step;
      ASSERT_TRUE(rig.engine
                      ->compute(side,
                                [&rig, world] {
                                  for (HookId hook = 0; hook < 4; ++hook) {
                                    for (std::uint32_t row = 0; row < 16; ++row) {
                                      rig.tensor(hook, 0)[row] = Mark{hook, 0, row, world};
                                    }
                                  }
                                })
                      .ok());
      Step step = rig.begin(StepKind::eager, {{a, i * 10, before}, {b, i * 10, 2}});
      for (HookId hook = 0; hook < 4; ++hook) rig.lane->produce(hook, rig.source(hook, 0), side);
      step.end();
      join(rig, rig.stream, side);  // the next step's tensors overwrite these
    }
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.sink->records(), 16u);
  }
}

TEST(Streams, ALanesStepsMayEachUseAnotherStream) {
  for (std::uint64_t seed = 1; seed <= testing::seeds(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RigOptions options;
    options.seed = seed;
    options.advance = 0.15;
    options.monitor.header_slots = 4;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    std::vector<Stream> streams{rig.stream};
    for (int i = 0; i < 3; ++i) streams.push_back(rig.device->create_stream().value());
    const auto request = rig.monitor->begin_request("a");
    std::uint64_t wanted = 0;
    for (int i = 0; i < 16; ++i) {
      const HookId hook = static_cast<HookId>(random.below(4));
      const bool none = random.chance(0.2);
      ASSERT_TRUE(rig.monitor->enable(none ? rig.table().none() : rig.set({hook, 2})).ok());
      wanted += none ? 0 : hook == 2 ? 1 : 2;
      // What the engine's kernels see must be ordered too: begin() on a stream is what orders it.
      const Stream on = streams[random.below(streams.size())];
      const std::vector<RowSpan> spans{{request, i * 4, 4}};
      if (i > 0) join(rig, streams[0], on);
      Step step = rig.begin(StepKind::graph, spans, on);
      ASSERT_TRUE(step.launch(*graph.bound).ok());
      step.end();
      if (on != streams[0]) join(rig, on, streams[0]);
    }
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.sink->records(), wanted);
  }
}

// The engine does not order its streams at all: the lane alone keeps headers and frames of one step
// together.
TEST(Streams, I1_TheLaneOrdersItsStepsEvenIfTheEngineDoesNot) {
  for (std::uint64_t seed = 1; seed <= testing::seeds(100); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RigOptions options;
    options.seed = seed;
    options.advance = 0.1;
    Rig rig(options);
    const Captured graph = rig.capture_all();
    const auto request = rig.monitor->begin_request("a");
    std::vector<Stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(rig.device->create_stream().value());
    for (int i = 0; i < 10; ++i) {
      Step step = rig.begin(StepKind::graph, {{request, i * 4, 4}}, streams[random.below(3)]);
      ASSERT_TRUE(step.launch(*graph.bound).ok());
      step.end();
    }
    rig.settle();
    rig.verify();
    EXPECT_EQ(rig.sink->records(), 40u);
  }
}

}  // namespace
}  // namespace graphtap
