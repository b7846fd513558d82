// What a monitor lives through: rings that change, its own end, no memory, a broken context.
#include <thread>

#include "device/device.hpp"
#include "gpu/support/marked_model.cuh"

namespace graphtap::gpu {
namespace {

MonitorOptions small_ring() {
  MonitorOptions options;
  options.ring_bytes = 1 << 20;
  options.settle_launches = 4;
  return options;
}

TEST(Life, RingResizedAndMonitorDetachedWhileGraphsReplay) {
  MarkedModel model({.hooks = 8, .rows = 4, .spin_ns = 500}, small_ring());
  ModelGraph graph = model.capture(model.all_hooks());
  model.bind(graph, "decode");
  std::uint64_t random = 11;
  for (int i = 0; i < times(200); ++i) {
    model.step(graph, model.streams[0]);
    model.raw_launch(graph, model.streams[0]);
    if (i % 20 == 0) {
      const Status resized = model.monitor->resize_ring((1u + next_random(random) % 8) << 20);
      ASSERT_TRUE(resized.ok()) << resized.message();
    }
  }
  model.expect_all_right();
  std::atomic<bool> stop{false};
  std::atomic<int> replays{0};
  std::thread engine([&] {
    while (!stop) {
      GT_CUDA(cudaGraphLaunch(graph.exec, model.streams[1]));
      if (++replays % 32 == 0) GT_CUDA(cudaStreamSynchronize(model.streams[1]));
    }
    GT_CUDA(cudaStreamSynchronize(model.streams[1]));
  });
  while (replays < 50) std::this_thread::yield();
  EXPECT_TRUE(model.monitor->close().ok());
  graph.bound.reset();
  model.lane.reset();
  model.monitor.reset();
  const int at_end = replays;
  while (replays < at_end + times(500)) std::this_thread::yield();
  stop = true;
  engine.join();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Life, E_WrongDeviceIsNamed) {
  for (const int device : {-1, 99}) {
    CudaOptions options;
    options.device = device;
    const auto made = make_cuda_device(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::unavailable);
    EXPECT_NE(made.status().message().find(std::to_string(device)), std::string::npos)
        << made.status().message();
  }
}

TEST(Life, E_AStreamOfAnotherDeviceIsAGapAndNoCrash) {
  int devices = 0;
  GT_CUDA(cudaGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two GPUs";
  MarkedModel model({.hooks = 2, .rows = 4}, small_ring());
  ModelGraph graph = model.capture(model.all_hooks());
  model.bind(graph, "decode");
  for (int i = 0; i < 3; ++i) model.step(graph, model.streams[0]);
  GT_CUDA(cudaSetDevice(1));
  cudaStream_t foreign{};
  GT_CUDA(cudaStreamCreate(&foreign));
  const std::vector<RowSpan> spans{{model.request, 4, 4}};
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = spans;
  model.lane->begin(shape, Stream{bits(foreign)}).end();
  int current = -1;
  GT_CUDA(cudaGetDevice(&current));
  EXPECT_EQ(current, 1) << "the caller's current device was changed";
  GT_CUDA(cudaStreamDestroy(foreign));
  GT_CUDA(cudaSetDevice(0));
  for (int i = 0; i < 3; ++i) model.step(graph, model.streams[0]);
  ASSERT_TRUE(model.monitor->flush(std::chrono::seconds(30)).ok());
  EXPECT_EQ(model.sink->wrong, 0u);
}

TEST(Life, E_OutOfMemoryIsAnErrorThatLeavesEverythingAsItWas) {
  MarkedModel model({.hooks = 4, .rows = 4}, small_ring());
  ModelGraph graph = model.capture(model.all_hooks());
  model.bind(graph, "decode");
  const std::uint64_t far_too_much = 1ull << 44;
  const Status refused = model.monitor->resize_ring(far_too_much);
  EXPECT_EQ(refused.code(), Code::exhausted);
  EXPECT_NE(refused.message().find("cudaErrorMemoryAllocation"), std::string::npos)
      << refused.message();
  for (int i = 0; i < 20; ++i) model.step(graph, model.streams[0]);
  model.expect_all_right();
  MonitorOptions options;
  options.ring_bytes = far_too_much;
  options.staging_bytes = 1 << 20;
  HookTable table("small");
  HookSpec spec;
  spec.type = "resid_pre";
  spec.layer = 0;
  spec.row_shape = {16};
  ASSERT_TRUE(table.add(spec).ok());
  try {
    Monitor monitor(model.device, std::move(table), options);
    FAIL() << "16 TiB of device memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess)
      << "our error was left behind for the engine to find";
}

// The context is beyond use afterwards, so it happens in a process of its own.
void live_through_a_sticky_error() {
  int failed = 1;
  {
    MarkedModel model({.hooks = 4, .rows = 4}, small_ring());
    ModelGraph graph = model.capture(model.all_hooks());
    model.bind(graph, "decode");
    for (int i = 0; i < 10; ++i) model.step(graph, model.streams[0]);
    if (!model.monitor->flush(std::chrono::seconds(10)).ok()) std::_Exit(2);
    const std::uint64_t before = model.sink->right;
    trap<<<1, 1, 0, model.streams[0]>>>();
    (void)cudaDeviceSynchronize();
    const std::vector<RowSpan> spans{{model.request, 400, 4}};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = spans;
    for (int i = 0; i < 20; ++i) {
      Step step = model.lane->begin(shape, Stream{bits(model.streams[0])});
      (void)step.launch(*graph.bound);
      step.end();
    }
    const auto begin = std::chrono::steady_clock::now();
    const Status flushed = model.monitor->flush(std::chrono::seconds(20));
    const bool quick = std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
    const Stats stats = model.monitor->stats();
    const bool accounted =
        stats.total.planned == stats.total.delivered + stats.total.missing() + stats.total.shed();
    std::fprintf(
        stderr, "flush: %s; lost %d; planned %llu delivered %llu; %s\n", flushed.message().c_str(),
        stats.device_lost, static_cast<unsigned long long>(stats.total.planned),
        static_cast<unsigned long long>(stats.total.delivered), stats.last_device_error.c_str());
    (void)model.monitor->close();
    const bool right = model.sink->wrong == 0 && model.sink->right == before;
    const bool said = stats.device_lost && flushed.code() == Code::device_lost &&
                      stats.last_device_error.find("cudaError") != std::string::npos;
    failed = quick && accounted && right && said ? 0 : 3;
  }
  std::_Exit(failed);
}

TEST(LifeDeathTest, E_AStickyErrorIsCountedAndKillsNobody) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(live_through_a_sticky_error(), testing::ExitedWithCode(0), "lost 1");
}

// A queue of steps behind a slow sink: `shed` drops, `lossless` waits, and all is accounted for.
TEST(Life, I3_ShedAndLosslessUnderASlowSink) {
  for (const Policy policy : {Policy::shed, Policy::lossless}) {
    MonitorOptions options;
    options.policy = policy;
    options.ring_bytes = options.staging_bytes = 128 << 10;
    MarkedModel model({.hooks = 8, .rows = 4}, options);
    model.sink->delay = std::chrono::microseconds(300);
    ModelGraph graph = model.capture(model.all_hooks());
    model.bind(graph, "decode");
    for (int i = 0; i < 400; ++i) model.step(graph, model.streams[0]);
    ASSERT_TRUE(model.monitor->flush(std::chrono::seconds(60)).ok());
    const Stats stats = model.monitor->stats();
    EXPECT_EQ(model.sink->wrong, 0u);
    EXPECT_EQ(stats.total.planned, 400u * 8);
    EXPECT_EQ(stats.total.planned,
              stats.total.delivered + stats.total.missing() + stats.total.shed());
    EXPECT_EQ(stats.total.missing(), 0u);
    if (policy == Policy::shed) {
      EXPECT_GT(stats.total.shed(), 0u);
    } else {
      EXPECT_EQ(stats.total.shed(), 0u);
      EXPECT_GT(stats.stalls, 0u);
    }
  }
}

// Leases that name requests and windows: rows are gathered on the device.
TEST(Life, A18_GatheredRowsOfOneRequest) {
  MonitorOptions options = small_ring();
  options.selection = "none";
  MarkedModel model({.hooks = 4, .rows = 8}, options);
  ModelGraph graph = model.capture(model.all_hooks());
  model.bind(graph, "decode");
  LeaseSpec lease;
  lease.hooks = model.monitor->table().all();
  lease.requests = {"watched"};
  const Lease held = model.monitor->watch(lease);
  const Request watched = model.monitor->begin_request("watched");
  const Request other = model.monitor->begin_request("other");
  for (std::int64_t number = 1; number <= 50; ++number) {
    // Its rows lie between the other's: 2, 1 and 3 rows of the watched one.
    const std::vector<RowSpan> spans{{other, number * 100, 1},
                                     {watched, number * 8 + 1, 2},
                                     {other, number * 100 + 1, 1},
                                     {watched, number * 8 + 4, 1},
                                     {watched, number * 8 + 5, 3}};
    StepShape shape;
    shape.kind = StepKind::graph;
    shape.tokens = spans;
    Step step = model.lane->begin(shape, Stream{bits(model.streams[0])});
    set_step<<<1, 1, 0, model.streams[0]>>>(model.step_number, static_cast<std::uint64_t>(number));
    ASSERT_TRUE(step.launch(*graph.bound).ok());
    step.end();
  }
  ASSERT_TRUE(model.monitor->flush(std::chrono::seconds(30)).ok());
  EXPECT_EQ(model.monitor->stats().total.delivered, 50u * 4);
  EXPECT_EQ(model.monitor->stats().total.missing(), 0u);
  EXPECT_EQ(model.monitor->stats().total.bytes, 50u * 4 * 6 * kWords * 8);
}

}  // namespace
}  // namespace graphtap::gpu
