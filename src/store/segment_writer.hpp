#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graphtap/status.hpp"
#include "store/checksum.hpp"
#include "store/file_ops.hpp"
#include "store/format.hpp"
#include "store/layout.hpp"

namespace graphtap::store {

/// Whose segment it is.
struct SegmentIdentity {
  Id store_id{};
  Id run_id{};
  std::uint32_t run_number = 0;
};

/// Appends frames to one new segment file. After a failed append the segment is fenced: its torn
/// end stays as it is, for good, and the next frame belongs into another segment. Nothing is ever
/// overwritten or cut.
class SegmentWriter {
 public:
  /// Makes the file and writes its head. `expected_bytes`: about how large it will grow. Errors:
  /// exhausted, unavailable, io_error; the file is then removed.
  [[nodiscard]] static Result<std::unique_ptr<SegmentWriter>> create(
      FileOps& ops, const Layout& layout, const SegmentIdentity& identity, std::uint64_t number,
      std::uint64_t expected_bytes);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  /// What a frame of these parts takes.
  [[nodiscard]] static std::uint64_t frame_bytes(
      std::span<const std::byte> meta, std::span<const std::span<const std::byte>> payloads);

  /// Writes one frame, checksumming payloads on the way; the commit comes last. When it returns ok,
  /// readers see the frame. `meta` must be a multiple of 16 bytes. Errors: exhausted, io_error.
  Status append(FrameKind kind, std::span<const std::byte> meta,
                std::span<const std::span<const std::byte>> payloads = {});

  [[nodiscard]] bool fenced() const noexcept { return fenced_; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t frames() const noexcept { return frames_; }
  [[nodiscard]] const FrameHead& last_head() const noexcept { return head_; }
  [[nodiscard]] const std::shared_ptr<File>& file() const noexcept { return file_; }

 private:
  SegmentWriter(std::shared_ptr<File> file, std::filesystem::path path, std::uint64_t number)
      : file_(std::move(file)), path_(std::move(path)), number_(number) {}
  void push(std::span<const std::byte> bytes);
  void reserve(std::uint64_t end);
  Status flush_batch();
  Status write_payload(std::span<const std::byte> payload, std::uint64_t& sum);
  Status write_end();
  Status fail(int error);

  std::shared_ptr<File> file_;
  std::filesystem::path path_;
  std::uint64_t number_ = 0;
  std::uint64_t nonce_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t expected_bytes_ = 0;
  std::uint64_t reserved_ = 0;  // room was asked for up to here
  std::uint32_t frames_ = 0;
  bool fenced_ = false;

  FrameHead head_{};
  FrameCommit commit_{};
  std::vector<std::uint64_t> tail_;
  std::vector<iovec> batch_;
  std::uint64_t batch_bytes_ = 0;
  std::uint64_t written_ = 0;  // file offset behind the last batch
  RunningChecksum running_;
};

}  // namespace graphtap::store
