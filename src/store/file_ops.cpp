#include "store/file_ops.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace graphtap::store {

int FileOps::open(const std::filesystem::path& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags | O_CLOEXEC, mode);
}
int FileOps::close(int fd) { return ::close(fd); }
ssize_t FileOps::pwritev(int fd, std::span<const iovec> parts, off_t offset) {
  return ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), offset);
}
int FileOps::sync_data(int fd) { return ::fdatasync(fd); }
int FileOps::make_directory(const std::filesystem::path& path) {
  return ::mkdir(path.c_str(), 0777);
}
int FileOps::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return ::rename(from.c_str(), to.c_str());
}
int FileOps::unlink(const std::filesystem::path& path) { return ::unlink(path.c_str()); }
void FileOps::reserve(int fd, off_t offset, off_t bytes) {
  static_cast<void>(::fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, bytes));
}
void FileOps::release(int fd) {
  struct stat info {};
  // To its own size: what lies behind goes, no byte of the file does.
  if (::fstat(fd, &info) == 0) static_cast<void>(::ftruncate(fd, info.st_size) == 0);
}
int FileOps::lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &whole);
}
std::int64_t FileOps::free_bytes(const std::filesystem::path& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return -1;
  return static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
}

FileOps& FileOps::posix() {
  static FileOps ops;
  return ops;
}

File::~File() {
  // Errors of close() are no news: what must survive was handed to the kernel or synced before.
  if (fd_ >= 0) ops_->close(fd_);
}

int write_fully(const File& file, std::span<iovec> parts, off_t offset) {
  while (!parts.empty()) {
    const ssize_t wrote = file.ops().pwritev(file.fd(), parts, offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return -1;
    offset += wrote;
    auto left = static_cast<std::size_t>(wrote);
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (parts.empty()) break;
    if (wrote == 0) {
      errno = EIO;  // no progress and no reason given
      return -1;
    }
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + left;
    parts.front().iov_len -= left;
  }
  return 0;
}

Status system_error(int error, std::string_view doing, const std::filesystem::path& path) {
  std::string message =
      fmt::format("{} {}: {}", doing, path.string(), std::generic_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return {Code::exhausted, std::move(message)};
    case EROFS:
    case EACCES:
    case EPERM:
      return {Code::unavailable, std::move(message)};
    case ENOENT:
      return {Code::not_found, std::move(message)};
    default:
      return {Code::io_error, std::move(message)};
  }
}

Status replace_file(FileOps& ops, const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path fresh = path;
  fresh += ".new";
  const auto fail = [&](std::string_view doing) {
    const int error = errno;
    ops.unlink(fresh);
    return system_error(error, doing, fresh);
  };
  {
    const int fd = ops.open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return system_error(errno, "creating", fresh);
    const File file(ops, fd);
    iovec part{const_cast<char*>(text.data()), text.size()};
    if (write_fully(file, std::span(&part, 1), 0) != 0) return fail("writing");
    if (ops.sync_data(fd) != 0) return fail("syncing");
  }
  if (ops.rename(fresh, path) != 0) return fail("renaming");
  return {};
}

Status sync_directory(FileOps& ops, const std::filesystem::path& directory) {
  const int fd = ops.open(directory, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return system_error(errno, "opening", directory);
  const File file(ops, fd);
  if (ops.sync_data(fd) != 0) return system_error(errno, "syncing", directory);
  return {};
}

}  // namespace graphtap::store
