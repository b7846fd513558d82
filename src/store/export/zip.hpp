#pragma once
#include <zip.h>

#include <memory>
#include <string>

namespace graphtap::store {

struct ZipClose {
  // An archive that was being written is given up, not written.
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
  void operator()(zip_file_t* file) const noexcept { zip_fclose(file); }
};
using ZipArchive = std::unique_ptr<zip_t, ZipClose>;
using ZipMember = std::unique_ptr<zip_file_t, ZipClose>;

/// The member that holds what graphtap says of the tensors.
inline constexpr const char* kDocumentMember = "graphtap.json";
inline constexpr const char* kArraySuffix = ".npy";

/// zip_error_t that ends itself.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  [[nodiscard]] zip_error_t* get() noexcept { return &error_; }
  [[nodiscard]] std::string text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_{};
};

}  // namespace graphtap::store
