#include "store/retention.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace graphtap::store {

Retention::Retention(FileOps& ops, Layout layout, const StoreOptions& options)
    : ops_(ops),
      layout_(std::move(layout)),
      bytes_limit_(options.retain_bytes),
      age_limit_(options.retain_age),
      removes_when_full_(options.when_full == WhenFull::remove_oldest) {}

bool Retention::wanted() const noexcept {
  return bytes_limit_ > 0 || age_limit_.count() > 0 || removes_when_full_;
}

void Retention::adopt(const std::vector<std::uint64_t>& segments) {
  const auto now = Clock::now();
  const auto wall_now = std::filesystem::file_time_type::clock::now();
  for (std::uint64_t number : segments) {
    const std::filesystem::path path = layout_.segment(number);
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    if (error) continue;  // gone meanwhile
    const auto written = std::filesystem::last_write_time(path, error);
    // A file from the future was written while the clock was wrong: as old as this look at it.
    const auto age =
        error ? std::chrono::nanoseconds(0)
              : std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(wall_now - written));
    add(number, bytes, now - std::chrono::duration_cast<Clock::duration>(age));
  }
}

void Retention::add(std::uint64_t segment, std::uint64_t bytes, Clock::time_point last_written) {
  const std::lock_guard lock(mutex_);
  segments_.push_back({segment, bytes, last_written});
  bytes_ += bytes;
}

void Retention::remove_front(Removal& removal) {
  const Segment oldest = segments_.front();
  segments_.pop_front();
  bytes_ -= oldest.bytes;
  const std::filesystem::path path = layout_.segment(oldest.number);
  if (ops_.unlink(path) != 0 && errno != ENOENT) {
    removal.status = system_error(errno, "removing an old segment, which stays:", path);
    return;
  }
  removal.segments.push_back(oldest.number);
  removal.bytes += oldest.bytes;
}

Retention::Removal Retention::enforce(std::uint64_t writing_bytes, Clock::time_point now) {
  Removal removal;
  const std::lock_guard lock(mutex_);
  const auto expired = [&](const Segment& segment) {
    return age_limit_.count() > 0 && now - segment.last_written >= age_limit_;
  };
  const auto too_many = [&] { return bytes_limit_ > 0 && bytes_ + writing_bytes > bytes_limit_; };
  while (!segments_.empty() && (too_many() || expired(segments_.front()))) remove_front(removal);
  return removal;
}

Retention::Removal Retention::remove_oldest() {
  Removal removal;
  const std::lock_guard lock(mutex_);
  if (!segments_.empty()) remove_front(removal);
  return removal;
}

std::optional<Retention::Clock::time_point> Retention::due() const {
  const std::lock_guard lock(mutex_);
  if (age_limit_.count() == 0 || segments_.empty()) return std::nullopt;
  return segments_.front().last_written + age_limit_;
}

}  // namespace graphtap::store
