#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/status.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// 16 random bytes that name a store or a run.
using Id = std::array<unsigned char, 16>;
[[nodiscard]] Id random_id();
[[nodiscard]] std::uint64_t random_number();
[[nodiscard]] std::string to_hex(const Id& id);
[[nodiscard]] std::optional<Id> id_from_hex(std::string_view text);
[[nodiscard]] std::int64_t unix_now_ns();

/// Where things are in a store directory.
struct Layout {
  std::filesystem::path directory;
  [[nodiscard]] std::filesystem::path manifest() const { return directory / "graphtap-store.json"; }
  [[nodiscard]] std::filesystem::path lock() const { return directory / "LOCK"; }
  [[nodiscard]] std::filesystem::path segments() const { return directory / "segments"; }
  [[nodiscard]] std::filesystem::path index() const { return directory / "index.sqlite"; }
  [[nodiscard]] std::filesystem::path segment(std::uint64_t number) const;
};
/// "segments/000012.gts": how messages and findings name a segment.
[[nodiscard]] std::string segment_name(std::uint64_t number);

/// graphtap-store.json.
struct Manifest {
  Id store_id{};
  std::uint16_t major = 0, minor = 0;
  std::int64_t created_unix_ns = 0;
  std::string created_by;
};
[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Errors: corrupt, invalid_argument (another format), unsupported (a newer major version).
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text,
                                              const std::filesystem::path& path);
/// Errors: those, not_found (no such directory), invalid_argument (not a store), io_error.
[[nodiscard]] Result<Manifest> read_manifest(const Layout& layout);
[[nodiscard]] Status newer_version(const std::filesystem::path& path, unsigned major,
                                   unsigned minor);

/// Numbers of the segment files that are there, rising. Errors: io_error, unavailable.
[[nodiscard]] Result<std::vector<std::uint64_t>> list_segments(const Layout& layout);

/// True if a store may be made in the directory: it is not there, or holds nothing but what an
/// interrupted creation leaves. Errors: invalid_argument (something else lives there), unavailable,
/// io_error.
[[nodiscard]] Status check_free_for_store(const Layout& layout);

}  // namespace graphtap::store
