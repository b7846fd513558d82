// The hook map: what a wrong one is told, what happens where it does not fit, and a hook that a
// user adds without a rebuild.
#include <cmath>
#include <fstream>

#include "integration/support/llama_support.hpp"
#include "llama_cpp/bindings.hpp"
#include "llama_cpp/hook_map.hpp"

namespace graphtap::llama::test {
namespace {

TEST(LlamaMap, E_AWrongMapNamesTheEntryAndWhatWouldBeRight) {
  struct Case {
    const char* json;
    const char* message;
  };
  const Case cases[] = {
      {"{", "parse error"},
      {"[]", "must be an object"},
      {R"({"format": 2, "name": "m", "hooks": []})", "has format 2; this version reads format 1"},
      {R"({"format": 1, "hooks": []})", "needs \"name\""},
      {R"({"format": 1, "name": "m"})", "needs \"hooks\""},
      {R"({"format": 1, "name": "m", "hooks": []})", "a list that is not empty"},
      {R"({"format": 1, "name": "m", "hook": []})", "unknown field \"hook\""},
      {R"({"format": 1, "name": "m", "hooks": [{"rows": 1, "nodes": []}]})",
       "hooks[0] needs \"type\""},
      {R"({"format": 1, "name": "m", "hooks": [{"type": "q", "nodes": []}]})",
       "hooks[0] needs \"rows\""},
      {R"({"format": 1, "name": "m", "hooks": [{"type": "q", "rows": 4, "nodes": []}]})",
       "a number from 0 to 3"},
      {R"({"format": 1, "name": "m", "hooks": [{"type": "q", "rows": 1, "columns": 1,
           "nodes": [{"tensor": "a", "op": "B"}]}]})",
       "same dimension for rows and columns"},
      {R"({"format": 1, "name": "m", "hooks": [{"type": "q", "rows": 1,
           "nodes": [{"tensor": "a"}]}]})",
       "hooks[0].nodes[0] needs \"op\""},
      {R"({"format": 1, "name": "m", "hooks": [{"type": "q", "rows": 1,
           "nodes": [{"tensor": "a", "op": "B", "occurrence": -1}]}]})",
       "\"occurrence\" to be a number"},
      {R"({"format": 1, "name": "m", "checks": {"tokens": {"tensor": "a", "op": "B"}},
           "hooks": [{"type": "q", "rows": 1, "nodes": [{"tensor": "a", "op": "B"}]}]})",
       "checks.tokens needs \"input\""},
  };
  for (const Case& each : cases) {
    const auto map = HookMap::parse(each.json, "mine.json");
    ASSERT_FALSE(map.ok()) << each.json;
    EXPECT_EQ(map.status().code(), Code::invalid_argument);
    EXPECT_NE(map.status().message().find("mine.json"), std::string::npos);
    EXPECT_NE(map.status().message().find(each.message), std::string::npos)
        << map.status().message() << "\n  for " << each.json;
  }
  EXPECT_EQ(HookMap::load("/nowhere/map.json").status().code(), Code::not_found);
}

TEST(LlamaMap, B2_PatternsNameTheirLayer) {
  const NodePattern previous{"l_out-{previous}", "ADD", 0, -1, std::nullopt};
  EXPECT_EQ(previous.name_for(5, 30), "l_out-4");
  EXPECT_FALSE(previous.name_for(0, 30).has_value());
  const NodePattern last{"l_out-{last}", "ADD", 0, -1, std::nullopt};
  EXPECT_EQ(last.name_for(-1, 30), "l_out-29");
  const NodePattern layer{"q-{layer}", "ROPE", 0, -1, std::nullopt};
  EXPECT_EQ(layer.name_for(12, 30), "q-12");
  EXPECT_FALSE(layer.name_for(-1, 30).has_value());
  const NodePattern first{"embd", "GET_ROWS", 0, -1, 0};
  EXPECT_EQ(first.name_for(0, 30), "embd");
  EXPECT_FALSE(first.name_for(1, 30).has_value());
}

GraphNode node(const std::string& name, const std::string& op, int occurrence,
               std::array<std::int64_t, 4> ne, int type = 0) {
  GraphNode made{name, op, occurrence, {type, ne, {}}, {}};
  made.inputs = {{0, {8, 100, 1, 1}, {}}, {26, {5, 1, 1, 1}, {}}};  // weights, then 5 × i32
  return made;
}

constexpr const char* kChecks =
    R"("checks": {"tokens": {"tensor": "embd", "op": "GET_ROWS", "input": 1},
                                              "positions": {"tensor": "q-0", "op": "ROPE", "input": 1}})";

HookMap map_of(const std::string& hooks) {
  return HookMap::parse(std::string(R"({"format": 1, "name": "m", )") + kChecks +
                            R"(, "hooks": [)" + hooks + "]}",
                        "test")
      .value_or_throw();
}

std::vector<GraphNode> tiny_graph() {
  return {node("embd", "GET_ROWS", 0, {8, 5, 1, 1}), node("q-0", "MUL_MAT", 0, {8, 5, 1, 1}),
          node("q-0", "ROPE", 0, {4, 2, 5, 1}),      node("x-0", "ADD", 0, {8, 5, 1, 1}),
          node("x-0", "ADD", 1, {8, 5, 1, 1}),       node("h-0", "MUL", 0, {8, 5, 1, 1}, 8)};
}

const ModelFacts kFacts{"tiny", 1, 2, 5, ""};

TEST(LlamaMap, B1_NodesAreSelectedByNameOpAndOccurrence) {
  const HookMap map = map_of(
      R"({"type": "mlp_out", "rows": 1, "nodes": [{"tensor": "x-{layer}", "op": "ADD", "occurrence": 1}]},
         {"type": "rot_q", "rows": 2, "nodes": [{"tensor": "q-{layer}", "op": "ROPE"}]},
         {"type": "z", "rows": 1, "heads": true, "nodes": [{"tensor": "q-{layer}", "op": "MUL_MAT"}]})");
  const Bindings bound = bind_map(map, tiny_graph(), kFacts).value_or_throw();
  ASSERT_EQ(bound.table.size(), 3u);
  EXPECT_EQ(bound.table[0].name, "blocks.0.z") << "firing order, not the map's";
  EXPECT_EQ(bound.table[0].row_shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(bound.table[1].row_shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(bound.nodes.count(node_key("x-0", "ADD", 1)), 1u);
  EXPECT_EQ(bound.nodes.count(node_key("x-0", "ADD", 0)), 0u);
}

TEST(LlamaMap, E_AHookWithoutANodeIsListedWithWhatWasLookedFor) {
  const HookMap map = map_of(
      R"({"type": "attn_out", "rows": 1, "nodes": [{"tensor": "o-{layer}", "op": "MUL_MAT"},
                                                   {"tensor": "o-{layer}", "op": "ADD"}]},
         {"type": "rot_q", "rows": 1, "nodes": [{"tensor": "q-{layer}", "op": "ROPE"}]},
         {"type": "ln1", "rows": 1, "nodes": [{"tensor": "h-{layer}", "op": "MUL"}]},
         {"type": "embed", "rows": 1, "nodes": [{"tensor": "embd", "op": "GET_ROWS"}]})");
  const Bindings bound = bind_map(map, tiny_graph(), kFacts).value_or_throw();
  ASSERT_EQ(bound.table.size(), 1u);
  ASSERT_EQ(bound.unmapped.size(), 3u);
  EXPECT_NE(bound.unmapped[0].reason.find("no node o-0 (MUL_MAT) or o-0 (ADD)"), std::string::npos);
  EXPECT_NE(bound.unmapped[1].reason.find("dimension 1 has 2 entries for a step of 5 rows"),
            std::string::npos)
      << bound.unmapped[1].reason;
  EXPECT_NE(bound.unmapped[2].reason.find("q8_0"), std::string::npos) << bound.unmapped[2].reason;
}

TEST(LlamaMap, E_AMapThatDoesNotFitTheModelIsRefused) {
  const auto nothing =
      bind_map(map_of(R"({"type": "q", "rows": 1, "nodes": [{"tensor": "nope", "op": "ADD"}]})"),
               tiny_graph(), kFacts);
  EXPECT_EQ(nothing.status().code(), Code::unsupported);
  EXPECT_NE(nothing.status().message().find("none of its hooks"), std::string::npos);
  const auto stranger = bind_map(
      map_of(R"({"type": "no_such", "rows": 1, "nodes": [{"tensor": "embd", "op": "GET_ROWS"}]})"),
      tiny_graph(), kFacts);
  EXPECT_EQ(stranger.status().code(), Code::invalid_argument);
  EXPECT_NE(stranger.status().message().find("no_such"), std::string::npos);
  auto graph = tiny_graph();
  graph.erase(graph.begin() + 2);  // no positions to check rows against
  const auto unchecked = bind_map(
      map_of(R"({"type": "embed", "rows": 1, "nodes": [{"tensor": "embd", "op": "GET_ROWS"}]})"),
      graph, kFacts);
  EXPECT_EQ(unchecked.status().code(), Code::unsupported);
  EXPECT_NE(unchecked.status().message().find("positions"), std::string::npos);
}

TEST(LlamaMap, B1_AHookOfTheUsersNeedsNoRebuild) {
  const auto file = std::filesystem::path(testing::TempDir()) / "gate.json";
  std::ofstream(file) << R"({"format": 1, "name": "mine",
      "catalogue": {"types": [
        {"name": "mlp_gate", "scope": "layer", "rows": "tokens", "shape": ["intermediate"],
         "description": "MLP gate before activation"},
        {"name": "mlp_up", "scope": "layer", "rows": "tokens", "shape": ["intermediate"],
         "description": "MLP values before the gate"}]},
      "hooks": [
        {"type": "mlp_gate", "rows": 1, "nodes": [{"tensor": "ffn_gate-{layer}", "op": "MUL_MAT"}]},
        {"type": "mlp_up", "rows": 1, "nodes": [{"tensor": "ffn_up-{layer}", "op": "MUL_MAT"}]}]})";
  SessionOptions options = small_options();
  options.map = file;
  MonitorOptions monitor;
  monitor.selection = "mlp_gate,mlp_up,mlp_post:4";
  Watched watched(options, monitor);
  watched.submit({ask("a", "The cat sat on the", 2)});
  watched.run();
  const Captured captured = watched.captured();
  const Rows& rows = captured.rows(0, layer_hook(4, "mlp_post"));
  ASSERT_FALSE(rows.empty());
  for (const auto& [token, row] : rows) {
    const auto gate = values<float>(captured, 0, layer_hook(4, "mlp_gate"), token);
    const auto up = values<float>(captured, 0, layer_hook(4, "mlp_up"), token);
    const auto post = values<float>(captured, 0, layer_hook(4, "mlp_post"), token);
    ASSERT_EQ(gate.size(), post.size());
    ASSERT_EQ(up.size(), post.size());
    for (std::size_t i = 0; i < post.size(); ++i) {
      const double silu = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i])));
      ASSERT_NEAR(post[i], silu * up[i], 1e-5 + 1e-4 * std::abs(silu * up[i]));
    }
  }
}

}  // namespace
}  // namespace graphtap::llama::test
