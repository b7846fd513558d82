#include "store/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/file_ops.hpp"

namespace graphtap::store {
namespace {

// Address space only: a growing file is mapped past its end, so that it is rarely mapped again.
constexpr std::size_t kRoomToGrow = 64u << 20;

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(errno, "opening", path);
  std::unique_ptr<MappedFile> file(new MappedFile(path, fd));
  if (Status s = file->refresh(); !s.ok()) return s;
  return file;
}

MappedFile::~MappedFile() {
  for (const Mapping& mapping : mappings_) ::munmap(mapping.address, mapping.length);
  ::close(fd_);
}

Status MappedFile::refresh() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return system_error(errno, "reading the size of", path_);
  if (!S_ISREG(info.st_mode)) {
    return {Code::corrupt, fmt::format("{}: not a regular file", path_.string())};
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < bytes_.size()) {
    return {Code::corrupt, fmt::format("{}: was cut from {} to {} bytes while it was being read",
                                       path_.string(), bytes_.size(), size)};
  }
  if (size == 0) return {};
  if (mappings_.empty() || mappings_.back().length < size) {
    const std::size_t length = mappings_.empty() ? size : 2 * size + kRoomToGrow;
    void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED) return system_error(errno, "mapping", path_);
    mappings_.push_back({address, length});
  }
  bytes_ = {static_cast<const std::byte*>(mappings_.back().address), size};
  return {};
}

}  // namespace graphtap::store
