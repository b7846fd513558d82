// index.sqlite as fuzzed bytes, compared with a segment: whatever it is, it is named and does no
// harm.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "graphtap/store_sink.hpp"
#include "store/index.hpp"
#include "store/segment_set.hpp"

namespace graphtap::fuzz {
namespace {

/// A segment of two steps, in memory once its directory is gone.
const store::SegmentSet& segments() {
  static const store::SegmentSet* set = [] {
    const auto path = std::filesystem::temp_directory_path() /
                      ("graphtap-fuzz-index-" + std::to_string(::getpid()));
    HookTable table("fuzz");
    FUZZ_REQUIRE(table.add({"resid_pre", 0, DType::u8, {4}, 1, 1}).ok());
    const auto sink = open_store_sink(path, table);
    FUZZ_REQUIRE(sink.ok());
    const auto request = std::make_shared<const RequestInfo>(RequestInfo{1, "a", 0});
    const std::byte rows[8] = {};
    const Slice slices[] = {{request, 0, 0, 2, RowFlags::none}};
    for (std::uint64_t ticket = 1; ticket <= 2; ++ticket) {
      DeliveredStep step;
      step.ticket = step.step = ticket;
      step.wanted = table.all();
      step.records.push_back({&table[0], 0, 2, 4, 0, rows, slices});
      FUZZ_REQUIRE(sink.value()->write(step).ok());
    }
    FUZZ_REQUIRE(sink.value()->close().ok());
    auto* loaded = new store::SegmentSet;
    FUZZ_REQUIRE(loaded->load({path}).ok());
    std::filesystem::remove_all(path);
    return loaded;
  }();
  return *set;
}

}  // namespace
}  // namespace graphtap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  Result<store::Database> db = store::Database::from_bytes(fuzz::text_of(data, size));
  if (!db.ok()) return 0;
  std::vector<const store::Segment*> all;
  for (const auto& segment : fuzz::segments().all()) all.push_back(segment.get());
  const store::Id id{1};  // that of the seeds, which hold an index of just this segment
  for (bool live : {false, true}) {
    const store::IndexCheck check = store::check_index(db.value(), id, all, live);
    for (const Finding& finding : check.findings) FUZZ_REQUIRE(!finding.what.empty());
    FUZZ_REQUIRE(check.rows > 0 || !check.findings.empty());
  }
  return 0;
}
