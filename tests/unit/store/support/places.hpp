#pragma once
// Directories and files that tests work on.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "graphtap/store_sink.hpp"
#include "graphtap/store_verify.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {

/// A directory that is removed again.
class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "graphtap-store-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path store() const { return path_ / "store"; }

 private:
  std::filesystem::path path_;
};

/// A file system of a few megabytes at a directory, made if need be; gone at the end.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, const char* size) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ =
        ::mount("tmpfs", path_.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }  ///< false: there is no right to

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// The segment files of a store, in order.
inline std::vector<std::filesystem::path> segment_files(const std::filesystem::path& store) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(store / "segments")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::shared_ptr<Sink> open_store(const std::filesystem::path& path, const HookTable& table,
                                        StoreOptions options = {}) {
  return open_store_sink(path, table, std::move(options)).value_or_throw();
}

inline std::shared_ptr<StoreReader> read_store(const std::filesystem::path& path,
                                               ReadOptions options = {}) {
  return StoreReader::open(path, options).value_or_throw();
}

template <class View>
std::vector<View> all_of(Result<Cursor<View>> cursor) {
  Cursor<View> walk = std::move(cursor).value_or_throw();
  std::vector<View> views;
  View view;
  while (walk.next(view)) views.push_back(view);
  return views;
}

/// The tickets that a store holds, in stored order.
inline std::vector<std::uint64_t> tickets(const StoreReader& reader) {
  StepCursor cursor = reader.steps().value_or_throw();
  std::vector<std::uint64_t> found;
  StepView view;
  while (cursor.next(view)) found.push_back(view.info.ticket);
  return found;
}

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    text += std::string(to_string(f.severity)) + " " + f.file + "@" + std::to_string(f.offset) +
            ": " + f.what + "\n";
  }
  return text;
}

#define ASSERT_OK(expression)                        \
  do {                                               \
    const ::graphtap::Status status_ = (expression); \
    ASSERT_TRUE(status_.ok()) << status_.message();  \
  } while (false)
#define EXPECT_OK(expression)                        \
  do {                                               \
    const ::graphtap::Status status_ = (expression); \
    EXPECT_TRUE(status_.ok()) << status_.message();  \
  } while (false)

}  // namespace graphtap::store_test
