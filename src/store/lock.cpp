#include "store/lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "graphtap/version.hpp"

namespace graphtap::store {
namespace {

constexpr std::size_t kTextBytes = 256;  // fixed, so that the file is never shortened

std::string read_text(int fd) {
  std::array<char, kTextBytes> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  std::string_view line(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  line = line.substr(0, line.find('\n'));
  std::string clean;
  for (char c : line) clean += c >= 0x20 && c < 0x7f ? c : '?';
  return clean.empty() ? "a process that left no name" : clean;
}

std::string own_text() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "unknown host");
  std::string text =
      fmt::format("pid {} on {} (graphtap {})\n", ::getpid(), host.data(), version());
  text.resize(kTextBytes, ' ');
  return text;
}

}  // namespace

Result<WriterLock> WriterLock::take(FileOps& ops, const Layout& layout) {
  const int fd = ops.open(layout.lock(), O_RDWR | O_CREAT, 0666);
  if (fd < 0) return system_error(errno, "the store cannot be written: opening", layout.lock());
  auto file = std::make_unique<File>(ops, fd);
  if (ops.lock(fd) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return Status(
          Code::unavailable,
          fmt::format("the store {} is being written by {}; a store has one writer at a time",
                      layout.directory.string(), read_text(fd)));
    }
    return Status(
        Code::unavailable,
        system_error(errno,
                     "this file system gives no locks, without which two writers could meet in one "
                     "store (a network file system may need its lock service); locking",
                     layout.lock())
            .message());
  }
  std::string text = own_text();
  iovec part{text.data(), text.size()};
  if (write_fully(*file, std::span(&part, 1), 0) != 0) {
    return system_error(errno, "writing", layout.lock());
  }
  return WriterLock(std::move(file));
}

std::optional<std::string> WriterLock::holder(const Layout& layout) {
  const int fd = ::open(layout.lock().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const File file(FileOps::posix(), fd);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return read_text(fd);
}

}  // namespace graphtap::store
