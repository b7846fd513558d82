#ifndef GRAPHTAP_NO_NPZ  // else npz_none.cpp
#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

#include "base/near_match.hpp"
#include "store/export/npy.hpp"
#include "store/export/safetensors.hpp"
#include "store/export/tensor_file.hpp"
#include "store/export/zip.hpp"

namespace graphtap::store {
namespace {

constexpr std::uint64_t kMostFromOneByte = 1032;  // what deflate can make of it

class NpzFile final : public TensorFile {
 public:
  NpzFile(ZipArchive archive, std::uint64_t archive_bytes, std::string name)
      : archive_(std::move(archive)), archive_bytes_(archive_bytes), name_(std::move(name)) {}

  Status look() {
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    std::set<std::string> names;
    for (zip_int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<zip_uint64_t>(i);
      zip_stat_t stat{};
      if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_NAME) ||
          !(stat.valid & ZIP_STAT_SIZE)) {
        return corrupt(fmt::format("member {}", i), zip_strerror(archive_.get()));
      }
      const std::string member = stat.name;
      if (!names.insert(member).second) return corrupt(member, "is there twice");
      const bool array = member.ends_with(kArraySuffix);
      if (!array && member != kDocumentMember) continue;
      if (Status s = check_sizes(stat, member); !s.ok()) return s;
      if (array) {
        if (Status s = look_at_array(index, stat.size, member); !s.ok()) return s;
      } else if (Status s = read_document(index, stat.size); !s.ok()) {
        return s;
      }
    }
    return {};
  }

  Status read(std::size_t tensor, std::span<std::byte> out) override {
    Place& place = places_[tensor];
    const std::string& member = tensors_[tensor].name;
    if (!place.file && !place.read) {
      if (Status s = open(place.index, member, place.file); !s.ok()) return s;
      std::vector<std::byte> head(place.head_bytes);
      if (Status s = fill(place.file.get(), member, head); !s.ok()) return s;
      place.left = tensors_[tensor].bytes;
    }
    if (out.size() > place.left) {
      return {Code::invalid_argument, "read past the end of " + in_quotes(member)};
    }
    if (place.read) return {};
    if (Status s = fill(place.file.get(), member, out); !s.ok()) return s;
    place.left -= out.size();
    if (place.left > 0) return {};
    // One more read makes libzip compare the member's CRC.
    std::byte beyond{};
    if (zip_fread(place.file.get(), &beyond, 1) != 0) {
      return corrupt(member, zip_file_strerror(place.file.get()));
    }
    place.file.reset();  // each open member costs what an inflater does
    place.read = true;
    return {};
  }

 private:
  struct Place {
    zip_uint64_t index = 0;
    std::size_t head_bytes = 0;
    ZipMember file;
    std::uint64_t left = 0;
    bool read = false;  // to its end
  };

  [[nodiscard]] Status corrupt(std::string_view member, std::string_view why) const {
    return {Code::corrupt, fmt::format("{}: {}: {}", name_, in_quotes(member), why)};
  }

  /// Rows are read into memory of the size that is claimed: refuses what the archive cannot hold.
  [[nodiscard]] Status check_sizes(const zip_stat_t& stat, const std::string& member) const {
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if ((stat.valid & kNeeded) != kNeeded) return corrupt(member, "its sizes are not said");
    const auto unsupported = [&](const std::string& why) {
      return Status(Code::unsupported, fmt::format("{}: {} {}", name_, in_quotes(member), why));
    };
    if (stat.encryption_method != ZIP_EM_NONE) return unsupported("is encrypted");
    const bool deflated = stat.comp_method == ZIP_CM_DEFLATE;
    if (!deflated && stat.comp_method != ZIP_CM_STORE) {
      return unsupported(
          fmt::format("is compressed by method {}: numpy deflates or stores", stat.comp_method));
    }
    if (stat.comp_size > archive_bytes_) {
      return corrupt(member, fmt::format("claims to take {} bytes of an archive of {}",
                                         stat.comp_size, archive_bytes_));
    }
    if (deflated ? stat.size / kMostFromOneByte > stat.comp_size : stat.size != stat.comp_size) {
      return corrupt(member, fmt::format("claims {} bytes, which {} {} ones cannot be", stat.size,
                                         stat.comp_size, deflated ? "deflated" : "stored"));
    }
    return {};
  }

  Status open(zip_uint64_t index, const std::string& member, ZipMember& out) {
    out.reset(zip_fopen_index(archive_.get(), index, 0));
    return out ? Status() : corrupt(member, zip_strerror(archive_.get()));
  }

  Status fill(zip_file_t* file, const std::string& member, std::span<std::byte> out) const {
    while (!out.empty()) {
      const zip_int64_t got = zip_fread(file, out.data(), out.size());
      if (got <= 0) {
        return corrupt(member, got < 0 ? zip_file_strerror(file) : "ends before its size says so");
      }
      out = out.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  Status look_at_array(zip_uint64_t index, std::uint64_t size, const std::string& member) {
    ZipMember file;
    if (Status s = open(index, member, file); !s.ok()) return s;
    std::array<std::byte, kNpyPrefix> prefix{};
    if (size < prefix.size()) return corrupt(member, "is too short for a .npy file");
    if (Status s = fill(file.get(), member, prefix); !s.ok()) return s;
    const std::size_t head_bytes = npy_head_bytes(prefix);
    if (head_bytes < prefix.size()) return corrupt(member, "is no .npy file of version 1 to 3");
    if (head_bytes > size || head_bytes > kMostNpyHead) {
      return corrupt(member, fmt::format("has a head of {} bytes in {} (at most {} are allowed)",
                                         head_bytes, size, kMostNpyHead));
    }
    std::vector<std::byte> head(head_bytes);
    std::copy(prefix.begin(), prefix.end(), head.begin());
    if (Status s = fill(file.get(), member, std::span(head).subspan(prefix.size())); !s.ok()) {
      return s;
    }
    TensorEntry tensor;
    tensor.name = member.substr(0, member.size() - std::string_view(kArraySuffix).size());
    if (Status s = parse_npy_head(head, tensor); !s.ok()) {
      return {s.code(), fmt::format("{}: {}: {}", name_, in_quotes(member), s.message())};
    }
    if (tensor.bytes != size - head_bytes) {
      return corrupt(member, fmt::format("has {} bytes of data, its shape needs {}",
                                         size - head_bytes, tensor.bytes));
    }
    tensors_.push_back(std::move(tensor));
    places_.push_back({index, head_bytes, nullptr, 0, false});
    return {};
  }

  Status read_document(zip_uint64_t index, std::uint64_t size) {
    if (size > kMostHeader) {
      return corrupt(kDocumentMember,
                     fmt::format("takes {} bytes, at most {} are allowed", size, kMostHeader));
    }
    ZipMember file;
    if (Status s = open(index, kDocumentMember, file); !s.ok()) return s;
    // It grows as bytes come, so that a small file that claims a large one gets no memory for it.
    constexpr std::size_t kStep = 1 << 20;
    while (document_.size() < size) {
      const std::size_t at = document_.size();
      document_.resize(at + std::min<std::size_t>(kStep, size - at));
      const auto bytes = std::as_writable_bytes(std::span(document_)).subspan(at);
      if (Status s = fill(file.get(), kDocumentMember, bytes); !s.ok()) return s;
    }
    char beyond = 0;
    if (zip_fread(file.get(), &beyond, 1) != 0) {
      return corrupt(kDocumentMember, zip_file_strerror(file.get()));
    }
    return {};
  }

  ZipArchive archive_;  // outlives the members
  const std::uint64_t archive_bytes_;
  std::string name_;
  std::vector<Place> places_;
};

}  // namespace

bool has_npz() noexcept { return true; }

Result<std::unique_ptr<TensorFile>> open_npz(std::span<const std::byte> bytes,
                                             const std::string& name) {
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get());
  if (!source) return Status(Code::exhausted, fmt::format("{}: {}", name, error.text()));
  ZipArchive archive(zip_open_from_source(source, ZIP_RDONLY, error.get()));
  if (!archive) {
    zip_source_free(source);
    return Status(Code::corrupt, fmt::format("{} is no npz file: {}", name, error.text()));
  }
  auto file = std::make_unique<NpzFile>(std::move(archive), bytes.size(), name);
  if (Status s = file->look(); !s.ok()) return s;
  return std::unique_ptr<TensorFile>(std::move(file));
}

}  // namespace graphtap::store
#endif
