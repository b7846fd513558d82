#include "device/host/faults.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::make_device;
using test::must;

// A device with one of everything, so that any call can be made and its effect seen.
class Everything {
 public:
  explicit Everything(HostMode mode) : device(make_device(mode)) {
    memory = must(device->allocate(512));
    pinned = must(device->allocate_pinned(512));
    std::memset(pinned, 1, 512);
    memory[0] = std::byte{2};
    stream = must(device->create_stream());
    capturing = must(device->create_stream());
    event = must(device->create_event());
    must(device->begin_capture(stream));
    must(device->compute(stream, [] {}));
    must(device->produce(producer(), stream));
    must(device->compute(stream, [this] { ++launched; }));
    graph = must(device->end_capture(stream));
    node = device->nodes(graph)[1];
    clone = must(device->clone(graph));
    exec = must(device->instantiate(graph, 0));
    must(device->begin_capture(capturing));
    must(device->compute(capturing, [] {}));
  }
  [[nodiscard]] ProducerCall producer() const {
    ProducerCall call;
    call.header = reinterpret_cast<wire::StepHeader*>(memory + 256);
    call.source.data = memory;
    call.source.rows = 1;
    call.source.part_bytes = 16;
    return call;
  }
  wire::StepHeader& header() { return *reinterpret_cast<wire::StepHeader*>(memory + 256); }

  std::unique_ptr<HostDevice> device;
  std::byte* memory = nullptr;
  std::byte* pinned = nullptr;
  Stream stream{};
  Stream capturing{};
  Event event{};
  Graph graph{};
  Graph clone{};
  Node node{};
  Exec exec{};
  int launched = 0;
};

struct Case {
  Call call;
  std::function<Status(Everything&)> make;
  // A number that changes when the call was carried out; null for calls that only ask.
  std::function<std::uint64_t(Everything&)> effect;
};

std::vector<Case> all_cases() {
  return {
      {Call::allocate, [](Everything& e) { return e.device->allocate(16).status(); },
       [](Everything& e) { return e.device->live_allocations(); }},
      {Call::allocate_pinned, [](Everything& e) { return e.device->allocate_pinned(16).status(); },
       [](Everything& e) { return e.device->live_allocations(); }},
      {Call::create_stream, [](Everything& e) { return e.device->create_stream().status(); },
       [](Everything& e) { return e.device->compute(Stream{4}, [] {}).ok() ? 1u : 0u; }},
      {Call::create_event, [](Everything& e) { return e.device->create_event().status(); },
       [](Everything& e) { return e.device->live_events(); }},
      {Call::record, [](Everything& e) { return e.device->record(e.event, e.capturing); },
       // Recorded in the capture, the event can no longer be asked about.
       [](Everything& e) { return e.device->query(e.event).ok() ? 0u : 1u; }},
      {Call::wait,
       [](Everything& e) {
         must(e.device->record(e.event, e.capturing));
         return e.device->wait(e.stream, e.event);
       },
       [](Everything& e) { return e.device->capture_state(e.stream).value().capturing ? 1u : 0u; }},
      {Call::query, [](Everything& e) { return e.device->query(e.event).status(); }, nullptr},
      {Call::synchronize, [](Everything& e) { return e.device->synchronize(e.event); }, nullptr},
      {Call::upload,
       [](Everything& e) { return e.device->upload(e.memory, e.pinned, 16, inline_stream()); },
       [](Everything& e) { return std::to_integer<std::uint64_t>(e.memory[0]); }},
      {Call::download,
       [](Everything& e) { return e.device->download(e.pinned, e.memory, 16, inline_stream()); },
       [](Everything& e) { return std::to_integer<std::uint64_t>(e.pinned[0]); }},
      {Call::zero, [](Everything& e) { return e.device->zero(e.memory, 16, inline_stream()); },
       [](Everything& e) { return std::to_integer<std::uint64_t>(e.memory[0]); }},
      {Call::close_step,
       [](Everything& e) {
         e.header().ticket = 3;
         e.header().frame = test::address(e.memory);
         return e.device->close_step(&e.header(), inline_stream());
       },
       [](Everything& e) { return e.header().ticket == 3 ? 0u : e.header().ticket; }},
      {Call::produce,
       [](Everything& e) { return e.device->produce(e.producer(), inline_stream()); },
       [](Everything& e) { return e.device->producers_run(); }},
      {Call::capture_state,
       [](Everything& e) { return e.device->capture_state(e.capturing).status(); }, nullptr},
      {Call::captured_tail,
       [](Everything& e) { return e.device->captured_tail(e.capturing).status(); }, nullptr},
      {Call::inspect, [](Everything& e) { return e.device->inspect(e.graph, e.node).status(); },
       nullptr},
      {Call::cloneable, [](Everything& e) { return e.device->cloneable(e.graph); }, nullptr},
      {Call::clone, [](Everything& e) { return e.device->clone(e.graph).status(); },
       [](Everything& e) { return e.device->live_graphs(); }},
      {Call::find_in_clone,
       [](Everything& e) { return e.device->find_in_clone(e.clone, e.node).status(); }, nullptr},
      {Call::remove_node,
       [](Everything& e) { return e.device->remove_node(e.clone, e.device->nodes(e.clone)[1]); },
       [](Everything& e) { return e.device->nodes(e.clone).size(); }},
      {Call::instantiate, [](Everything& e) { return e.device->instantiate(e.graph, 0).status(); },
       [](Everything& e) { return e.device->live_execs(); }},
      {Call::set_enabled,
       [](Everything& e) { return e.device->set_enabled(e.exec, e.node, false); },
       [](Everything& e) { return e.device->enabled(e.exec, e.node).value() ? 1u : 0u; }},
      {Call::launch, [](Everything& e) { return e.device->launch(e.exec, inline_stream()); },
       [](Everything& e) { return static_cast<std::uint64_t>(e.launched); }},
  };
}

class FaultsEverywhere : public ::testing::TestWithParam<HostMode> {};

TEST_P(FaultsEverywhere, A7_EveryCallCanFailBeforeOrAfterItIsCarriedOut) {
  const auto cases = all_cases();
  ASSERT_EQ(cases.size(), kCalls);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& now = cases[i];
    const std::string name = to_string(now.call);
    ASSERT_EQ(static_cast<std::size_t>(now.call), i) << "a call is missing before " << name;
    for (const FaultMode mode : {FaultMode::before, FaultMode::after}) {
      Everything all(GetParam());
      // close_step's own preparation decides its effect, the others compare before with after.
      const bool compared = now.effect && now.call != Call::close_step;
      const std::uint64_t before = compared ? now.effect(all) : 0;
      const std::uint64_t calls = all.device->calls(now.call);
      all.device->faults().fail_next(now.call, 1, mode);
      const Status status = now.make(all);
      EXPECT_TRUE(status.code() == Code::device_error || status.code() == Code::exhausted) << name;
      EXPECT_NE(status.message().find("(injected, " + name + ")"), std::string::npos)
          << status.message();
      EXPECT_EQ(status.message().rfind("cudaError", 0), 0u) << status.message();
      EXPECT_EQ(all.device->faults().injected(now.call, mode), 1u) << name;
      EXPECT_EQ(all.device->faults().injected(), 1u) << name;
      EXPECT_EQ(all.device->calls(now.call), calls + 1) << name;
      if (now.call == Call::close_step) {
        EXPECT_EQ(all.header().ticket, mode == FaultMode::after ? 0u : 3u);
      } else if (compared) {
        EXPECT_EQ(now.effect(all) != before, mode == FaultMode::after)
            << name << " " << to_string(mode);
      }
      EXPECT_TRUE(now.make(all).ok() || mode == FaultMode::after)
          << name << ": only one was on order";
    }
  }
}

TEST_P(FaultsEverywhere, A7_AStickyFaultLosesTheDeviceForEveryCall) {
  for (const Case& first : all_cases()) {
    Everything all(GetParam());
    all.device->faults().fail_next(first.call, 1, FaultMode::sticky);
    EXPECT_EQ(first.make(all).code(), Code::device_lost) << to_string(first.call);
    EXPECT_TRUE(all.device->faults().lost());
    EXPECT_EQ(all.device->calls_after_loss(), 0u);
    EXPECT_EQ(all.device->compute(all.stream, [] {}).code(), Code::device_lost);
    if (first.call != Call::record) continue;
    for (const Case& later : all_cases()) {
      if (later.call == Call::wait || later.call == Call::remove_node) continue;
      EXPECT_EQ(later.make(all).code(), Code::device_lost) << to_string(later.call);
    }
    EXPECT_EQ(all.device->calls_after_loss(), kCalls - 2);
    EXPECT_EQ(all.device->faults().injected(), 1u);
    all.device->free(all.memory);
    all.device->free_pinned(all.pinned);
    EXPECT_EQ(all.device->live_allocations(), 0u);
  }
}

TEST_P(FaultsEverywhere, A7_ALostDeviceRunsNothingMoreAndNobodyWaits) {
  const auto device = make_device(GetParam());
  const Stream stream = must(device->create_stream());
  const Event event = must(device->create_event());
  int ran = 0;
  std::promise<void> started;
  std::promise<void> gate;
  device->set_advance(0);
  if (GetParam() == HostMode::threaded) {
    must(device->compute(stream, [&] {
      started.set_value();
      gate.get_future().wait();
    }));
    started.get_future().wait();
  }
  must(device->compute(stream, [&] { ++ran; }));
  must(device->record(event, stream));
  std::thread waiter([&] {
    EXPECT_EQ(device->synchronize(event).code(),
              GetParam() == HostMode::threaded ? Code::device_lost : Code::ok);
  });
  if (GetParam() == HostMode::cooperative) waiter.join();  // there the waiter itself runs it
  const int before = ran;
  must(device->compute(stream, [&] { ++ran; }));
  device->faults().fail_next(Call::create_event, 1, FaultMode::sticky);
  EXPECT_EQ(device->create_event().status().code(), Code::device_lost);
  if (waiter.joinable()) waiter.join();  // although the stream is still held
  gate.set_value();
  device->run_until_idle();
  EXPECT_EQ(ran, before);
}

INSTANTIATE_TEST_SUITE_P(Host, FaultsEverywhere,
                         ::testing::Values(HostMode::cooperative, HostMode::threaded),
                         test::mode_of);

TEST(Faults, A7_OrdersCanSkipAndBeForgotten) {
  Faults faults(1);
  faults.fail_next(Call::launch, 2, FaultMode::before, 1);
  EXPECT_TRUE(faults.judge(Call::launch).status.ok());
  EXPECT_TRUE(faults.judge(Call::record).status.ok());
  EXPECT_FALSE(faults.judge(Call::launch).status.ok());
  EXPECT_FALSE(faults.judge(Call::launch).status.ok());
  EXPECT_TRUE(faults.judge(Call::launch).status.ok());
  faults.fail_next(Call::launch, 9, FaultMode::before);
  faults.clear();
  EXPECT_TRUE(faults.judge(Call::launch).status.ok());
  EXPECT_EQ(faults.injected(Call::launch, FaultMode::before), 2u);
}

TEST(Faults, A7_RatesAreMetAndSeeded) {
  const auto pattern = [](std::uint64_t seed) {
    Faults faults(seed);
    faults.set_rate(Call::upload, 0.1, FaultMode::before);
    faults.set_rate(Call::upload, 0.2, FaultMode::after);
    std::string result;
    for (int i = 0; i < 5000; ++i) result += faults.judge(Call::upload).status.ok() ? '.' : 'x';
    EXPECT_NEAR(static_cast<double>(faults.injected(Call::upload, FaultMode::before)), 500, 100);
    EXPECT_NEAR(static_cast<double>(faults.injected(Call::upload, FaultMode::after)), 900, 130);
    return result;
  };
  EXPECT_EQ(pattern(3), pattern(3));
  EXPECT_NE(pattern(3), pattern(4));
}

TEST(Faults, A2_CallsAreCountedByKind) {
  const auto device = make_device(HostMode::cooperative);
  const Event event = must(device->create_event());
  (void)device->query(event);
  (void)device->query(event);
  EXPECT_EQ(device->calls(Call::query), 2u);
  EXPECT_EQ(device->calls(Call::launch), 0u);
  EXPECT_EQ(device->calls(), 3u);
}

}  // namespace
}  // namespace graphtap
