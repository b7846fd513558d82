#include "store/open_sink.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "graphtap/version.hpp"
#include "store/segment.hpp"
#include "store/sink.hpp"

namespace graphtap::store {
namespace {

/// `durable`: an entry that was made survives power loss when this returns.
Status make_directories(FileOps& ops, const std::filesystem::path& path, bool durable) {
  std::filesystem::path done;
  for (const auto& part : path) {
    done /= part;
    if (ops.make_directory(done) == 0) {
      const auto parent = std::filesystem::absolute(done).lexically_normal().parent_path();
      if (Status s = durable ? sync_directory(ops, parent) : Status{}; !s.ok()) return s;
      continue;
    }
    if (errno == EEXIST) continue;
    const int error = errno;
    std::error_code ignored;
    // Of directories that are there, some may not even be looked into ("/" on a read-only system:
    // EROFS).
    if (std::filesystem::is_directory(done, ignored)) continue;
    return system_error(error, "creating", done);
  }
  return {};
}

/// The manifest of the store, made if there is none. The lock must be held.
Result<Manifest> own_manifest(FileOps& ops, const Layout& layout) {
  std::error_code error;
  if (std::filesystem::exists(layout.manifest(), error)) return read_manifest(layout);
  const Manifest manifest{random_id(), kMajor, kMinor, unix_now_ns(),
                          std::string("graphtap ") + version()};
  if (Status s = replace_file(ops, layout.manifest(), manifest_text(manifest)); !s.ok()) return s;
  return manifest;
}

/// The number of the run after those that are there. Errors: unsupported (a newer format).
Result<std::uint32_t> next_run(const Layout& layout, const std::vector<std::uint64_t>& segments) {
  for (auto number = segments.rbegin(); number != segments.rend(); ++number) {
    const auto segment = Segment::open(layout, *number);
    if (!segment.ok() && segment.status().code() == Code::unsupported) return segment.status();
    if (segment.ok() && segment.value()->has_head()) return segment.value()->head().run_number + 1;
  }
  return 1;
}

std::string default_name(const HookTable& table, std::int64_t now_ns) {
  const auto seconds = static_cast<std::time_t>(now_ns / 1'000'000'000);
  return fmt::format("{} {:%Y-%m-%d %H:%M:%S}", table.model(), fmt::gmtime(seconds));
}

}  // namespace

Result<std::shared_ptr<Sink>> open_sink(FileOps& ops, const std::filesystem::path& directory,
                                        const HookTable& table, const StoreOptions& options) {
  const Layout layout{directory};
#ifdef GRAPHTAP_BUG_store_directory_not_synced
  const bool durable = false;
#else
  const bool durable = options.durability == Durability::power;
#endif
  std::error_code error;
  const bool ours = std::filesystem::exists(layout.manifest(), error);
  if (ours) {
    if (const auto manifest = read_manifest(layout); !manifest.ok()) return manifest.status();
  } else {
    if (Status s = check_free_for_store(layout); !s.ok()) return s;
    if (Status s = make_directories(ops, directory, durable); !s.ok()) return s;
  }
  Result<WriterLock> lock = WriterLock::take(ops, layout);
  if (!lock.ok()) return lock.status();
  const Result<Manifest> manifest = own_manifest(ops, layout);
  if (!manifest.ok()) return manifest.status();
  if (Status s = make_directories(ops, layout.segments(), durable); !s.ok()) return s;
  if (Status s = durable ? sync_directory(ops, directory) : Status{}; !s.ok()) return s;
  const auto segments = list_segments(layout);
  if (!segments.ok()) return segments.status();
  const Result<std::uint32_t> number = next_run(layout, segments.value());
  if (!number.ok()) return number.status();

  const SegmentIdentity identity{manifest.value().store_id, random_id(), number.value()};
  RunInfo run;
  run.number = number.value();
  run.id = to_hex(identity.run_id);
  run.model = table.model();
  run.started_unix_ns = unix_now_ns();
  run.name = options.run_name.empty() ? default_name(table, run.started_unix_ns) : options.run_name;
  run.graphtap_version = version();
  run.format_major = kMajor;
  run.format_minor = kMinor;
  run.ranks = options.ranks;
  run.world = options.world;
  run.hooks = table.hooks();
  const std::uint64_t next = segments.value().empty() ? 1 : segments.value().back() + 1;
  auto sink = std::make_shared<StoreSink>(ops, layout, std::move(lock).value(), identity,
                                          std::move(run), table, options, next);
  if (Status s = sink->begin(options, segments.value()); !s.ok()) return s;
  return std::shared_ptr<Sink>(std::move(sink));
}

}  // namespace graphtap::store

namespace graphtap {

Result<std::shared_ptr<Sink>> open_store_sink(const std::filesystem::path& directory,
                                              const HookTable& table, StoreOptions options) {
  return store::open_sink(store::FileOps::posix(), directory, table, options);
}

}  // namespace graphtap
