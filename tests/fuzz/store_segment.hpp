#pragma once
// Segments made of fuzzed bytes whose checksums are right, so that what is behind the checksums is
// reached too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "store/checksum.hpp"
#include "store/format.hpp"

namespace graphtap::fuzz {

/// Gives every frame in `bytes` a head and a commit that fit; lengths that do not fit are cut.
inline void repair_segment(std::vector<std::byte>& bytes) {
  using namespace store;
  SegmentHead segment{};
  if (bytes.size() < sizeof(segment)) return;
  std::memcpy(&segment, bytes.data(), sizeof(segment));
  std::memcpy(segment.magic, kSegmentMagic, sizeof(segment.magic));
  segment.major = kMajor;
  segment.head_bytes = sizeof(segment);
  segment.number = 1;
  segment.checksum = checksum_before_last(segment);
  std::memcpy(bytes.data(), &segment, sizeof(segment));
  std::uint32_t sequence = 0;
  std::size_t at = sizeof(segment);
  while (bytes.size() - at >= sizeof(FrameHead) + sizeof(FrameCommit)) {
    std::size_t room =
        (bytes.size() - at - sizeof(FrameHead) - sizeof(FrameCommit)) / kAlign * kAlign;
    FrameHead head{};
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    const auto take = [&room](std::uint64_t wanted) {
      const auto taken = std::min<std::uint64_t>(wanted / kAlign * kAlign, room);
      room -= taken;
      return taken;
    };
    head.magic = kFrameMagic;
    head.nonce = segment.nonce;
    head.offset = at;
    head.sequence = sequence++;
    head.meta_bytes = static_cast<std::uint32_t>(take(head.meta_bytes));
    head.payload_bytes = take(head.payload_bytes);
    head.tail_bytes = static_cast<std::uint32_t>(take(head.tail_bytes));
    head.checksums = std::min<std::uint32_t>(head.checksums, head.tail_bytes / 8);
    const std::span<const std::byte> meta(bytes.data() + at + sizeof(head), head.meta_bytes);
    head.meta_checksum = checksum(meta);
    head.checksum = checksum_before_last(head);
    std::memcpy(bytes.data() + at, &head, sizeof(head));
    const std::size_t tail = at + sizeof(head) + head.meta_bytes + head.payload_bytes;
    FrameCommit commit{};
    commit.magic = kCommitMagic;
    commit.frame_bytes = tail - at + head.tail_bytes + sizeof(commit);
    commit.tail_checksum = checksum(std::span(bytes).subspan(tail, head.tail_bytes));
    commit.checksum = checksum_before_last(commit, head.checksum);
    std::memcpy(bytes.data() + tail + head.tail_bytes, &commit, sizeof(commit));
    at += commit.frame_bytes;
  }
}

}  // namespace graphtap::fuzz
