#include "fuzz/selection_properties.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtap;
  const Result<Selection> selection = Selection::parse(fuzz::text_of(data, size));
  if (selection.ok()) {
    fuzz::check_selection(selection.value());
  } else {
    fuzz::check_error(selection.status());
  }
  return 0;
}
