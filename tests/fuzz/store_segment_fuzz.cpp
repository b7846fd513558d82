// A store with one segment of fuzzed bytes, read in every way there is. The first byte says whether
// checksums are made right beforehand (bit 0) and whether payloads are checked (bit 1).
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/store_segment.hpp"
#include "graphtap/store_reader.hpp"
#include "graphtap/store_verify.hpp"
#include "store/layout.hpp"

namespace graphtap::fuzz {
namespace {

const std::filesystem::path& store_directory() {
  static const std::filesystem::path path = [] {
    std::filesystem::path base = "/dev/shm";
    if (!std::filesystem::is_directory(base)) base = std::filesystem::temp_directory_path();
    base /= "graphtap-fuzz-" + std::to_string(::getpid());
    std::filesystem::create_directories(base / "segments");
    std::ofstream(base / "graphtap-store.json")
        << store::manifest_text({store::Id{1}, 1, 0, 0, "fuzz"});
    std::atexit([] {
      std::filesystem::remove_all("/dev/shm/graphtap-fuzz-" + std::to_string(::getpid()));
    });
    return base;
  }();
  return path;
}

/// So that a view that reaches too far is noticed.
std::uint64_t sum(std::span<const std::byte> bytes) {
  std::uint64_t all = 0;
  for (std::byte b : bytes) all += static_cast<std::uint64_t>(b);
  return all;
}

template <class View, class Check>
void drain(Result<Cursor<View>> cursor, Check check) {
  if (!cursor.ok()) return;
  View view;
  for (int i = 0; i < 5000 && cursor.value().next(view); ++i) check(view);
}

void check_record(const RecordView& view) {
  FUZZ_REQUIRE(view.run && view.hook);
  FUZZ_REQUIRE(view.hook->id < view.run->hooks.size());
  FUZZ_REQUIRE(view.rows > 0 && view.data.size() == view.rows * view.row_bytes);
  FUZZ_REQUIRE(std::uint64_t{view.row} + view.rows <= view.record_rows);
  FUZZ_REQUIRE(view.shape().size() == view.hook->row_shape.size() + 1);
  static volatile std::uint64_t sink = 0;
  sink = sink + sum(view.data);
}

void read_everything(const StoreReader& reader) {
  drain(reader.read({}), check_record);
  drain(reader.gaps({}), [](const GapView& gap) { FUZZ_REQUIRE(gap.hook); });
  drain(reader.steps(),
        [](const StepView& step) { FUZZ_REQUIRE(step.wanted.count() <= step.run->hooks.size()); });
  for (const RequestSummary& request : reader.requests()) {
    Query query;
    query.run = request.run->number;
    query.serial = request.serial;
    drain(reader.read(query), [&](const RecordView& view) {
      check_record(view);
      FUZZ_REQUIRE(view.request == request.serial);
    });
    for (const Hook& hook : request.run->hooks) {
      if (request.tokens.end - request.tokens.begin > 100'000) continue;
      if (hook.row_bytes() > 1'000'000) continue;
      GatherQuery gather;
      gather.run = query.run;
      gather.serial = query.serial;
      gather.hook = hook.name;
      gather.begin = std::max<std::int64_t>(0, request.tokens.begin);
      gather.end = std::max(gather.begin, request.tokens.end);
      const Result<Gathered> all = reader.gather(gather);
      if (all.ok()) {
        const auto tokens = static_cast<std::uint64_t>(gather.end - gather.begin);
        FUZZ_REQUIRE(all.value().data.size() == tokens * all.value().row_bytes);
      }
    }
  }
  for (const RunInfo* run : reader.runs()) FUZZ_REQUIRE(reader.totals(run->number).ok());
}

}  // namespace
}  // namespace graphtap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  if (size == 0) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data + 1);
  std::vector<std::byte> bytes(first, first + size - 1);
  if (data[0] & 1) fuzz::repair_segment(bytes);
  const auto& directory = fuzz::store_directory();
  std::ofstream(directory / "segments" / "000001.gts", std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto check = data[0] & 2 ? ReadOptions::Check::always : ReadOptions::Check::never;
  const auto reader = StoreReader::open(directory, {check});
  if (reader.ok()) {
    fuzz::read_everything(*reader.value());
    FUZZ_REQUIRE(!reader.value()->summary().path.empty());
  }
  const auto report = verify_store(directory, true);
  FUZZ_REQUIRE(report.ok() == reader.ok());
  return 0;
}
