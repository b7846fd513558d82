#include "store/sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "store/run_header.hpp"

namespace graphtap::store {
namespace {

constexpr std::size_t kRemembered = 4096;        // steps whose repetition is noticed
constexpr std::size_t kMostFrames = 256u << 10;  // of a segment: bounds its directory
constexpr std::uint64_t kLeastSegment = 64u << 10;
constexpr std::uint64_t kRunBytes = 64u << 10;  // about what a segment takes before its first step

/// Of what the store may keep, one segment is a quarter at most: it goes as a whole.
std::uint64_t segment_bytes(const StoreOptions& options) {
  std::uint64_t bytes = options.segment_bytes;
  if (options.retain_bytes > 0) bytes = std::min(bytes, options.retain_bytes / 4);
  return std::max(bytes, kLeastSegment);
}

std::chrono::seconds segment_age(const StoreOptions& options) {
  if (options.segment_age.count() > 0 || options.retain_age.count() <= 0)
    return options.segment_age;
  return std::max(options.retain_age / 8, std::chrono::seconds(1));
}

Status closed_error() { return {Code::unavailable, "the store was closed"}; }

}  // namespace

StoreSink::StoreSink(FileOps& ops, Layout layout, WriterLock lock, SegmentIdentity identity,
                     RunInfo run, const HookTable& table, const StoreOptions& options,
                     std::uint64_t next_segment)
    : ops_(ops),
      layout_(std::move(layout)),
      lock_(std::move(lock)),
      identity_(identity),
      run_(std::make_shared<const RunInfo>(std::move(run))),
      run_text_(store::run_json(*run_, table)),
      table_(table),
      segment_bytes_(segment_bytes(options)),
      segment_age_(segment_age(options)),
      power_(options.durability == Durability::power),
      keep_free_bytes_(options.keep_free_bytes),
      when_full_(options.when_full),
      next_segment_(next_segment),
      encoder_(table_),
      retention_(ops_, layout_, options) {
  live_.begin_run(run_);
}

StoreSink::~StoreSink() {
  // Whoever wants to know calls close(); here nobody is left to be told.
  static_cast<void>(close());
}

Status StoreSink::begin(const StoreOptions& options, const std::vector<std::uint64_t>& older) {
  if (retention_.wanted()) retention_.adopt(older);
  std::uint64_t freed = 0;
  for (;;) {
    const Status s = begin_segment();
    if (s.ok()) break;
    if (!make_room(s, kRunBytes, freed)) return s;
  }
  keeper_.emplace(ops_, layout_, identity_.store_id, segment_->number(), options, live_,
                  retention_);
  keeper_->touch(segment_->file());
  return {};
}

Status StoreSink::begin_segment() {
  auto segment = SegmentWriter::create(ops_, layout_, identity_, next_segment_++, segment_bytes_);
  if (!segment.ok()) return segment.status();
  segment_ = std::move(segment).value();
  segment_begun_ = Clock::now();
  live_.begin_segment(*segment_);
  SectionWriter writer;
  writer.add(Section::run, std::as_bytes(std::span(run_text_)));
  const auto meta = writer.finish();
  Status status = meta ? segment_->append(FrameKind::run, *meta)
                       : Status(Code::invalid_argument, "the hook table exceeds 4 GiB");
  std::string why;
  if (status.ok() && !live_.add(*segment_, *meta, why)) status = Status(Code::io_error, why);
  if (!status.ok()) fence();
  return status;
}

Status StoreSink::end_segment() {
  auto footer = live_.encode_footer();
  // What a footer says is believed without a look at the payloads: it must not be on the disk
  // before they are.
#ifndef GRAPHTAP_BUG_store_footer_before_sync
  if (power_ && ops_.sync_data(segment_->file()->fd()) != 0) footer.reset();
#endif
  Status status = footer ? segment_->append(FrameKind::footer, *footer) : Status{};
  live_.end_segment(*segment_, footer && status.ok());
  if (retention_.wanted()) retention_.add(segment_->number(), segment_->size(), Clock::now());
  if (keeper_) keeper_->touch(segment_->file());
  segment_.reset();
  return status;
}

void StoreSink::fence() {
  if (live_.frames() > 1) {
    live_.end_segment(*segment_, false);
    if (retention_.wanted()) retention_.add(segment_->number(), segment_->size(), Clock::now());
  } else {
    // Nothing but the run's description: without this a full disk would fill with such files.
    live_.drop_segment();
    ops_.unlink(layout_.segment(segment_->number()));
  }
  segment_.reset();
}

bool StoreSink::full(std::uint64_t frame_bytes) const {
  if (live_.frames() <= 1) return false;  // a segment of its own is the most a frame can have
  return segment_->size() + frame_bytes > segment_bytes_ || live_.frames() >= kMostFrames ||
         (segment_age_.count() > 0 && Clock::now() - segment_begun_ >= segment_age_);
}

Status StoreSink::check_free(std::uint64_t frame_bytes) {
  if (keep_free_bytes_ == 0) return {};
  const std::int64_t free = ops_.free_bytes(layout_.directory);
  if (free < 0) return system_error(errno, "asking how much is free for", layout_.directory);
  const auto there = static_cast<std::uint64_t>(free);
  if (there >= keep_free_bytes_ && there - keep_free_bytes_ >= frame_bytes) return {};
  return {Code::exhausted,
          fmt::format("writing {}: a step of {} bytes would leave less than the {} bytes that are "
                      "to stay free; {} are",
                      layout_.directory.string(), frame_bytes, keep_free_bytes_, there)};
}

/// On a full disk: whether the write is worth another try, an old segment having gone. Ends when
/// more was freed than the write needs: then it is someone else who fills the disk.
bool StoreSink::make_room(const Status& failure, std::uint64_t needed, std::uint64_t& freed) {
  if (failure.code() != Code::exhausted || when_full_ != WhenFull::remove_oldest) return false;
  if (freed > 2 * needed + kLeastSegment) return false;
  const Retention::Removal removal = retention_.remove_oldest();
  live_.forget(removal.segments);
  freed += removal.bytes;
  return !removal.segments.empty();
}

Status StoreSink::append(FrameKind kind, std::span<const std::byte> meta, std::uint64_t bytes) {
  if (Status s = check_free(bytes); !s.ok()) return s;
  if (Status s = segment_->append(kind, meta, encoder_.payloads()); !s.ok()) {
    fence();
    return s;
  }
  std::string why;
  if (!live_.add(*segment_, meta, why)) {
    fence();
    return {Code::invalid_argument, why};
  }
  return {};
}

template <class Item>
Status StoreSink::put(FrameKind kind, const Item& item) {
  std::uint64_t freed = 0;
  for (;;) {
    if (!segment_) {
      if (Status s = begin_segment(); !s.ok()) {
        if (make_room(s, kRunBytes, freed)) continue;
        return s;
      }
    }
    const auto meta =
        encoder_.encode(item, [this](std::uint64_t serial) { return live_.knows(serial); });
    if (!meta.ok()) return meta.status();
    const std::uint64_t bytes = SegmentWriter::frame_bytes(meta.value(), encoder_.payloads());
    if (full(bytes)) {
      // Without its footer the old segment is scanned by readers: slower, not wrong.
      static_cast<void>(end_segment());
      continue;  // the new segment has named no request yet
    }
    if (Status s = append(kind, meta.value(), bytes); !s.ok()) {
      if (make_room(s, bytes, freed)) continue;
      return s;
    }
    keeper_->touch(segment_->file());
    return {};
  }
}

Status StoreSink::write(const DeliveredStep& step) {
  const std::lock_guard lock(mutex_);
  if (closed_) return closed_error();
  if (Status s = keeper_->take_error(); !s.ok()) return s;
  const Key key{step.ticket, step.part};
  if (stored_.contains(key)) return {};
  if (step.table && step.table->size() != table_.size()) {
    return {Code::invalid_argument,
            fmt::format("the step is of a model with {} hooks, the store of one with {}",
                        step.table->size(), table_.size())};
  }
  if (Status s = put(FrameKind::step, step); !s.ok()) return s;
  remember(key);
  return {};
}

void StoreSink::remember(Key key) {
  stored_.insert(key);
  order_.push_back(key);
  if (order_.size() <= kRemembered) return;
  stored_.erase(order_.front());
  order_.pop_front();
}

Status StoreSink::event(const RequestEvent& event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return closed_error();
  if (Status s = keeper_->take_error(); !s.ok()) return s;
  return put(FrameKind::event, event);
}

Status StoreSink::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_) return {};
  return keeper_->flush();
}

Status StoreSink::close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return {};
  closed_ = true;
  Status status = segment_ ? end_segment() : Status{};
  if (keeper_) {
    if (Status s = keeper_->stop(); status.ok()) status = s;
  }
  lock_.release();
  return status;
}

}  // namespace graphtap::store
