#include "control/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace graphtap {
namespace {

Status failure(Code code, const std::filesystem::path& path, const std::string& what, int error) {
  return {code, "control socket " + path.string() + ": " + what + ": " + std::strerror(error)};
}

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.empty() || text.size() >= sizeof(address.sun_path)) {
    return Status(Code::invalid_argument,
                  "control socket \"" + text + "\": the path must have 1 to " +
                      std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Result<FileDescriptor> connect_to(const std::filesystem::path& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.status();
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return failure(Code::io_error, path, "socket", errno);
  if (::connect(fd.get(), generic(address.value()), sizeof(sockaddr_un)) != 0) {
    const int error = errno;
    const Code code = error == ENOENT ? Code::not_found : Code::unavailable;
    return failure(code, path, "nobody answers", error);
  }
  return fd;
}

Result<FileDescriptor> listen_at(const std::filesystem::path& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.status();
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return Status(Code::unavailable, "control socket " + path.string() +
                                           ": something that is not a socket lies there");
    }
    if (connect_to(path).ok()) {
      return Status(Code::unavailable,
                    "control socket " + path.string() + ": another process listens there");
    }
    ::unlink(path.c_str());  // left by a process that died
  }
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return failure(Code::io_error, path, "socket", errno);
  // The mode comes with the creation: there is no moment in which others could connect.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), generic(address.value()), sizeof(sockaddr_un));
  const int error = errno;
  ::umask(before);
  if (bound != 0) return failure(Code::io_error, path, "bind", error);
  if (::listen(fd.get(), 16) != 0) return failure(Code::io_error, path, "listen", errno);
  return fd;
}

bool peer_is_ours(int fd) noexcept {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace graphtap
