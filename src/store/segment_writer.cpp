#include "store/segment_writer.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace graphtap::store {
namespace {

constexpr std::size_t kChunkBytes = 1024u << 10;  // hashed at once
// Handed to the kernel at once: a call costs about 9 µs on ext4 besides the copying, and the
// copying is cheaper while what was hashed is still in a near cache.
constexpr std::size_t kBatchBytes = 2048u << 10;
constexpr std::size_t kMostParts = 1000;  // of one pwritev; the system's limit is 1024
// Room asked for ahead: writing into it takes a quarter less time on ext4. What a killed writer had
// asked for stays with its last segment.
constexpr std::uint64_t kReserveBytes = 8u << 20;
constexpr std::array<std::byte, kAlign> kPadding{};

}  // namespace

Result<std::unique_ptr<SegmentWriter>> SegmentWriter::create(FileOps& ops, const Layout& layout,
                                                             const SegmentIdentity& identity,
                                                             std::uint64_t number,
                                                             std::uint64_t expected_bytes) {
  const std::filesystem::path path = layout.segment(number);
  const int fd = ops.open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (fd < 0) {
    const int error = errno;
    const Status status = system_error(error, "creating", path);
    // "Exhausted" means the disk to those who would make room on it.
    const bool descriptors = error == EMFILE || error == ENFILE;
    return descriptors ? Status(Code::io_error, status.message()) : status;
  }
  std::unique_ptr<SegmentWriter> writer(
      new SegmentWriter(std::make_shared<File>(ops, fd), path, number));
  SegmentHead head{};
  std::memcpy(head.magic, kSegmentMagic, sizeof(head.magic));
  head.major = kMajor;
  head.minor = kMinor;
  head.head_bytes = sizeof(head);
  head.number = number;
  std::memcpy(head.run_id, identity.run_id.data(), sizeof(head.run_id));
  head.run_number = identity.run_number;
  head.nonce = random_number();
  head.created_unix_ns = unix_now_ns();
  std::memcpy(head.store_id, identity.store_id.data(), sizeof(head.store_id));
  head.checksum = checksum_before_last(head);
  iovec part{&head, sizeof(head)};
  if (write_fully(*writer->file_, std::span(&part, 1), 0) != 0) {
    const int error = errno;
    ops.unlink(path);
    return writer->fail(error);
  }
  writer->nonce_ = head.nonce;
  writer->size_ = sizeof(head);
  writer->expected_bytes_ = expected_bytes;
  return writer;
}

SegmentWriter::~SegmentWriter() {
  if (reserved_ > size_) file_->ops().release(file_->fd());
}

void SegmentWriter::reserve(std::uint64_t end) {
  if (end + kReserveBytes / 2 <= reserved_ || reserved_ >= expected_bytes_) return;
  const std::uint64_t begin = std::max(reserved_, size_);
  reserved_ = std::max(end, std::min(end + kReserveBytes, expected_bytes_));
  file_->ops().reserve(file_->fd(), static_cast<off_t>(begin),
                       static_cast<off_t>(reserved_ - begin));
}

std::uint64_t SegmentWriter::frame_bytes(std::span<const std::byte> meta,
                                         std::span<const std::span<const std::byte>> payloads) {
  std::uint64_t bytes = sizeof(FrameHead) + meta.size() + sizeof(FrameCommit);
  for (const auto& payload : payloads) bytes += align_up(payload.size());
  return bytes + align_up(payloads.size() * sizeof(std::uint64_t));
}

Status SegmentWriter::append(FrameKind kind, std::span<const std::byte> meta,
                             std::span<const std::span<const std::byte>> payloads) {
  if (fenced_) return {Code::io_error, path_.string() + ": an earlier write failed"};
  head_ = FrameHead{};
  head_.magic = kFrameMagic;
  head_.kind = static_cast<std::uint16_t>(kind);
  head_.nonce = nonce_;
  head_.offset = size_;
  head_.sequence = frames_;
  head_.meta_bytes = static_cast<std::uint32_t>(meta.size());
  for (const auto& payload : payloads) head_.payload_bytes += align_up(payload.size());
  head_.checksums = static_cast<std::uint32_t>(payloads.size());
  tail_.assign(align_up(payloads.size() * sizeof(std::uint64_t)) / sizeof(std::uint64_t), 0);
  head_.tail_bytes = static_cast<std::uint32_t>(tail_.size() * sizeof(std::uint64_t));
  head_.meta_checksum = checksum(meta);
  head_.checksum = checksum_before_last(head_);

  reserve(size_ + frame_bytes(meta, payloads));
  batch_.clear();
  batch_bytes_ = 0;
  written_ = size_;
#ifdef GRAPHTAP_BUG_store_commit_before_payload
  written_ = size_ + sizeof(head_) + meta.size() + head_.payload_bytes;
  if (Status s = write_end(); !s.ok()) return s;
  written_ = size_;
#endif
  push(std::as_bytes(std::span(&head_, 1)));
  push(meta);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    if (Status s = write_payload(payloads[i], tail_[i]); !s.ok()) return s;
  }
  if (Status s = write_end(); !s.ok()) return s;
  size_ = written_;
  ++frames_;
  return {};
}

Status SegmentWriter::write_payload(std::span<const std::byte> payload, std::uint64_t& sum) {
  const std::size_t padding = align_up(payload.size()) - payload.size();
  const bool whole = payload.size() <= kChunkBytes;
  if (whole) {
    sum = checksum(payload);
  } else {
    running_.reset();
  }
  while (!payload.empty()) {
    const auto chunk = payload.first(std::min(payload.size(), kChunkBytes));
    payload = payload.subspan(chunk.size());
    if (!whole) running_.add(chunk);
    push(chunk);
    if (batch_bytes_ >= kBatchBytes || batch_.size() >= kMostParts) {
      if (Status s = flush_batch(); !s.ok()) return s;
    }
  }
  if (!whole) sum = running_.value();
  push(std::span(kPadding).first(padding));
  return {};
}

Status SegmentWriter::write_end() {
  commit_.magic = kCommitMagic;
  commit_.frame_bytes =
      sizeof(head_) + head_.meta_bytes + head_.payload_bytes + head_.tail_bytes + sizeof(commit_);
  commit_.tail_checksum = checksum(std::as_bytes(std::span(tail_)));
  commit_.checksum = checksum_before_last(commit_, head_.checksum);
  push(std::as_bytes(std::span(tail_)));
  push(std::as_bytes(std::span(&commit_, 1)));
  return flush_batch();
}

void SegmentWriter::push(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  batch_.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  batch_bytes_ += bytes.size();
}

Status SegmentWriter::flush_batch() {
  if (write_fully(*file_, batch_, static_cast<off_t>(written_)) != 0) return fail(errno);
  written_ += batch_bytes_;
  batch_.clear();
  batch_bytes_ = 0;
  return {};
}

Status SegmentWriter::fail(int error) {
  fenced_ = true;
  Status status = system_error(error, "writing", path_);
  // The store was writable when it was opened: what makes it read-only now is trouble with the
  // disk.
  if (status.code() == Code::exhausted) return status;
  return {Code::io_error, status.message()};
}

}  // namespace graphtap::store
