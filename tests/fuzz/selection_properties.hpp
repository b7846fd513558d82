#pragma once
#include <string>

#include "fuzz/fuzz.hpp"
#include "graphtap/selection.hpp"

namespace graphtap::fuzz {

/// A model with some of the catalogue: a type that is at odd layers only, two global ones, others
/// missing.
inline const HookTable& model() {
  static const HookTable table = [] {
    HookTable built("fuzz");
    const auto add = [&](const char* type, int layer) {
      FUZZ_REQUIRE(built.add({type, layer, DType::f32, {8}, 1, 1}).ok());
    };
    add("token_ids", -1);
    for (int layer = 0; layer < 6; ++layer) {
      for (const char* type : {"resid_pre", "q", "k", "v", "mlp_out"}) add(type, layer);
      if (layer % 2 == 1) add("router_logits", layer);
    }
    add("final_logits", -1);
    return built;
  }();
  return table;
}

/// A selection made of the same terms as they were written.
inline std::string joined(const Selection& selection) {
  std::string text;
  const std::string* last = nullptr;
  for (const Selection::Term& term : selection.terms()) {
    if (last && *last == term.text) continue;  // the terms of one preset
    if (last) text += ";";
    text += term.text;
    last = &term.text;
  }
  return text;
}

inline void check_error(const Status& status) {
  FUZZ_REQUIRE(status.code() == Code::invalid_argument);
  FUZZ_REQUIRE(!status.message().empty() && status.message().size() < 2000);
}

/// What holds of every selection that could be parsed. resolve() must not throw: an exception ends
/// the run.
inline void check_selection(const Selection& selection) {
  const Result<HookSet> set = selection.resolve(model());
  if (!set.ok()) check_error(set.status());
  const Result<Selection> again = Selection::parse(selection.text());
  FUZZ_REQUIRE(again.ok());
  FUZZ_REQUIRE(again.value().sampling() == selection.sampling());
  const Result<HookSet> same = again.value().resolve(model());
  FUZZ_REQUIRE(same.ok() == set.ok());
  if (!set.ok()) return;
  FUZZ_REQUIRE(same.value() == set.value());
  FUZZ_REQUIRE(set.value().universe() == model().size());
  FUZZ_REQUIRE(set.value().empty() == selection.is_none());
  if (selection.terms().empty()) return;
  const Result<Selection> rebuilt = Selection::parse(joined(selection));
  FUZZ_REQUIRE(rebuilt.ok());
  FUZZ_REQUIRE(rebuilt.value().resolve(model()).value() == set.value());
}

}  // namespace graphtap::fuzz
