#include "store/export/tensor_file.hpp"

#include <cstring>
#include <utility>

#include "store/mapped_file.hpp"

namespace graphtap::store {
namespace {

/// Keeps the file mapped while what reads it lives.
class MappedTensorFile final : public TensorFile {
 public:
  MappedTensorFile(std::unique_ptr<MappedFile> file, std::unique_ptr<TensorFile> inner)
      : file_(std::move(file)), inner_(std::move(inner)) {
    tensors_ = inner_->tensors();
    document_ = inner_->document();
  }
  Status read(std::size_t tensor, std::span<std::byte> out) override {
    return inner_->read(tensor, out);
  }

 private:
  std::unique_ptr<MappedFile> file_;  // outlives the other
  std::unique_ptr<TensorFile> inner_;
};

bool begins_as_zip(std::span<const std::byte> bytes) {
  // A member, or the end of an archive without any.
  return bytes.size() >= 4 && (std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0 ||
                               std::memcmp(bytes.data(), "PK\x05\x06", 4) == 0);
}

}  // namespace

bool tensor_bytes(DType dtype, std::span<const std::int64_t> shape, std::uint64_t& bytes) {
  std::uint64_t size = size_of(dtype);
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return false;
    empty = empty || dimension == 0;
  }
  for (const std::int64_t dimension : shape) {
    if (empty) break;
    const auto count = static_cast<std::uint64_t>(dimension);
    if (size > static_cast<std::uint64_t>(INT64_MAX) / count) return false;
    size *= count;
  }
  bytes = empty ? 0 : size;
  return true;
}

Result<std::unique_ptr<TensorFile>> open_tensor_bytes(std::span<const std::byte> bytes,
                                                      const std::string& name) {
  return begins_as_zip(bytes) ? open_npz(bytes, name) : open_safetensors(bytes, name);
}

Result<std::unique_ptr<TensorFile>> open_tensor_file(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  auto inner = open_tensor_bytes(file.value()->bytes(), path.string());
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<TensorFile>(
      std::make_unique<MappedTensorFile>(std::move(file).value(), std::move(inner).value()));
}

}  // namespace graphtap::store
