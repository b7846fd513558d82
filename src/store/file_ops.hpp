#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "graphtap/status.hpp"

namespace graphtap::store {

/// Every call by which the writer changes a directory, so that tests can make each of them fail.
/// Results are those of the system calls: -1 and errno. Thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int open(const std::filesystem::path& path, int flags, mode_t mode);
  virtual int close(int fd);
  virtual ssize_t pwritev(int fd, std::span<const iovec> parts, off_t offset);
  virtual int sync_data(int fd);  // fdatasync
  virtual int make_directory(const std::filesystem::path& path);
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to);
  virtual int unlink(const std::filesystem::path& path);
  /// Asks for room behind what was written, without which the file system looks for it page by
  /// page. The file's size stays. That there is none, or no such call, is no error.
  virtual void reserve(int fd, off_t offset, off_t bytes);
  /// Gives back what was reserved and not used.
  virtual void release(int fd);
  /// An exclusive open-file-description lock on the whole file, or EAGAIN.
  virtual int lock(int fd);
  /// Bytes that an ordinary user may still write to this file system; -1 and errno.
  virtual std::int64_t free_bytes(const std::filesystem::path& path);

  [[nodiscard]] static FileOps& posix();
};

/// A descriptor that closes itself.
class File {
 public:
  File(FileOps& ops, int fd) noexcept : ops_(&ops), fd_(fd) {}
  File(File&& other) noexcept : ops_(other.ops_), fd_(other.fd_) { other.fd_ = -1; }
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] FileOps& ops() const noexcept { return *ops_; }

 private:
  FileOps* ops_;
  int fd_;
};

/// Writes all parts, going on after short writes. The parts are used up. On failure some bytes may
/// be there.
[[nodiscard]] int write_fully(const File& file, std::span<iovec> parts, off_t offset);

/// What an errno means. Read-only and permission errors are Code::unavailable.
[[nodiscard]] Status system_error(int error, std::string_view doing,
                                  const std::filesystem::path& path);

/// Writes `text` as a whole file beside `path` and moves it there in one step.
[[nodiscard]] Status replace_file(FileOps& ops, const std::filesystem::path& path,
                                  std::string_view text);

/// Makes entries of a directory survive power loss.
[[nodiscard]] Status sync_directory(FileOps& ops, const std::filesystem::path& directory);

}  // namespace graphtap::store
