#pragma once
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "graphtap/status.hpp"

namespace graphtap {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// A listening socket that only its owner may open. Errors as ControlServer::start.
[[nodiscard]] Result<FileDescriptor> listen_at(const std::filesystem::path& path);
/// Errors as control_request.
[[nodiscard]] Result<FileDescriptor> connect_to(const std::filesystem::path& path);
/// The process at the other end runs as this user or as root.
[[nodiscard]] bool peer_is_ours(int fd) noexcept;

}  // namespace graphtap
