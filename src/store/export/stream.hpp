#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/checksum.hpp"
#include "store/export/document.hpp"
#include "store/export/tensor_file.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// A tensor's bytes as a file is to hold them, some rows at a time. One thread.
class TensorStream {
 public:
  /// About `buffer_bytes` at a time, and one row at least.
  TensorStream(const StoreReader& reader, const FiledTensor& tensor, std::uint64_t buffer_bytes);

  /// The next bytes, valid until the next call; none at the end. Errors: as StoreReader::gather().
  Result<std::span<const std::byte>> next();
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }  // of the last next()
  /// Of all bytes so far.
  [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_.value(); }

 private:
  const StoreReader& reader_;
  const FiledTensor& tensor_;
  const std::uint64_t rows_at_once_;
  std::int64_t at_;  // the next token
  std::uint64_t rows_ = 0;
  std::vector<std::byte> bytes_;
  RunningChecksum checksum_;
};

/// Values of a small float type as float32: exact, the bits of a NaN are kept as far as they go.
[[nodiscard]] std::vector<std::byte> widened(DType dtype, std::span<const std::byte> values);
[[nodiscard]] bool can_widen(DType dtype) noexcept;

/// One file of an export, while it is written.
struct FileContent {
  std::string document;
  std::vector<FiledTensor> tensors;
  std::vector<TensorEntry> entries;  // of the tensors, as the file has them
  bool compress = false;             // npz
  std::uint64_t buffer_bytes = 0;
  /// Called with rows and bytes as they are written; false gives the file up.
  std::function<bool(std::uint64_t rows, std::uint64_t bytes)> progress;
};

/// Writes a whole file at `path` and syncs it; fills in the checksum of each tensor. What is left
/// after an error is for the caller to remove. Errors: as StoreReader::gather(), exhausted,
/// io_error, unavailable; Code::timeout if progress() gave it up.
[[nodiscard]] Status write_safetensors(FileOps& ops, const StoreReader& reader,
                                       const std::filesystem::path& path,
                                       const FileContent& content,
                                       std::vector<std::uint64_t>& checksums);
[[nodiscard]] Status write_npz(FileOps& ops, const StoreReader& reader,
                               const std::filesystem::path& path, const FileContent& content,
                               std::vector<std::uint64_t>& checksums);

}  // namespace graphtap::store
