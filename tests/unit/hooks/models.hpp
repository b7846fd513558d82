#pragma once
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "graphtap/hook_table.hpp"
#include "graphtap/selection.hpp"

namespace graphtap::testing {

inline HookSpec spec(std::string type, int layer = -1) {
  return {std::move(type), layer, DType::f32, {8}, 1, 1};
}

inline void must_add(HookTable& table, HookSpec hook) {
  const Result<HookId> id = table.add(std::move(hook));
  ASSERT_TRUE(id.ok()) << id.status().message();
}

/// Six layers with resid_pre, q, k, v, mlp_out; router_logits at odd layers; two global hooks. 35
/// hooks.
inline HookTable small_model() {
  HookTable table("small");
  must_add(table, spec("token_ids"));
  for (int layer = 0; layer < 6; ++layer) {
    for (const char* type : {"resid_pre", "q", "k", "v", "mlp_out"}) {
      must_add(table, spec(type, layer));
    }
    if (layer % 2 == 1) must_add(table, spec("router_logits", layer));
  }
  must_add(table, spec("final_logits"));
  return table;
}

inline std::set<std::string> names(const HookTable& table, const HookSet& set) {
  std::set<std::string> result;
  for (HookId id : set.ids()) result.insert(table[id].name);
  return result;
}

/// The hooks a selection means, or {"error: …"}.
inline std::set<std::string> selected(const HookTable& table, std::string_view text) {
  const Result<Selection> selection = Selection::parse(text, table.catalogue());
  if (!selection.ok()) return {"error: " + selection.status().message()};
  const Result<HookSet> set = selection.value().resolve(table);
  if (!set.ok()) return {"error: " + set.status().message()};
  return names(table, set.value());
}

/// {"blocks.0.q", …} for every type and layer.
inline std::set<std::string> at(const std::vector<std::string>& types,
                                const std::vector<int>& layers) {
  std::set<std::string> result;
  for (const std::string& type : types) {
    for (int layer : layers) result.insert("blocks." + std::to_string(layer) + "." + type);
  }
  return result;
}

}  // namespace graphtap::testing
