#include "fuzz/selection_properties.hpp"
#include "graphtap/catalogue.hpp"

// The first byte says whether the built-in catalogue is extended or an empty one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  if (size == 0) return 0;
  const Catalogue before = data[0] % 2 == 0 ? Catalogue::builtin() : Catalogue();
  const std::string_view json = fuzz::text_of(data + 1, size - 1);
  Catalogue catalogue = before;
  const Status status = catalogue.extend(json, "fuzz");
  if (!status.ok()) {
    FUZZ_REQUIRE(status.code() == Code::invalid_argument && !status.message().empty());
    FUZZ_REQUIRE(catalogue.types().size() == before.types().size());
    FUZZ_REQUIRE(catalogue.presets().size() == before.presets().size());
    return 0;
  }
  for (const HookType& type : catalogue.types()) {
    FUZZ_REQUIRE(catalogue.find(type.name) == &type);
    for (const std::string& alias : type.aliases) FUZZ_REQUIRE(catalogue.find(alias) == &type);
    FUZZ_REQUIRE(type.number < 0 || catalogue.find_number(type.number) == &type);
    FUZZ_REQUIRE(Selection::parse(type.name, catalogue).ok());
  }
  for (const Preset& preset : catalogue.presets()) {
    FUZZ_REQUIRE(catalogue.find_preset(preset.name) == &preset);
    const Result<Selection> selection = Selection::parse(preset.name, catalogue);
    FUZZ_REQUIRE(selection.ok() && !selection.value().terms().empty());
    const Result<HookSet> set = selection.value().resolve(fuzz::model());
    if (!set.ok()) fuzz::check_error(set.status());
  }
  const bool added = catalogue.types().size() + catalogue.presets().size() >
                     before.types().size() + before.presets().size();
  FUZZ_REQUIRE(catalogue.extend(json, "fuzz").ok() == !added);  // names are taken now
  return 0;
}
