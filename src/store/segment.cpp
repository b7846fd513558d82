#include "store/segment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/checksum.hpp"

namespace graphtap::store {

Segment::Segment(std::uint64_t number)
    : number_(number), directory_(std::make_unique<SegmentDirectory>()) {}

Result<std::unique_ptr<Segment>> Segment::open(const Layout& layout, std::uint64_t number) {
  auto file = MappedFile::open(layout.segment(number));
  if (!file.ok()) return file.status();
  std::unique_ptr<Segment> segment(new Segment(number));
  segment->file_ = std::move(file).value();
  segment->bytes_ = segment->file_->bytes();
  if (Status s = segment->load(); !s.ok()) return s;
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::from_bytes(std::span<const std::byte> bytes,
                                                     std::uint64_t number) {
  std::unique_ptr<Segment> segment(new Segment(number));
  segment->bytes_ = bytes;
  if (Status s = segment->load(); !s.ok()) return s;
  return segment;
}

void Segment::note(Severity severity, std::uint64_t offset, std::string what) {
  findings_.push_back({severity, name(), offset, std::move(what)});
}

Status Segment::load() {
  if (Status s = read_head(); !s.ok() || !has_head_) return s;
  scanned_ = head_.head_bytes;
  if (!load_footer()) scan();
  return {};
}

Status Segment::read_head() {
  if (bytes_.size() < sizeof(head_)) {
    tail_ = {0, bytes_.size(),
             FrameState::past_end};  // its writer was stopped here, or is about to go on
    return {};
  }
  std::memcpy(&head_, bytes_.data(), sizeof(head_));
  if (std::memcmp(head_.magic, kSegmentMagic, sizeof(head_.magic)) != 0) {
    tail_ = {0, bytes_.size(), FrameState::bad_head};
    note(Severity::error, 0, "not a segment: its first bytes are none of a segment's");
    return {};
  }
  if (head_.major > kMajor) return newer_version(name(), head_.major, head_.minor);
  const bool sane = head_.head_bytes >= sizeof(head_) && head_.head_bytes % kAlign == 0 &&
                    head_.head_bytes <= bytes_.size();
  if (head_.checksum != checksum_before_last(head_) || !sane) {
    tail_ = {0, bytes_.size(), FrameState::bad_head};
    note(Severity::error, 0,
         "the segment's head does not match its checksum: nothing in it can be read");
    return {};
  }
  if (head_.number != number_) {
    note(Severity::warning, 0,
         fmt::format("the segment's head says that it is number {}", head_.number));
  }
  tail_ = {};
  has_head_ = true;
  return {};
}

bool Segment::load_footer() {
  FrameCommit commit{};
  if (bytes_.size() - scanned_ < sizeof(FrameHead) + sizeof(commit)) return false;
  std::memcpy(&commit, bytes_.data() + bytes_.size() - sizeof(commit), sizeof(commit));
  if (commit.magic != kCommitMagic || commit.frame_bytes > bytes_.size() - scanned_) return false;
  const std::uint64_t offset = bytes_.size() - commit.frame_bytes;
  Frame footer;
  const FrameState state = read_frame(bytes_, offset, head_.nonce, footer);
  const bool is_footer = static_cast<FrameKind>(footer.head.kind) == FrameKind::footer;
  if (state == FrameState::bad_meta && is_footer) {
    note(Severity::warning, offset, "the index footer is damaged; the segment was scanned instead");
  }
  if (state != FrameState::whole || !is_footer) return false;
  const std::optional<Sections> sections = Sections::parse(footer.meta);
  if (!sections) {
    note(Severity::warning, offset,
         "the index footer contradicts itself; the segment was scanned instead");
    return false;
  }
  directory_ = std::make_unique<SegmentDirectory>(*sections);
  closed_ = true;
  scanned_ = bytes_.size();
  return true;
}

void Segment::scan() {
  Directory& directory = *directory_->scanned();
  Frame frame;
  std::string why;
  tail_ = {};
  scanned_size_ = bytes_.size();
  while (!closed_ && scanned_ < bytes_.size()) {
    const FrameState state = read_frame(bytes_, scanned_, head_.nonce, frame);
    if (state != FrameState::whole) {
      if (pass_damage(state, frame)) continue;
      tail_ = {scanned_, bytes_.size() - scanned_, state};
      return;
    }
    if (static_cast<FrameKind>(frame.head.kind) == FrameKind::footer) {
      closed_ = true;
    } else if (!directory.add(frame.head, frame.bytes, frame.meta, why)) {
      note(Severity::error, scanned_, "a frame contradicts itself: " + why);
    }
    scanned_ += frame.bytes;
  }
  if (scanned_ < bytes_.size()) {
    note(Severity::warning, scanned_,
         fmt::format("{} bytes behind the index footer", bytes_.size() - scanned_));
  }
}

bool Segment::pass_damage(FrameState state, const Frame& frame) {
  const std::uint64_t at = scanned_;
  if (state == FrameState::bad_meta) {
    note(Severity::error, at, describe(state));
    scanned_ = at + frame.bytes;
    return true;
  }
  if (state == FrameState::not_committed) {
    // An unfinished frame is the last one. If another follows, this one was finished and is
    // damaged.
    Frame next;
    if (read_frame(bytes_, at + frame.bytes, head_.nonce, next) == FrameState::bad_head)
      return false;
    note(Severity::error, at, describe(state));
    scanned_ = at + frame.bytes;
    return true;
  }
  if (state == FrameState::past_end) return false;  // the head is right: nothing can lie behind it
  const std::uint64_t next = find_frame(bytes_, at + 1, head_.nonce);
  if (next == bytes_.size()) return false;
  note(Severity::error, at,
       fmt::format("{} bytes are damaged: at least one frame is lost", next - at));
  scanned_ = next;
  return true;
}

Status Segment::refresh() {
  if (!file_ || closed_) return {};
  if (Status s = file_->refresh(); !s.ok()) return s;
  bytes_ = file_->bytes();
  if (!has_head_) {
    // A damaged head stays what it is; one that was not there yet may have come.
    return findings_.empty() ? load() : Status{};
  }
  const bool unfinished =
      tail_.state == FrameState::not_committed;  // a frame's bytes may come late
  if (bytes_.size() > scanned_size_ || unfinished) scan();
  return {};
}

void Segment::forget_last() {
  Directory* directory = directory_->scanned();
  if (!directory || directory->frames().empty()) return;
  const std::uint64_t end = directory->frames().back().offset;
  const auto whole = bytes_;
  const Tail tail = tail_;
  const std::uint64_t scanned = scanned_;
  directory_ = std::make_unique<SegmentDirectory>();
  std::erase_if(findings_, [&](const Finding& f) { return f.offset >= head_.head_bytes; });
  bytes_ = whole.first(end);
  scanned_ = head_.head_bytes;
  scan();
  bytes_ = whole;
  scanned_ = scanned;
  scanned_size_ = whole.size();
  tail_ = tail;
}

std::unique_ptr<Segment> Segment::scanned_anew() const {
  std::unique_ptr<Segment> scanned(new Segment(number_));
  scanned->bytes_ = bytes_;
  scanned->head_ = head_;
  scanned->has_head_ = has_head_;
  if (has_head_) {
    scanned->scanned_ = head_.head_bytes;
    scanned->scan();
  }
  return scanned;
}

std::string_view Segment::run_json() const {
  for (std::size_t i = 0; i < directory_->frames(); ++i) {
    const FrameEntry entry = directory_->frame(i);
    if (static_cast<FrameKind>(entry.kind) != FrameKind::run) continue;
    Frame frame;
    if (this->frame(entry, frame) != FrameState::whole) return {};
    const std::optional<Sections> sections = Sections::parse(frame.meta);
    if (!sections) return {};
    const std::span<const std::byte> json = sections->bytes(Section::run);
    return {reinterpret_cast<const char*>(json.data()), json.size()};
  }
  return {};
}

}  // namespace graphtap::store
