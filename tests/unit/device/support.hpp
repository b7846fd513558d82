#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/host/host_device.hpp"

namespace graphtap::test {

/// A step header as it is uploaded, 16-byte aligned, in host memory.
class HeaderImage {
 public:
  HeaderImage(std::uint32_t slots, std::uint32_t list_entries)
      : units_(wire::header_bytes(slots, list_entries) / sizeof(wire::SlotPlan)) {
    head().slots = slots;
    head().list_entries = list_entries;
  }
  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(units_.data()); }
  [[nodiscard]] std::size_t size() const { return units_.size() * sizeof(wire::SlotPlan); }
  [[nodiscard]] wire::StepHeader& head() { return *reinterpret_cast<wire::StepHeader*>(data()); }
  [[nodiscard]] wire::SlotPlan& slot(std::uint32_t i) {
    return reinterpret_cast<wire::SlotPlan*>(data() + wire::slots_offset())[i];
  }
  [[nodiscard]] std::uint32_t& list(std::uint32_t i) {
    return reinterpret_cast<std::uint32_t*>(data() + wire::lists_offset(head().slots))[i];
  }

 private:
  std::vector<wire::SlotPlan> units_;
};

[[nodiscard]] inline std::uint64_t address(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}
[[nodiscard]] inline wire::RecordHead head_at(const std::byte* record) {
  wire::RecordHead head;
  std::memcpy(&head, record, sizeof(head));
  return head;
}

/// A host device as the tests use it: freed memory stays, so that any use of it is seen.
[[nodiscard]] inline std::unique_ptr<HostDevice> make_device(HostMode mode, std::uint64_t seed = 1,
                                                             double advance = 0.5) {
  return std::make_unique<HostDevice>(HostOptions{mode, seed, advance, true, 0});
}

/// The value, or a failed test that says why there is none.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    return T{};
  }
  return std::move(result).value_or_throw();
}
inline void must(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

[[nodiscard]] inline std::string mode_name(HostMode mode) {
  return mode == HostMode::threaded ? "threaded" : "cooperative";
}

/// Keeps a stream from advancing until release(): by an operation that blocks, or, cooperatively,
/// by leaving all progress to whoever waits.
class Hold {
 public:
  Hold(HostDevice& device, HostMode mode, Stream stream) : device_(device), mode_(mode) {
    if (mode == HostMode::cooperative) {
      device.set_advance(0);
    } else {
      must(device.compute(stream, [gate = gate_.get_future().share()] { gate.wait(); }));
    }
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void release() {
    if (std::exchange(released_, true)) return;
    if (mode_ == HostMode::cooperative) {
      device_.set_advance(0.5);
    } else {
      gate_.set_value();
    }
  }

 private:
  HostDevice& device_;
  HostMode mode_;
  std::promise<void> gate_;
  bool released_ = false;
};

/// Tests that hold in both builds of the device.
class BothModes : public ::testing::TestWithParam<HostMode> {
 protected:
  std::unique_ptr<HostDevice> device_ = make_device(GetParam());
  HostDevice& device() { return *device_; }
};
inline std::string mode_of(const ::testing::TestParamInfo<HostMode>& info) {
  return mode_name(info.param);
}

}  // namespace graphtap::test

#define GRAPHTAP_IN_BOTH_MODES(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                                 \
      Host, suite,                                                                          \
      ::testing::Values(::graphtap::HostMode::cooperative, ::graphtap::HostMode::threaded), \
      ::graphtap::test::mode_of)
