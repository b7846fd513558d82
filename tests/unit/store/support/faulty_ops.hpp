#pragma once
// System calls that fail when a test says so.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <vector>

#include "store/file_ops.hpp"

namespace graphtap::store_test {

/// How a call fails.
enum class Fault : std::uint8_t {
  refused,  ///< nothing was done
  partial,  ///< pwritev: half of the bytes were written, and the call after it fails; others: as
            ///< refused
  done,     ///< everything was done, and the call says that it failed all the same
};

/// Counts calls and makes some of them fail. Thread-safe.
class FaultyOps final : public store::FileOps {
 public:
  /// The call number `call` (from 0) fails once.
  void fail_once(std::uint64_t call, Fault fault, int error) {
    rule_ = [=](std::uint64_t number) { return number == call; };
    fault_ = fault;
    error_ = error;
  }
  /// Every call that changes the disk fails until heal().
  void fail_always(Fault fault, int error) {
    rule_ = [](std::uint64_t) { return true; };
    fault_ = fault;
    error_ = error;
  }
  /// Every pwritev fails until heal(); other calls do not.
  void fail_writes(Fault fault, int error) {
    writes_only_ = true;
    fail_always(fault, error);
  }
  /// Calls to sync fail until heal().
  void fail_syncs(int error) {
    sync_only_ = true;
    fail_always(Fault::refused, error);
  }
  /// Calls to unlink fail until heal().
  void fail_unlinks(int error) { unlink_error_ = error; }
  void fail_locks(int error) { lock_error_ = error; }
  void heal() {
    rule_ = nullptr;
    sync_only_ = writes_only_ = false;
    unlink_error_ = lock_error_ = 0;
  }
  /// Syncs that are not to fail do nothing: for tests that make thousands of them.
  void skip_syncs() { skip_syncs_ = true; }
  /// Writes hand over at most this many bytes each.
  void short_writes(std::size_t most) { most_ = most; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }

  int open(const std::filesystem::path& path, int flags, mode_t mode) override {
    return change([&] { return FileOps::open(path, flags, mode); },
                  [&](int fd) { FileOps::close(fd); });
  }
  ssize_t pwritev(int fd, std::span<const iovec> parts, off_t offset) override {
    std::vector<iovec> some = first_bytes(parts, most_);
    if (due(true)) {
      if (fault_ == Fault::done) static_cast<void>(FileOps::pwritev(fd, parts, offset));
      if (fault_ == Fault::partial) {
        some = first_bytes(parts, total(parts) / 2);
        static_cast<void>(FileOps::pwritev(fd, some, offset));
      }
      errno = error_;
      return -1;
    }
    return FileOps::pwritev(fd, some, offset);
  }
  int sync_data(int fd) override {
    ++syncs_;
    if (sync_only_) {
      errno = error_;
      return -1;
    }
    return change([&] { return skip_syncs_ ? 0 : FileOps::sync_data(fd); }, [](int) {});
  }
  int make_directory(const std::filesystem::path& path) override {
    return change([&] { return FileOps::make_directory(path); }, [](int) {});
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return change([&] { return FileOps::rename(from, to); }, [](int) {});
  }
  int lock(int fd) override {
    if (lock_error_ == 0) return FileOps::lock(fd);
    errno = lock_error_;
    return -1;
  }
  int unlink(const std::filesystem::path& path) override {
    if (unlink_error_ != 0) {
      errno = unlink_error_;
      return -1;
    }
    return change([&] { return FileOps::unlink(path); }, [](int) {});
  }

 private:
  bool due(bool write = false) {
    const std::uint64_t number = calls_++;
    return rule_ && !sync_only_ && (write || !writes_only_) && rule_(number);
  }
  template <class Do, class Undo>
  int change(Do act, Undo undo) {
    if (!due()) return act();
    if (fault_ == Fault::done) {
      const int result = act();
      if (result >= 0) undo(result);
    }
    errno = error_;
    return -1;
  }
  static std::size_t total(std::span<const iovec> parts) {
    std::size_t bytes = 0;
    for (const iovec& part : parts) bytes += part.iov_len;
    return bytes;
  }
  static std::vector<iovec> first_bytes(std::span<const iovec> parts, std::size_t most) {
    std::vector<iovec> some;
    for (iovec part : parts) {
      if (most == 0) break;
      part.iov_len = std::min(part.iov_len, most);
      most -= part.iov_len;
      some.push_back(part);
    }
    return some;
  }

  std::function<bool(std::uint64_t)> rule_;
  Fault fault_ = Fault::refused;
  int error_ = EIO;
  bool sync_only_ = false;
  bool writes_only_ = false;
  std::atomic<int> unlink_error_{0};
  std::atomic<int> lock_error_{0};
  bool skip_syncs_ = false;
  std::size_t most_ = static_cast<std::size_t>(-1);
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> syncs_{0};
};

}  // namespace graphtap::store_test
