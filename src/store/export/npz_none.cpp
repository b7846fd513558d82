// In place of npz_read.cpp and npz_write.cpp in a build without libzip (-DGRAPHTAP_NPZ=OFF).
#ifdef GRAPHTAP_NO_NPZ
#include <fmt/format.h>

#include "store/export/stream.hpp"
#include "store/export/tensor_file.hpp"

namespace graphtap::store {
namespace {

Status no_npz(const std::string& name) {
  return {Code::unsupported,
          fmt::format("{}: this build has no npz (it lacks libzip); use safetensors", name)};
}

}  // namespace

bool has_npz() noexcept { return false; }

Result<std::unique_ptr<TensorFile>> open_npz(std::span<const std::byte>, const std::string& name) {
  return no_npz(name);
}

Status write_npz(FileOps&, const StoreReader&, const std::filesystem::path& path,
                 const FileContent&, std::vector<std::uint64_t>&) {
  return no_npz(path.string());
}

}  // namespace graphtap::store
#endif
