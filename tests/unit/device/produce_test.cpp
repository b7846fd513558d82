// What a device's producers write, byte for byte, against the definition in
// device/host/producer.hpp: random calls of every kind, captured and eager, with nothing but the
// planned ranges allowed to change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/host/producer.hpp"
#include "support/engine.hpp"
#include "unit/device/random_calls.hpp"

namespace graphtap {
namespace {

using namespace test;  // random_calls.hpp

std::uint64_t cases() {
  const char* text = std::getenv("GRAPHTAP_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 2000;
}

class Produce : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = testing::make_engine();
    stream_ = device().create_stream().value_or_throw();
    done_ = device().create_event().value_or_throw();
    image_ = device().allocate(kImageBytes).value_or_throw();
    transfer_ = device().allocate_pinned(kImageBytes).value_or_throw();
    expected_ = device().allocate_pinned(kImageBytes).value_or_throw();
  }
  Device& device() { return *engine_->device(); }
  static void set_frame(std::byte* image, const std::byte* frame) {
    const auto address = reinterpret_cast<std::uintptr_t>(frame);
    std::memcpy(image + kHeaderAt + offsetof(wire::StepHeader, frame), &address, sizeof(address));
  }
  void finish() {
    ASSERT_TRUE(device().record(done_, stream_).ok());
    ASSERT_TRUE(device().synchronize(done_).ok());
  }
  void produce(const std::vector<Sketch>& calls, bool eager) {
    for (const Sketch& sketch : calls) {
      if (sketch.eager != eager) continue;
      const Status status = device().produce(sketch.at(image_), stream_);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
  // Those with a header as a graph that is captured, instantiated and launched, or one by one; then
  // those without.
  void run(const RandomCalls& made, bool captured) {
    std::memcpy(transfer_, expected_, kImageBytes);
    set_frame(transfer_, image_ + kFrameAt);
    ASSERT_TRUE(device().upload(image_, transfer_, kImageBytes, stream_).ok());
    Graph graph{};
    Exec exec{};
    if (captured) {
      ASSERT_TRUE(engine_->begin_capture(stream_).ok());
      produce(made.calls(), false);
      graph = engine_->end_capture(stream_).value_or_throw();
      exec = device().instantiate(graph, 0).value_or_throw();
      ASSERT_TRUE(device().launch(exec, stream_).ok());
    } else {
      produce(made.calls(), false);
    }
    produce(made.calls(), true);
    if (made.close()) {
      auto* const header = reinterpret_cast<wire::StepHeader*>(image_ + kHeaderAt);
      ASSERT_TRUE(device().close_step(header, stream_).ok());
    }
    ASSERT_TRUE(device().download(transfer_, image_, kImageBytes, stream_).ok());
    finish();
    device().destroy_exec(exec);
    device().destroy_graph(graph);
  }
  // The same on the host, by the definition.
  void run_expected(const RandomCalls& made) {
    set_frame(expected_, expected_ + kFrameAt);
    for (const bool eager : {false, true}) {
      for (const Sketch& sketch : made.calls()) {
        if (sketch.eager == eager) run_producer(sketch.at(expected_));
      }
    }
    if (made.close()) run_close_step(reinterpret_cast<wire::StepHeader*>(expected_ + kHeaderAt));
    set_frame(transfer_, expected_ + kFrameAt);
  }
  [[nodiscard]] std::string difference() const {
    const auto [wrong, right] = std::mismatch(transfer_, transfer_ + kImageBytes, expected_);
    if (wrong == transfer_ + kImageBytes) return {};
    const auto at = static_cast<std::size_t>(wrong - transfer_);
    const std::string where = at < kHeaderAt ? "before the header, byte " + std::to_string(at)
                              : at < kFrameAt
                                  ? "in the header, byte " + std::to_string(at - kHeaderAt)
                                  : "in the frame, byte " + std::to_string(at - kFrameAt);
    return where + ": " + std::to_string(std::to_integer<int>(*wrong)) + " instead of " +
           std::to_string(std::to_integer<int>(*right));
  }

  std::unique_ptr<testing::Engine> engine_;
  Stream stream_{};
  Event done_{};
  std::byte* image_ = nullptr;
  std::byte* transfer_ = nullptr;
  std::byte* expected_ = nullptr;
};

TEST_F(Produce, I4_B3_EveryByteIsWhatTheDefinitionSaysAndNoOtherChanges) {
  Seen seen;
  int failed = 0;
  std::uint64_t written = 0;
  for (std::uint64_t seed = 1; seed <= cases() && failed < 5; ++seed) {
    const RandomCalls made(seed, {expected_, kImageBytes}, seen);
    run(made, seed % 2 == 0);
    if (HasFatalFailure()) return;
    run_expected(made);
    const auto record =
        std::find_if(expected_ + kFrameAt + wire::census_bytes(kMostSlots), expected_ + kImageBytes,
                     [](std::byte b) { return b != kUntouched; });
    written += record != expected_ + kImageBytes;
    const std::string wrong = difference();
    if (wrong.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << ": " << wrong;
  }
  EXPECT_EQ(engine_->violations(), std::vector<std::string>{});
  EXPECT_GE(written, cases() / 2);
  if (cases() < 500) return;
  for (const std::uint64_t count : {seen.flat, seen.strided, seen.sums, seen.chunked, seen.eager,
                                    seen.off, seen.lists, seen.bad_lists, seen.clamped, seen.odd,
                                    seen.beyond, seen.negative_counts, seen.huge_counts}) {
    EXPECT_GE(count, 20u);
  }
}

}  // namespace
}  // namespace graphtap
