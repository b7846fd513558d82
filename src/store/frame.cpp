#include "store/frame.hpp"

#include <cstring>
#include <limits>

#include "store/checksum.hpp"

namespace graphtap::store {
namespace {

bool read_head(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t nonce,
               FrameHead& head) {
  if (offset % kAlign != 0 || offset > file.size() || file.size() - offset < sizeof(head))
    return false;
  std::memcpy(&head, file.data() + offset, sizeof(head));
  return head.magic == kFrameMagic && head.nonce == nonce && head.offset == offset &&
         head.checksum == checksum_before_last(head);
}

/// What the head says its frame takes; the largest number if it makes no sense.
std::uint64_t frame_size(const FrameHead& head) {
  constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 62;
  const bool aligned = head.meta_bytes % kAlign == 0 && head.payload_bytes % kAlign == 0 &&
                       head.tail_bytes % kAlign == 0;
  if (!aligned || head.payload_bytes > kMostPayload ||
      std::uint64_t{head.checksums} * sizeof(std::uint64_t) > head.tail_bytes) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return sizeof(FrameHead) + std::uint64_t{head.meta_bytes} + head.payload_bytes + head.tail_bytes +
         sizeof(FrameCommit);
}

}  // namespace

const char* describe(FrameState state) noexcept {
  switch (state) {
    case FrameState::whole:
      return "whole";
    case FrameState::bad_head:
      return "the head of a frame is damaged: the frame is lost";
    case FrameState::past_end:
      return "the segment ends inside a frame";
    case FrameState::not_committed:
      return "the end of a frame is damaged: the frame is lost";
    case FrameState::bad_meta:
      return "the description of a frame does not match its checksum: the frame is lost";
  }
  return "unknown";
}

FrameState read_frame(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t nonce,
                      Frame& out) {
  out = Frame{};
  if (!read_head(file, offset, nonce, out.head)) return FrameState::bad_head;
  out.bytes = frame_size(out.head);
  if (out.bytes > file.size() - offset) return FrameState::past_end;
  const std::span<const std::byte> frame = file.subspan(offset, out.bytes);
  const std::span<const std::byte> tail =
      frame.subspan(out.bytes - sizeof(FrameCommit) - out.head.tail_bytes, out.head.tail_bytes);
  FrameCommit commit{};
  std::memcpy(&commit, frame.data() + out.bytes - sizeof(commit), sizeof(commit));
  if (commit.magic != kCommitMagic || commit.frame_bytes != out.bytes ||
      commit.checksum != checksum_before_last(commit, out.head.checksum) ||
      commit.tail_checksum != checksum(tail)) {
    return FrameState::not_committed;
  }
  out.payload = frame.subspan(sizeof(FrameHead) + out.head.meta_bytes, out.head.payload_bytes);
  out.checksums = Table<std::uint64_t>(tail.data(), out.head.checksums, sizeof(std::uint64_t));
  const std::span<const std::byte> meta = frame.subspan(sizeof(FrameHead), out.head.meta_bytes);
  if (checksum(meta) != out.head.meta_checksum) return FrameState::bad_meta;
  out.meta = meta;
  return FrameState::whole;
}

std::uint64_t find_frame(std::span<const std::byte> file, std::uint64_t from, std::uint64_t nonce) {
  FrameHead head{};
  for (std::uint64_t at = align_up(from); at < file.size(); at += kAlign) {
    if (file.size() - at < sizeof(FrameHead)) break;
    std::uint32_t magic = 0;
    std::memcpy(&magic, file.data() + at, sizeof(magic));
    if (magic == kFrameMagic && read_head(file, at, nonce, head)) return at;
  }
  return file.size();
}

}  // namespace graphtap::store
