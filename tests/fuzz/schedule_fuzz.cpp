#include "fuzz/selection_properties.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  const Result<ScheduleEntry> entry = parse_schedule_entry(fuzz::text_of(data, size));
  if (!entry.ok()) {
    fuzz::check_error(entry.status());
    return 0;
  }
  fuzz::check_selection(entry.value().selection);
  const std::string text =
      std::to_string(entry.value().step) + ":" + entry.value().selection.text();
  const Result<ScheduleEntry> again = parse_schedule_entry(text);
  FUZZ_REQUIRE(again.ok() && again.value().step == entry.value().step);
  return 0;
}
