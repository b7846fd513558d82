#pragma once
// A disk that forgets what was not synced when the power goes.
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "store/file_ops.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {

/// Real files, and a note of every page and directory entry that no sync has made safe.
/// Thread-safe.
class PowerLossOps final : public store::FileOps {
 public:
  static constexpr std::uint64_t kPage = 4096;

  int open(const std::filesystem::path& path, int flags, mode_t mode) override {
    const std::lock_guard lock(mutex_);
    const bool made = (flags & O_CREAT) != 0 && !std::filesystem::exists(path);
    const int fd = FileOps::open(path, flags, mode);
    if (fd < 0) return fd;
    paths_[fd] = path;
    if (made) volatile_entries_.insert(path);
    return fd;
  }
  int close(int fd) override {
    const std::lock_guard lock(mutex_);
    paths_.erase(fd);
    return FileOps::close(fd);
  }
  ssize_t pwritev(int fd, std::span<const iovec> parts, off_t offset) override {
    const std::lock_guard lock(mutex_);
    const ssize_t wrote = FileOps::pwritev(fd, parts, offset);
    if (wrote <= 0) return wrote;
    const auto begin = static_cast<std::uint64_t>(offset);
    const std::uint64_t end = begin + static_cast<std::uint64_t>(wrote);
    for (std::uint64_t page = begin / kPage; page * kPage < end; ++page) {
      volatile_pages_[paths_[fd]].emplace(page, std::max(begin, page * kPage));
    }
    return wrote;
  }
  int sync_data(int fd) override {
    const std::lock_guard lock(mutex_);
    const std::filesystem::path path = paths_[fd];
    volatile_pages_.erase(path);
    std::erase_if(volatile_entries_,
                  [&](const std::filesystem::path& entry) { return entry.parent_path() == path; });
    return 0;
  }
  int make_directory(const std::filesystem::path& path) override {
    const std::lock_guard lock(mutex_);
    const int result = FileOps::make_directory(path);
    if (result == 0) volatile_entries_.insert(path);
    return result;
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const std::lock_guard lock(mutex_);
    const int result = FileOps::rename(from, to);
    if (result != 0) return result;
    volatile_entries_.erase(from);
    volatile_entries_.insert(to);
    if (const auto pages = volatile_pages_.find(from); pages != volatile_pages_.end()) {
      volatile_pages_[to] = pages->second;
      volatile_pages_.erase(from);
    }
    return result;
  }

  /// What `from` may look like after the power went now: of what was not synced each entry and each
  /// page is there or not, as chance has it, and a file may end anywhere behind what was. `worst`:
  /// nothing of it is there.
  void lose_power(const std::filesystem::path& from, const std::filesystem::path& to,
                  Random& random, bool worst) {
    const std::lock_guard lock(mutex_);
    std::filesystem::create_directories(to);
    lose_entries(from, to, random, worst);
  }

 private:
  void lose_entries(const std::filesystem::path& from, const std::filesystem::path& to,
                    Random& random, bool worst) {
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
      const std::filesystem::path path = entry.path();
      if (volatile_entries_.contains(path) && (worst || below(random, 2) == 0)) continue;
      if (entry.is_directory()) {
        std::filesystem::create_directory(to / path.filename());
        lose_entries(path, to / path.filename(), random, worst);
      } else if (path.filename().string().find("index.sqlite") == std::string::npos) {
        lose_pages(path, to / path.filename(), random, worst);
      }
    }
  }
  void lose_pages(const std::filesystem::path& from, const std::filesystem::path& to,
                  Random& random, bool worst) {
    std::ifstream in(from, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::uint64_t safe = bytes.size();  // size that a sync has seen
    if (const auto pages = volatile_pages_.find(from); pages != volatile_pages_.end()) {
      for (const auto& [page, begin] : pages->second) {
        safe = std::min(safe, begin);
        if (!worst && below(random, 2) == 0) continue;
        const std::uint64_t end = std::min<std::uint64_t>((page + 1) * kPage, bytes.size());
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)),
                  bytes.begin() + static_cast<std::ptrdiff_t>(end), '\0');
      }
    }
    if (worst) bytes.resize(safe);
    if (!worst && below(random, 2) == 0)
      bytes.resize(safe + below(random, bytes.size() - safe + 1));
    std::ofstream(to, std::ios::binary) << bytes;
  }

  std::mutex mutex_;
  std::map<int, std::filesystem::path> paths_;
  /// Of each file: pages with bytes that were not synced, and where in the page they begin.
  std::map<std::filesystem::path, std::map<std::uint64_t, std::uint64_t>> volatile_pages_;
  std::set<std::filesystem::path> volatile_entries_;
};

}  // namespace graphtap::store_test
