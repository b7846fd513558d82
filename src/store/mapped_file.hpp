#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap::store {

/// A file that may grow, mapped read-only. What bytes() gave out stays mapped, at the same place,
/// while the object lives; refresh() shows what was appended.
class MappedFile {
 public:
  /// Errors: not_found, unavailable, io_error.
  [[nodiscard]] static Result<std::unique_ptr<MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Status refresh();
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  MappedFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  struct Mapping {
    void* address;
    std::size_t length;
  };
  std::filesystem::path path_;
  int fd_;
  std::vector<Mapping> mappings_;  // the last is the one in use
  std::span<const std::byte> bytes_;
};

}  // namespace graphtap::store
