#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/dtype.hpp"
#include "graphtap/status.hpp"

namespace graphtap::store {

/// A tensor as a file describes it. `bytes` fits the shape and the type.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// Bytes of a tensor; nothing if they exceed 2^63 or a dimension is negative.
[[nodiscard]] bool tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                                std::uint64_t& bytes);

/// A safetensors or npz file that was looked through: every size in it was compared with the file's
/// before anything is read. One thread at a time.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const noexcept { return tensors_; }
  /// What graphtap wrote beside the tensors (see document.hpp); empty in a file from elsewhere.
  [[nodiscard]] const std::string& document() const noexcept { return document_; }
  /// Fills `out` with the tensor's next bytes: a tensor is read once, from front to back; several
  /// may be read in turn. Errors: corrupt, io_error, exhausted.
  virtual Status read(std::size_t tensor, std::span<std::byte> out) = 0;

 protected:
  std::vector<TensorEntry> tensors_;
  std::string document_;
};

/// Errors: not_found, unavailable, io_error; corrupt (neither of the two, or one that contradicts
/// itself: what and where is said); unsupported (element types or layouts that no hook has).
[[nodiscard]] Result<std::unique_ptr<TensorFile>> open_tensor_file(
    const std::filesystem::path& path);
/// The same of bytes that outlive it; `name` stands for the file in messages.
[[nodiscard]] Result<std::unique_ptr<TensorFile>> open_tensor_bytes(
    std::span<const std::byte> bytes, const std::string& name);

// By format; open_tensor_bytes() decides.
[[nodiscard]] Result<std::unique_ptr<TensorFile>> open_safetensors(std::span<const std::byte> bytes,
                                                                   const std::string& name);
/// Whether this build can read and write npz files.
[[nodiscard]] bool has_npz() noexcept;
[[nodiscard]] Result<std::unique_ptr<TensorFile>> open_npz(std::span<const std::byte> bytes,
                                                           const std::string& name);

}  // namespace graphtap::store
