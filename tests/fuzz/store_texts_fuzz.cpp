// The two JSON texts of a store: its manifest and the description of a run.
#include "fuzz/fuzz.hpp"
#include "store/layout.hpp"
#include "store/run_header.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  if (data[0] & 1) {
    const auto manifest = store::parse_manifest(text, "manifest");
    if (manifest.ok()) {
      const auto again = store::parse_manifest(store::manifest_text(manifest.value()), "again");
      FUZZ_REQUIRE(again.ok() && again.value().store_id == manifest.value().store_id);
    } else {
      FUZZ_REQUIRE(!manifest.status().message().empty());
    }
    return 0;
  }
  const auto run = store::parse_run_json(text);
  if (!run.ok()) {
    FUZZ_REQUIRE(run.status().code() == Code::corrupt && !run.status().message().empty());
    return 0;
  }
  const store::RunHeader& header = run.value();
  FUZZ_REQUIRE(header.table || !header.table_problem.empty());
  if (header.table) {
    FUZZ_REQUIRE(header.table->size() == header.info.hooks.size());
    const auto again = store::parse_run_json(store::run_json(header.info, *header.table));
    FUZZ_REQUIRE(again.ok() && again.value().info.hooks.size() == header.info.hooks.size());
  }
  return 0;
}
