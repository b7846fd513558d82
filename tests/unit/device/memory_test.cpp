#include <gtest/gtest.h>

#include "device/host/host_device.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::address;
using test::BothModes;
using test::HeaderImage;
using test::must;

class Memory : public BothModes {
 protected:
  // A header on the device with one slot whose record is 64 bytes into `frame`.
  wire::StepHeader* header_for(const std::byte* frame) {
    HeaderImage image(1, 0);
    image.head().ticket = 5;
    image.head().frame = address(frame);
    image.slot(0) = {4, 1, wire::kAllRows, 1};
    std::byte* memory = must(device().allocate(image.size()));
    std::memcpy(memory, image.data(), image.size());
    return reinterpret_cast<wire::StepHeader*>(memory);
  }
  ProducerCall call_for(wire::StepHeader* header, const std::byte* source) {
    ProducerCall call;
    call.id = {1, 0, 0};
    call.header = header;
    call.source.data = source;
    call.source.rows = 1;
    call.source.part_bytes = 16;
    return call;
  }
};

TEST_P(Memory, B3_ComesZeroedAndAligned) {
  std::byte* memory = must(device().allocate(1000));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(memory[i], std::byte{0});
  EXPECT_EQ(address(memory) % 256, 0u);
  EXPECT_EQ(device().allocated_bytes(), 1000u);
  std::memset(memory, 1, 1000);
  device().free(memory);
  EXPECT_EQ(memory[0], std::byte{0xDD});
  EXPECT_EQ(device().allocated_bytes(), 0u);
  EXPECT_EQ(device().live_allocations(), 0u);
}

TEST_P(Memory, E_RefusesWhatItDoesNotHave) {
  HostDevice small(HostOptions{GetParam(), 1, 0.5, true, 1000});
  std::byte* memory = must(small.allocate(600));
  const auto refused = small.allocate(600);
  EXPECT_EQ(refused.status().code(), Code::exhausted);
  EXPECT_NE(refused.status().message().find("cudaErrorMemoryAllocation: 600 bytes"),
            std::string::npos);
  EXPECT_TRUE(small.allocate_pinned(600).ok());
  small.free(memory);
  EXPECT_TRUE(small.allocate(600).ok());
  EXPECT_EQ(small.allocate(0).status().code(), Code::invalid_argument);
  EXPECT_EQ(small.allocate(std::size_t{1} << 62).status().code(), Code::exhausted);
}

TEST_P(Memory, I4_ARecordOutsideOfLiveMemoryIsAViolationAndIsNotWritten) {
  std::byte* frame = must(device().allocate(128));
  std::byte* source = must(device().allocate(16));
  wire::StepHeader* header = header_for(frame);
  must(device().produce(call_for(header, source), inline_stream()));
  EXPECT_EQ(device().containment_violations(), 0u);
  EXPECT_EQ(test::head_at(frame + 64).ticket, 5u);

  header->frame += 32;  // the record now ends 16 bytes behind the allocation
  must(device().produce(call_for(header, source), inline_stream()));
  EXPECT_EQ(device().containment_violations(), 1u);
  EXPECT_EQ(test::head_at(frame + 96).ticket, 0u);

  header->frame -= 32;
  device().free(frame);
  must(device().produce(call_for(header, source), inline_stream()));
  EXPECT_EQ(device().containment_violations(), 2u);
  EXPECT_EQ(frame[64], std::byte{0xDD});
  ASSERT_EQ(device().violations().size(), 2u);
  EXPECT_NE(device().violations()[1].find("hook 1, ordinal 0 writes 48 bytes"), std::string::npos)
      << device().violations()[1];
}

TEST_P(Memory, I4_AFreedHeaderSourceOrListIsAViolation) {
  std::byte* frame = must(device().allocate(128));
  std::byte* source = must(device().allocate(16));
  wire::StepHeader* header = header_for(frame);

  ProducerCall eager = call_for(nullptr, source);
  eager.ticket = 7;
  eager.frame = frame;
  eager.plan = {4, 1, 0, 1};
  std::byte* list = must(device().allocate(4));
  eager.list = reinterpret_cast<const std::uint32_t*>(list);
  must(device().produce(eager, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 0u);
  device().free(list);
  must(device().produce(eager, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 1u);

  device().free(source);
  must(device().produce(call_for(header, source), inline_stream()));
  EXPECT_EQ(device().containment_violations(), 2u);

  device().free(reinterpret_cast<std::byte*>(header));
  must(device().produce(call_for(header, frame), inline_stream()));
  must(device().close_step(header, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 4u);
}

TEST_P(Memory, I4_ACensusOutsideOfLiveMemoryIsAViolation) {
  std::byte* frame = must(device().allocate(256));
  std::byte* source = must(device().allocate(16));
  wire::StepHeader* header = header_for(frame);
  header->frame -= 64;  // the record is where live memory is, its count is not
  must(device().produce(call_for(header, source), inline_stream()));
  EXPECT_EQ(device().containment_violations(), 1u);
  EXPECT_EQ(test::head_at(frame).ticket, 0u);
  must(device().zero(frame - 64, 16, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 2u);
}

TEST_P(Memory, I4_CopiesAreChecked) {
  std::byte* memory = must(device().allocate(64));
  std::byte* pinned = must(device().allocate_pinned(64));
  must(device().upload(memory, pinned, 64, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 0u);
  must(device().upload(memory + 1, pinned, 64, inline_stream()));  // its second half reaches out
  EXPECT_EQ(device().containment_violations(), 1u);
  must(device().upload(pinned, memory, 1, inline_stream()));  // mixed up
  EXPECT_EQ(device().containment_violations(), 2u);
  device().free_pinned(pinned);
  must(device().download(pinned, memory, 1, inline_stream()));
  EXPECT_EQ(device().containment_violations(), 3u);
  EXPECT_EQ(pinned[0], std::byte{0xDD});
  must(device().fill(inline_stream(), memory + 60, std::byte{1}, 5));
  EXPECT_EQ(device().containment_violations(), 4u);
}

TEST_P(Memory, I4_FreeingTwiceIsAViolation) {
  std::byte* memory = must(device().allocate(64));
  device().free_pinned(memory);
  EXPECT_EQ(device().containment_violations(), 1u);
  device().free(memory);
  device().free(memory);
  device().free(memory + 8);
  EXPECT_EQ(device().containment_violations(), 3u);
  device().free(nullptr);
  EXPECT_EQ(device().containment_violations(), 3u);
}

TEST_P(Memory, A13_RetainedMemoryStaysUntilTheDeviceGoes) {
  std::byte* memory = must(device().allocate(64));
  device().retain(memory);
  EXPECT_EQ(device().live_allocations(), 0u);
  must(device().fill(inline_stream(), memory, std::byte{1}, 64));
  EXPECT_EQ(device().containment_violations(), 0u);
  device().free(memory);
  EXPECT_EQ(device().containment_violations(), 1u);
  EXPECT_EQ(memory[0], std::byte{1});
}

TEST_P(Memory, B3_WithoutQuarantineMemoryIsReallyFreed) {
  HostDevice plain(HostOptions{GetParam(), 1, 0.5, false, 0});
  std::byte* memory = must(plain.allocate(64));
  plain.free(memory);
  must(plain.fill(inline_stream(), memory, std::byte{1}, 64));
  EXPECT_EQ(plain.containment_violations(), 1u);
  EXPECT_EQ(must(plain.allocate_pinned(8))[0], std::byte{0});
}

GRAPHTAP_IN_BOTH_MODES(Memory);

}  // namespace
}  // namespace graphtap
