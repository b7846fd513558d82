#include "store/keeper.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include "store/run_header.hpp"

namespace graphtap::store {
namespace {

// How long rows are gathered: a transaction a step would cost more than the step.
constexpr std::chrono::milliseconds kBatch{50};
constexpr std::chrono::milliseconds kTotals{1000};

/// Whether an index that was closed covers just what the segments hold.
bool covers(const std::vector<IndexBatch::Segment>& covered, const SegmentSet& segments) {
  std::size_t seen = 0;
  for (const auto& segment : segments.all()) {
    if (!segment->has_head()) continue;
    const bool same = seen < covered.size() && covered[seen].number == segment->number() &&
                      covered[seen].frames == segment->directory().frames();
    if (!same) return false;
    ++seen;
  }
  return seen == covered.size();
}

}  // namespace

Keeper::Keeper(FileOps& ops, Layout layout, Id store_id, std::uint64_t first_segment,
               const StoreOptions& options, LiveIndex& live, Retention& retention)
    : ops_(ops),
      layout_(std::move(layout)),
      store_id_(store_id),
      first_segment_(first_segment),
      durability_(options.durability),
      sync_interval_(options.sync_interval),
      live_(live),
      retention_(retention),
      thread_([this] { run(); }) {}

Keeper::~Keeper() {
  // An error of the last sync has no one left to go to; stop() tells it to those who ask.
  static_cast<void>(stop());
}

void Keeper::touch(const std::shared_ptr<File>& file) {
  if (durability_ == Durability::power) {
    const std::lock_guard lock(mutex_);
    if (unsynced_.empty()) first_unsynced_ = Clock::now();
    if (unsynced_.empty() || unsynced_.back() != file) unsynced_.push_back(file);
  }
  if (!dirty_.exchange(true)) {
    const std::lock_guard lock(mutex_);  // so that the thread is either before its check or waiting
    wake_.notify_one();
  }
}

Status Keeper::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, {});
}

Status Keeper::flush() {
  if (durability_ == Durability::power) sync_files();
  std::unique_lock lock(mutex_);
  done_wake_.wait(lock, [&] { return stage_ != Stage::starting; });
  if (!stop_ && stage_ == Stage::ready) {
    const std::uint64_t request = ++requested_;
    wake_.notify_one();
    done_wake_.wait(lock, [&] { return done_ >= request; });
  }
  return std::exchange(error_, {});
}

Status Keeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  return take_error();
}

void Keeper::run() {
  try {
    prepare_index();
  } catch (const std::exception&) {
    give_up_index();
  }
  set_stage(Stage::ready);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto asked = [&] { return stop_ || requested_ > done_; };
    const auto awake = [&] { return asked() || dirty_; };
    if (const auto at = due()) {
      wake_.wait_until(lock, *at, awake);
    } else {
      wake_.wait(lock, awake);
    }
    if (dirty_ && !asked()) wake_.wait_for(lock, std::min(kBatch, sync_interval_), asked);
    const bool stopping = stop_;
    const std::uint64_t request = requested_;
    const bool force = stopping || request > done_;
    dirty_ = false;
    lock.unlock();
    work(force);
    lock.lock();
    done_ = request;
    done_wake_.notify_all();
    if (stopping) break;
  }
  lock.unlock();
  if (index_ && !index_->close().ok()) give_up_index();
}

void Keeper::set_stage(Stage stage) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  done_wake_.notify_all();
}

void Keeper::give_up_index() {
  // No index is better than half of one, and on a full disk its room is better used.
  index_.reset();
  remove_index(layout_.index());
}

std::optional<Keeper::Clock::time_point> Keeper::due() const {
  std::optional<Clock::time_point> at = retention_.due();
  if (!unsynced_.empty()) {
    const auto sync = first_unsynced_ + sync_interval_;
    at = at ? std::min(*at, sync) : sync;
  }
  return at;
}

void Keeper::retire_segments() {
  const Retention::Removal removal = retention_.enforce(live_.segment_bytes(), Clock::now());
  live_.forget(removal.segments);
  if (removal.status.ok()) return;
  const std::lock_guard lock(mutex_);
  error_ = removal.status;
}

void Keeper::work(bool force) {
  try {
    retire_segments();
    update_index(force);
  } catch (const std::exception&) {
    give_up_index();
  }
  std::unique_lock lock(mutex_);
  const bool due =
      !unsynced_.empty() && (force || Clock::now() >= first_unsynced_ + sync_interval_);
  lock.unlock();
  if (due) sync_files();
}

void Keeper::prepare_index() {
  SegmentSet older;
  if (!older.load(layout_, first_segment_).ok()) return;
  Result<Index> index = Index::open(layout_.index(), store_id_);
  if (index.ok()) {
    const auto covered = index.value().covered();
    if (covered.ok() && covers(covered.value(), older)) {
      index_.emplace(std::move(index).value());
      return;
    }
  }
  index = Status(Code::corrupt, "to be built anew");  // closes it
  index = Index::create(layout_.index(), store_id_);
  if (!index.ok()) return;
  index_.emplace(std::move(index).value());
  if (older.all().empty()) return;  // ready at once: a flush can wait for it
  set_stage(Stage::building);
  if (!index_segments(*index_, older).ok()) give_up_index();
}

void Keeper::update_index(bool force) {
  const auto now = Clock::now();
  const bool totals = force || now >= totals_due_;
  if (totals) totals_due_ = now + kTotals;
  const IndexBatch batch = live_.take(totals);
  if (index_ && !index_->apply(batch).ok()) give_up_index();
}

void Keeper::sync_files() {
  const std::lock_guard one_at_a_time(sync_mutex_);  // also: a flush waits for the sync in progress
  std::vector<std::shared_ptr<File>> files;
  {
    const std::lock_guard lock(mutex_);
    files.swap(unsynced_);
  }
  if (files.empty()) return;
  Status status;
  for (const auto& file : files) {
    if (ops_.sync_data(file->fd()) != 0) {
      status = system_error(errno,
                            "syncing; what was written since the last sync may not survive a power "
                            "loss: a segment in",
                            layout_.segments());
    }
  }
  if (status.ok()) status = sync_directory(ops_, layout_.segments());
  if (status.ok()) return;
  if (status.code() != Code::exhausted) status = Status(Code::io_error, status.message());
  const std::lock_guard lock(mutex_);
  error_ = status;
}

Status index_segments(Index& index, const SegmentSet& segments) {
  std::set<std::string> known;
  for (const auto& segment : segments.all()) {
    if (!segment->has_head()) continue;
    IndexBatch batch;
    batch.add(*segment);
    Result<RunHeader> run = parse_run_json(segment->run_json());
    if (run.ok() && known.insert(run.value().info.id).second) {
      batch.runs.push_back(std::make_shared<const RunInfo>(std::move(run).value().info));
    }
    if (Status s = index.apply(batch); !s.ok()) return s;
  }
  return {};
}

}  // namespace graphtap::store
