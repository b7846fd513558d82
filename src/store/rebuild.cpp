#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "graphtap/store_verify.hpp"
#include "store/index.hpp"
#include "store/keeper.hpp"
#include "store/lock.hpp"
#include "store/segment_set.hpp"

namespace graphtap {

Result<IndexReport> rebuild_index(const std::filesystem::path& directory) {
  const store::Layout layout{directory};
  const auto manifest = store::read_manifest(layout);
  if (!manifest.ok()) return manifest.status();
  store::FileOps& ops = store::FileOps::posix();
  const auto lock = store::WriterLock::take(ops, layout);
  if (!lock.ok()) return lock.status();
  store::SegmentSet segments;
  if (Status s = segments.load(layout); !s.ok()) return s;

  std::filesystem::path fresh = layout.index();
  fresh += ".new";
  const auto give_up = [&](const Status& status) {
    store::remove_index(fresh);
    return status;
  };
  {
    Result<store::Index> index = store::Index::create(fresh, manifest.value().store_id);
    if (!index.ok()) return give_up(index.status());
    if (Status s = store::index_segments(index.value(), segments); !s.ok()) return give_up(s);
    if (Status s = index.value().close(); !s.ok()) return give_up(s);
  }
  store::remove_index(layout.index());
  if (ops.rename(fresh, layout.index()) != 0) {
    return give_up(store::system_error(errno, "renaming", fresh));
  }
  IndexReport report;
  std::set<std::pair<std::uint32_t, std::uint64_t>> requests;
  for (const auto& segment : segments.all()) {
    if (!segment->has_head()) continue;
    ++report.segments;
    for (std::size_t i = 0; i < segment->directory().requests(); ++i) {
      requests.emplace(segment->head().run_number, segment->directory().request(i).serial);
    }
    for (std::size_t i = 0; i < segment->directory().frames(); ++i) {
      const bool step =
          segment->directory().frame(i).kind == static_cast<std::uint16_t>(store::FrameKind::step);
      report.steps += step ? 1 : 0;
    }
  }
  report.requests = requests.size();
  return report;
}

}  // namespace graphtap
