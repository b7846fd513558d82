// The decorator that gives a GPU the faults and the checks of the host device, tried over the host
// device.
#include "support/faulty_device.hpp"

#include <gtest/gtest.h>

#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::must;
using testing::FaultyDevice;
using testing::FaultyOptions;

class Faulty : public ::testing::Test {
 protected:
  void make(const FaultyOptions& options) {
    device_.reset();
    device_ = std::make_unique<FaultyDevice>(host_, options);
    stream_ = must(device_->create_stream());
    done_ = must(device_->create_event());
  }
  void SetUp() override { make({}); }
  FaultyDevice& device() { return *device_; }
  void finish() {
    must(device().record(done_, stream_));
    must(device().synchronize(done_));
  }
  void write(std::byte* to, std::size_t bytes) {
    std::byte* pinned = must(device().allocate_pinned(bytes));
    std::memset(pinned, 7, bytes);
    must(device().upload(to, pinned, bytes, stream_));
    finish();
    device().free_pinned(pinned);
  }

  std::shared_ptr<HostDevice> host_ = test::make_device(HostMode::threaded);
  std::unique_ptr<FaultyDevice> device_;
  Stream stream_{};
  Event done_{};
};

TEST_F(Faulty, I4_WhatStaysInsideIsNoViolation) {
  std::byte* memory = must(device().allocate(100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  std::byte* pinned = must(device().allocate_pinned(100));
  must(device().download(pinned, memory, 100, stream_));
  finish();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pinned[i], std::byte{0});
  write(memory, 100);
  device().free(memory);
  device().free_pinned(pinned);
  EXPECT_EQ(device().violations(), std::vector<std::string>{});
  EXPECT_EQ(host_->containment_violations(), 0u);
}

TEST_F(Faulty, I4_WritesAroundAnAllocationAreSeen) {
  for (const bool quarantine : {true, false}) {
    make({1, quarantine, 0});
    std::byte* memory = must(device().allocate(100));
    std::byte* other = must(device().allocate(64));
    write(memory + 96, 8);
    write(other - 1, 1);
    if (!quarantine) device().free(memory), device().free(other);
    const auto violations = device().violations();
    ASSERT_EQ(violations.size(), 2u);
    EXPECT_NE((violations[0] + violations[1]).find("behind it, was written to: byte 0 is 0x07"),
              std::string::npos);
    EXPECT_NE((violations[0] + violations[1]).find("before it, was written to: byte 511 is 0x07"),
              std::string::npos);
  }
}

TEST_F(Faulty, I4_WritesToFreedMemoryAreSeen) {
  std::byte* memory = must(device().allocate(200'000));
  device().free(memory);
  write(memory + 150'000, 1);
  std::byte* pinned = must(device().allocate_pinned(100));
  device().free_pinned(pinned);
  pinned[40] = std::byte{1};
  const auto violations = device().violations();
  ASSERT_EQ(violations.size(), 2u);
  const std::string all = violations[0] + violations[1];
  EXPECT_NE(all.find("(200000 bytes) was written to: byte 150000"), std::string::npos) << all;
  EXPECT_NE(all.find("(100 bytes) was written to: byte 40"), std::string::npos) << all;
}

TEST_F(Faulty, I4_WhatWasNotMadeHereIsNotDestroyed) {
  std::byte* memory = must(device().allocate(16));
  device().retain(memory);
  device().free(memory);
  device().free_pinned(memory);
  device().free(memory + 1);
  device().destroy_event(Event{999});
  device().destroy_stream(stream_);
  device().destroy_stream(stream_);
  device().destroy_graph(Graph{});  // none
  EXPECT_EQ(device().violations().size(), 5u);
}

TEST_F(Faulty, I2_AFaultComesBeforeOrAfterTheCall) {
  std::byte* memory = must(device().allocate(16));
  std::byte* pinned = must(device().allocate_pinned(16));
  std::memset(pinned, 9, 16);
  const auto written = [&] {
    std::byte* back = must(device().allocate_pinned(16));
    must(device().download(back, memory, 16, stream_));
    finish();
    return back[3] == std::byte{9};
  };
  device().faults().fail_next(Call::upload, 1, FaultMode::before);
  EXPECT_EQ(device().upload(memory, pinned, 16, stream_).code(), Code::device_error);
  EXPECT_FALSE(written());
  device().faults().fail_next(Call::upload, 1, FaultMode::after);
  EXPECT_EQ(device().upload(memory, pinned, 16, stream_).code(), Code::device_error);
  EXPECT_TRUE(written());
  EXPECT_EQ(device().calls(Call::upload), 2u);
  EXPECT_EQ(device().faults().injected(), 2u);

  const std::size_t events = device().live_events();
  device().faults().fail_next(Call::create_event, 1, FaultMode::after);
  EXPECT_FALSE(device().create_event().ok());
  EXPECT_EQ(device().live_events(), events + 1);  // nobody has its handle; it goes with the device
}

TEST_F(Faulty, F_AfterALossEveryCallIsRefusedAndCounted) {
  std::byte* memory = must(device().allocate(16));
  device().faults().fail_next(Call::query, 1, FaultMode::sticky);
  EXPECT_EQ(device().query(done_).status().code(), Code::device_lost);
  EXPECT_EQ(device().calls_after_loss(), 0u);
  EXPECT_EQ(device().record(done_, stream_).code(), Code::device_lost);
  EXPECT_EQ(device().allocate(16).status().code(), Code::device_lost);
  EXPECT_EQ(device().capture_state(stream_).status().code(), Code::device_lost);
  EXPECT_EQ(device().calls_after_loss(), 3u);
  device().free(memory);
  device().destroy_event(done_);
  EXPECT_EQ(device().violations(), std::vector<std::string>{});
}

TEST_F(Faulty, E_TheMemoryLimitCountsWhatIsInUse) {
  make({1, true, 1000});
  std::byte* memory = must(device().allocate(600));
  EXPECT_EQ(device().allocate(500).status().code(), Code::exhausted);
  EXPECT_TRUE(device().allocate_pinned(5000).ok());
  device().free(memory);
  EXPECT_TRUE(device().allocate(1000).ok());
}

TEST_F(Faulty, I4_WhatIsLeftGoesWithTheDevice) {
  const std::size_t events = host_->live_events();
  must(host_->begin_capture(stream_));
  must(host_->compute(stream_, [] {}));
  const Graph graph = must(host_->end_capture(stream_));
  device().adopt(graph);
  (void)must(device().clone(graph));
  (void)must(device().instantiate(graph, 0));
  (void)must(device().allocate(16));
  std::byte* const kept = must(device().allocate(16));
  device().retain(kept);
  (void)must(device().allocate_pinned(16));
  EXPECT_EQ(device().live_allocations(), 2u);
  device_.reset();
  EXPECT_EQ(host_->live_graphs(), 0u);
  EXPECT_EQ(host_->live_execs(), 0u);
  EXPECT_EQ(host_->live_allocations(), 0u);
  EXPECT_LT(host_->live_events(), events);
}

}  // namespace
}  // namespace graphtap
