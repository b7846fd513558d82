#include "graphtap/store_sink.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "graphtap/version.hpp"
#include "store/keeper.hpp"
#include "store/live_index.hpp"
#include "store/lock.hpp"
#include "store/open_sink.hpp"
#include "store/run_header.hpp"
#include "store/segment_writer.hpp"
#include "store/step_encoder.hpp"

namespace graphtap::store {
namespace {

constexpr std::size_t kRemembered = 4096;        // steps whose repetition is noticed
constexpr std::size_t kMostFrames = 256u << 10;  // of a segment: bounds its directory
constexpr std::uint64_t kLeastSegment = 64u << 10;

Status closed_error() { return {Code::unavailable, "the store was closed"}; }

class StoreSink final : public Sink {
 public:
  StoreSink(FileOps& ops, Layout layout, WriterLock lock, SegmentIdentity identity, RunInfo run,
            const HookTable& table, const StoreOptions& options, std::uint64_t next_segment)
      : ops_(ops),
        layout_(std::move(layout)),
        lock_(std::move(lock)),
        identity_(identity),
        run_(std::make_shared<const RunInfo>(std::move(run))),
        run_text_(store::run_json(*run_, table)),
        table_(table),
        segment_bytes_(std::max(options.segment_bytes, kLeastSegment)),
        next_segment_(next_segment),
        encoder_(table_) {
    live_.begin_run(run_);
  }
  ~StoreSink() override {
    // Whoever wants to know calls close(); here nobody is left to be told.
    static_cast<void>(close());
  }
  StoreSink(const StoreSink&) = delete;
  StoreSink& operator=(const StoreSink&) = delete;

  /// The first segment, so that a store that cannot be written says so when it is opened.
  Status begin(const StoreOptions& options) {
    if (Status s = begin_segment(); !s.ok()) return s;
    keeper_.emplace(ops_, layout_, identity_.store_id, segment_->number(), options, live_);
    keeper_->touch(segment_->file());
    return {};
  }

  [[nodiscard]] std::string name() const override { return "store " + layout_.directory.string(); }
  Status write(const DeliveredStep& step) override;
  Status event(const RequestEvent& event) override;
  Status flush() override;
  Status close() override;

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // ticket, part
  template <class Item>
  Status put(FrameKind kind, const Item& item);
  Status begin_segment();
  Status end_segment();
  void fence();
  void remember(Key key);

  FileOps& ops_;
  const Layout layout_;
  WriterLock lock_;
  const SegmentIdentity identity_;
  const std::shared_ptr<const RunInfo> run_;
  const std::string run_text_;
  const HookTable table_;
  const std::uint64_t segment_bytes_;
  std::uint64_t next_segment_;
  std::mutex mutex_;
  bool closed_ = false;
  StepEncoder encoder_;
  std::unique_ptr<SegmentWriter> segment_;  // null after a failed write
  LiveIndex live_;
  std::set<Key> stored_;
  std::deque<Key> order_;
  std::optional<Keeper> keeper_;  // last: its thread uses live_
};

Status StoreSink::begin_segment() {
  auto segment = SegmentWriter::create(ops_, layout_, identity_, next_segment_++);
  if (!segment.ok()) return segment.status();
  segment_ = std::move(segment).value();
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
  const auto footer = live_.encode_footer();
  Status status = footer ? segment_->append(FrameKind::footer, *footer) : Status{};
  live_.end_segment(*segment_, footer && status.ok());
  if (keeper_) keeper_->touch(segment_->file());
  segment_.reset();
  return status;
}

void StoreSink::fence() {
  if (live_.frames() > 1) {
    live_.end_segment(*segment_, false);
  } else {
    // Nothing but the run's description: without this a full disk would fill with such files.
    live_.drop_segment();
    ops_.unlink(layout_.segment(segment_->number()));
  }
  segment_.reset();
}

template <class Item>
Status StoreSink::put(FrameKind kind, const Item& item) {
  for (;;) {
    if (!segment_) {
      if (Status s = begin_segment(); !s.ok()) return s;
    }
    const auto meta =
        encoder_.encode(item, [this](std::uint64_t serial) { return live_.knows(serial); });
    if (!meta.ok()) return meta.status();
    const std::uint64_t bytes = SegmentWriter::frame_bytes(meta.value(), encoder_.payloads());
    const bool full = segment_->size() + bytes > segment_bytes_ || live_.frames() >= kMostFrames;
    if (full && live_.frames() > 1) {
      // Without its footer the old segment is scanned by readers: slower, not wrong.
      static_cast<void>(end_segment());
      continue;  // the new segment has named no request yet
    }
    if (Status s = segment_->append(kind, meta.value(), encoder_.payloads()); !s.ok()) {
      fence();
      return s;
    }
    std::string why;
    if (!live_.add(*segment_, meta.value(), why)) {
      fence();
      return {Code::invalid_argument, why};
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

Status make_directories(FileOps& ops, const std::filesystem::path& path) {
  std::filesystem::path done;
  for (const auto& part : path) {
    done /= part;
    if (ops.make_directory(done) == 0 || errno == EEXIST) continue;
    const int error = errno;
    std::error_code ignored;
    // Of directories that are there, some may not even be looked into ("/" on a read-only system:
    // EROFS).
    if (std::filesystem::is_directory(done, ignored)) continue;
    return system_error(error, "creating", done);
  }
  return {};
}

/// The manifest of the store, made if there is none. The lock must be held.
Result<Manifest> own_manifest(FileOps& ops, const Layout& layout) {
  std::error_code error;
  if (std::filesystem::exists(layout.manifest(), error)) return read_manifest(layout);
  const Manifest manifest{random_id(), kMajor, kMinor, unix_now_ns(),
                          std::string("graphtap ") + version()};
  if (Status s = replace_file(ops, layout.manifest(), manifest_text(manifest)); !s.ok()) return s;
  return manifest;
}

/// The number of the run after those that are there. Errors: unsupported (a newer format).
Result<std::uint32_t> next_run(const Layout& layout, const std::vector<std::uint64_t>& segments) {
  for (auto number = segments.rbegin(); number != segments.rend(); ++number) {
    const auto segment = Segment::open(layout, *number);
    if (!segment.ok() && segment.status().code() == Code::unsupported) return segment.status();
    if (segment.ok() && segment.value()->has_head()) return segment.value()->head().run_number + 1;
  }
  return 1;
}

std::string default_name(const HookTable& table, std::int64_t now_ns) {
  const auto seconds = static_cast<std::time_t>(now_ns / 1'000'000'000);
  return fmt::format("{} {:%Y-%m-%d %H:%M:%S}", table.model(), fmt::gmtime(seconds));
}

}  // namespace

Result<std::shared_ptr<Sink>> open_sink(FileOps& ops, const std::filesystem::path& directory,
                                        const HookTable& table, const StoreOptions& options) {
  const Layout layout{directory};
  std::error_code error;
  const bool ours = std::filesystem::exists(layout.manifest(), error);
  if (ours) {
    if (const auto manifest = read_manifest(layout); !manifest.ok()) return manifest.status();
  } else {
    if (Status s = check_free_for_store(layout); !s.ok()) return s;
    if (Status s = make_directories(ops, directory); !s.ok()) return s;
  }
  Result<WriterLock> lock = WriterLock::take(ops, layout);
  if (!lock.ok()) return lock.status();
  const Result<Manifest> manifest = own_manifest(ops, layout);
  if (!manifest.ok()) return manifest.status();
  if (Status s = make_directories(ops, layout.segments()); !s.ok()) return s;
  const auto segments = list_segments(layout);
  if (!segments.ok()) return segments.status();
  const Result<std::uint32_t> number = next_run(layout, segments.value());
  if (!number.ok()) return number.status();

  const SegmentIdentity identity{manifest.value().store_id, random_id(), number.value()};
  RunInfo run;
  run.number = number.value();
  run.id = to_hex(identity.run_id);
  run.model = table.model();
  run.started_unix_ns = unix_now_ns();
  run.name = options.run_name.empty() ? default_name(table, run.started_unix_ns) : options.run_name;
  run.graphtap_version = version();
  run.format_major = kMajor;
  run.format_minor = kMinor;
  run.ranks = options.ranks;
  run.hooks = table.hooks();
  const std::uint64_t next = segments.value().empty() ? 1 : segments.value().back() + 1;
  auto sink = std::make_shared<StoreSink>(ops, layout, std::move(lock).value(), identity,
                                          std::move(run), table, options, next);
  if (Status s = sink->begin(options); !s.ok()) return s;
  return std::shared_ptr<Sink>(std::move(sink));
}

}  // namespace graphtap::store

namespace graphtap {

Result<std::shared_ptr<Sink>> open_store_sink(const std::filesystem::path& directory,
                                              const HookTable& table, StoreOptions options) {
  return store::open_sink(store::FileOps::posix(), directory, table, options);
}

}  // namespace graphtap
