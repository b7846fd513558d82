#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graphtap/status.hpp"
#include "graphtap/store_records.hpp"
#include "store/directory.hpp"
#include "store/frame.hpp"
#include "store/layout.hpp"
#include "store/mapped_file.hpp"
#include "store/segment_directory.hpp"

namespace graphtap::store {

/// A segment file as a reader sees it: its frames, from the index footer of a closed one, by
/// scanning an open or damaged one. Damage is passed over and named. const calls may run at the
/// same time.
class Segment {
 public:
  /// What lies behind the last whole frame of a segment that has no footer.
  struct Tail {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // 0: the segment ends with a whole frame
    FrameState state = FrameState::whole;
  };

  /// Errors: not_found, unavailable, io_error, unsupported (a newer format). A damaged segment is
  /// no error.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> open(const Layout& layout,
                                                             std::uint64_t number);
  /// From bytes that outlive it, for fuzzing.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> from_bytes(std::span<const std::byte> bytes,
                                                                   std::uint64_t number);

  /// Takes in what was appended. Errors: io_error, corrupt (the file was cut).
  Status refresh();
  /// Leaves the last frame out: the next segment has it again (a write that was reported as failed,
  /// and was whole all the same).
  void forget_last();

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string name() const { return segment_name(number_); }
  /// False while the head is not there yet, or if it is damaged: then there are no frames.
  [[nodiscard]] bool has_head() const noexcept { return has_head_; }
  [[nodiscard]] const SegmentHead& head() const noexcept { return head_; }
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return bytes_.size(); }
  [[nodiscard]] const Tail& tail() const noexcept { return tail_; }
  [[nodiscard]] const std::vector<Finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] const SegmentDirectory& directory() const noexcept { return *directory_; }

  /// The same bytes as if there were no footer; borrows them.
  [[nodiscard]] std::unique_ptr<Segment> scanned_anew() const;

  /// The frame at a place of the directory; its state says how much of it can be trusted.
  [[nodiscard]] FrameState frame(const FrameEntry& entry, Frame& out) const {
    return read_frame(bytes_, entry.offset, head_.nonce, out);
  }
  /// The JSON of the run frame; empty if it is missing or damaged.
  [[nodiscard]] std::string_view run_json() const;

 private:
  explicit Segment(std::uint64_t number);
  Status load();
  Status read_head();
  bool load_footer();
  void scan();
  bool pass_damage(FrameState state, const Frame& frame);
  void note(Severity severity, std::uint64_t offset, std::string what);

  std::uint64_t number_;
  std::unique_ptr<MappedFile> file_;  // null: borrowed bytes
  std::span<const std::byte> bytes_;
  SegmentHead head_{};
  bool has_head_ = false;
  bool closed_ = false;
  std::uint64_t scanned_ = 0;       // offset of the first byte that is not in the directory
  std::uint64_t scanned_size_ = 0;  // the file's size at the last scan
  Tail tail_;
  std::vector<Finding> findings_;
  std::unique_ptr<SegmentDirectory> directory_;
};

}  // namespace graphtap::store
