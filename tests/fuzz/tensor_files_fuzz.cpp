// What an import reads: safetensors headers, npz archives, .npy heads and graphtap's own
// description of tensors. The first byte says which.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "store/export/document.hpp"
#include "store/export/names.hpp"
#include "store/export/npy.hpp"
#include "store/export/safetensors.hpp"
#include "store/export/tensor_file.hpp"

namespace {

using namespace graphtap;

void require_refused(const Status& status) {
  FUZZ_REQUIRE(status.code() == Code::corrupt || status.code() == Code::unsupported);
  FUZZ_REQUIRE(!status.message().empty());
}

void use_document(std::string_view text) {
  const auto document = store::parse_document(text, "file");
  if (!document.ok()) return require_refused(document.status());
  for (const store::DocumentTensor& tensor : document.value().tensors) {
    std::int64_t at = tensor.tokens.begin;
    for (const MissingTokens& missing : tensor.missing) {
      FUZZ_REQUIRE(missing.tokens.begin >= at && missing.tokens.end <= tensor.tokens.end);
      at = missing.tokens.end;
    }
  }
}

/// Whatever was accepted can be read to its end, as one or in pieces, and no further.
void use_file(std::span<const std::byte> bytes, std::size_t piece) {
  auto opened = store::open_tensor_bytes(bytes, "file");
  if (!opened.ok()) return require_refused(opened.status());
  store::TensorFile& file = *opened.value();
  std::vector<std::byte> buffer(piece);
  std::uint64_t budget = 1 << 20;  // a deflated member may claim far more than it takes here
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const store::TensorEntry& tensor = file.tensors()[i];
    std::uint64_t needed = 0;
    FUZZ_REQUIRE(store::tensor_bytes(tensor.dtype, tensor.shape, needed));
    FUZZ_REQUIRE(needed == tensor.bytes);
    std::uint64_t left = tensor.bytes;
    bool whole = true;
    while (left > 0 && budget > 0 && whole) {
      const auto part = std::span(buffer).first(std::min<std::uint64_t>(piece, left));
      whole = file.read(i, part).ok();
      left -= part.size();
      budget -= std::min<std::uint64_t>(budget, part.size());
    }
    if (left == 0 && whole) FUZZ_REQUIRE(!file.read(i, std::span(buffer).first(1)).ok());
  }
  if (!file.document().empty()) use_document(file.document());
}

void use_npy(std::span<const std::byte> bytes) {
  const std::size_t length = store::npy_head_bytes(bytes);
  if (length == 0 || length > bytes.size()) return;
  store::TensorEntry tensor;
  if (!store::parse_npy_head(bytes.first(length), tensor).ok()) return;
  const std::string again = store::npy_head(tensor.dtype, tensor.shape);
  store::TensorEntry same;
  FUZZ_REQUIRE(store::parse_npy_head(std::as_bytes(std::span(again)), same).ok());
  FUZZ_REQUIRE(same.dtype == tensor.dtype && same.shape == tensor.shape);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
    case 1:
      use_file(bytes, data[0] & 1 ? 7 : 4096);
      break;
    case 2: {  // a header whose length is right, and the data that fits most often
      std::vector<std::byte> file(sizeof(std::uint64_t));
      const auto length = static_cast<std::uint64_t>(bytes.size());
      std::memcpy(file.data(), &length, sizeof(length));
      file.insert(file.end(), bytes.begin(), bytes.end());
      file.resize(file.size() + data[0] / 6);
      use_file(file, 5);
      break;
    }
    case 3:
      use_npy(bytes);
      break;
    case 4:
      use_document(text);
      break;
    default: {
      const auto name = store::unescape_name(text);
      if (name) FUZZ_REQUIRE(store::escape_name(*name) == text);
      FUZZ_REQUIRE(store::unescape_name(store::escape_name(text)) == text);
    }
  }
  return 0;
}
