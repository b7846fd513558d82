#include "llama_cpp/bindings.hpp"

#include <fmt/format.h>
#include <ggml.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace graphtap::llama {
namespace {

/// A hook that found its node; sorted into firing order before it enters the table.
struct Found {
  std::size_t node = 0;
  std::size_t order = 0;  // in the map
  HookSpec spec;
  std::string key;
  Tap tap;
};

std::optional<DType> dtype_of(int type) {
  switch (static_cast<ggml_type>(type)) {
    case GGML_TYPE_F32:
      return DType::f32;
    case GGML_TYPE_F16:
      return DType::f16;
    case GGML_TYPE_BF16:
      return DType::bf16;
    case GGML_TYPE_F64:
      return DType::f64;
    case GGML_TYPE_I8:
      return DType::i8;
    case GGML_TYPE_I16:
      return DType::i16;
    case GGML_TYPE_I32:
      return DType::i32;
    case GGML_TYPE_I64:
      return DType::i64;
    default:
      return std::nullopt;
  }
}

class Binder {
 public:
  Binder(const std::vector<GraphNode>& graph, const ModelFacts& facts)
      : graph_(graph), facts_(facts) {
    for (std::size_t i = 0; i < graph.size(); ++i) {
      index_.emplace(node_key(graph[i].name, graph[i].op, graph[i].occurrence), i);
    }
  }

  /// The node a pattern means for a layer, and its key.
  std::optional<std::pair<std::size_t, std::string>> find(const NodePattern& pattern,
                                                          int layer) const {
    const auto name = pattern.name_for(layer, facts_.layers);
    if (!name) return std::nullopt;
    std::string key = node_key(*name, pattern.op, pattern.occurrence);
    const auto it = index_.find(key);
    if (it == index_.end()) return std::nullopt;
    if (pattern.input >= static_cast<int>(graph_[it->second].inputs.size())) return std::nullopt;
    return std::pair(it->second, std::move(key));
  }

  /// The hook's specification from the tensor itself, or why it cannot be captured.
  Result<HookSpec> specify(const MapHook& hook, const TensorShape& shape, int layer) const {
    const auto refuse = [](std::string why) { return Status(Code::unsupported, std::move(why)); };
    HookSpec spec{hook.type, layer, DType::f32, {}, 1, 1};
    const auto dtype = dtype_of(shape.type);
    if (!dtype) {
      return refuse(fmt::format("its elements are {}, which cannot be captured",
                                ggml_type_name(static_cast<ggml_type>(shape.type))));
    }
    spec.dtype = *dtype;
    const auto rows = static_cast<std::size_t>(hook.rows);
    if (shape.ne[rows] != facts_.rows) {
      return refuse(
          fmt::format("dimension {} has {} entries for a step of {} rows: the map's \"rows\" "
                      "does not fit",
                      hook.rows, shape.ne[rows], facts_.rows));
    }
    // The engine counts dimensions from the fastest; a row's shape is written slowest first.
    int last = 3;
    while (last > 0 && shape.ne[static_cast<std::size_t>(last)] == 1) --last;
    for (int d = last; d >= 0; --d) {
      if (d == hook.rows) continue;
      spec.row_shape.push_back(d == hook.columns ? kPerStepColumns
                                                 : shape.ne[static_cast<std::size_t>(d)]);
    }
    if (hook.heads) {
      if (spec.row_shape.size() != 1 || facts_.heads < 1 || spec.row_shape[0] % facts_.heads != 0) {
        return refuse(fmt::format("its row cannot be split into {} heads", facts_.heads));
      }
      spec.row_shape = {facts_.heads, spec.row_shape[0] / facts_.heads};
    }
    return spec;
  }

  /// Adds what `hook` finds for one layer; the reason if it finds nothing.
  std::string add(const MapHook& hook, const HookType& type, int layer, std::size_t order) {
    std::string looked_for;
    for (const NodePattern& pattern : hook.nodes) {
      auto node = find(pattern, layer);
      if (!node) {
        if (const auto name = pattern.name_for(layer, facts_.layers)) {
          looked_for +=
              fmt::format("{}{} ({})", looked_for.empty() ? "" : " or ", *name, pattern.op);
        }
        continue;
      }
      const GraphNode& at = graph_[node->first];
      const auto input = static_cast<std::size_t>(std::max(pattern.input, 0));
      auto spec = specify(hook, pattern.input < 0 ? at.shape : at.inputs[input], layer);
      if (!spec.ok()) return fmt::format("{} ({}): {}", at.name, at.op, spec.status().message());
      const Tap tap{0, pattern.input, hook.rows, hook.columns >= 0,
                    type.rows == RowBasis::requests};
      found_.push_back({node->first, order, std::move(spec).value(), std::move(node->second), tap});
      return {};
    }
    return fmt::format("the model's graph has no node {}", looked_for);
  }

  std::vector<Found>& found() { return found_; }

 private:
  const std::vector<GraphNode>& graph_;
  const ModelFacts& facts_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<Found> found_;
};

Status add_check(Bindings& bindings, const Binder& binder,
                 const std::optional<NodePattern>& pattern, Check check, std::size_t place,
                 std::string_view what) {
  const auto node = pattern ? binder.find(*pattern, -1) : std::nullopt;
  if (!node) {
    return {
        Code::unsupported,
        fmt::format(
            "hook map: the model's graph has no node {} to check {} against, so that no row "
            "could be attributed",
            pattern ? fmt::format("{} ({})", pattern->tensor, pattern->op) : "in the map", what)};
  }
  NodeActions& actions = bindings.nodes[node->second];
  actions.checks = static_cast<std::uint8_t>(actions.checks | static_cast<std::uint8_t>(check));
  actions.check_inputs[place] = pattern->input;
  return {};
}

}  // namespace

std::string node_key(std::string_view name, std::string_view op, int occurrence) {
  return fmt::format("{}\n{}\n{}", name, op, occurrence);
}

Result<Bindings> bind_map(const HookMap& map, const std::vector<GraphNode>& graph,
                          const ModelFacts& facts) {
  Catalogue catalogue = Catalogue::builtin();
  if (!map.catalogue.empty()) {
    if (Status status = catalogue.extend(map.catalogue, "hook map " + map.name); !status.ok()) {
      return status;
    }
  }
  Bindings bindings;
  bindings.table = HookTable(facts.name, catalogue);
  Binder binder(graph, facts);
  bool columns_need_cells = false;
  for (std::size_t order = 0; order < map.hooks.size(); ++order) {
    const MapHook& hook = map.hooks[order];
    const HookType* type = catalogue.find(hook.type);
    if (!type) {
      return Status(
          Code::invalid_argument,
          fmt::format("hook map {}: hooks[{}] is of type \"{}\", which the catalogue lacks; add "
                      "it under \"catalogue\"",
                      map.name, order, hook.type));
    }
    if (hook.columns > 0) {
      return Status(
          Code::invalid_argument,
          fmt::format("hook map {}: {}: \"columns\" must be dimension 0", map.name, hook.type));
    }
    if (hook.columns == 0 && !facts.no_columns.empty()) {
      bindings.unmapped.push_back({type->name, facts.no_columns});
      continue;
    }
    const bool layered = type->scope == Scope::layer;
    std::string reason;
    int installed = 0;
    for (int layer = layered ? 0 : -1; layer < (layered ? facts.layers : 0); ++layer) {
      std::string why = binder.add(hook, *type, layer, order);
      if (why.empty()) {
        ++installed;
      } else if (reason.empty()) {
        reason = std::move(why);
      }
    }
    if (installed == 0) bindings.unmapped.push_back({type->name, reason});
    columns_need_cells = columns_need_cells || (installed > 0 && hook.columns == 0);
  }
  auto& found = binder.found();
  if (found.empty()) {
    return Status(Code::unsupported,
                  fmt::format("hook map {} does not fit {}: none of its hooks has a "
                              "node in the model's graph",
                              map.name, facts.name));
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(a.node, a.order) < std::pair(b.node, b.order);
  });
  for (Found& hook : found) {
    auto id = bindings.table.add(std::move(hook.spec));
    if (!id.ok()) return id.status();
    hook.tap.hook = id.value();
    bindings.nodes[hook.key].taps.push_back(hook.tap);
  }
  Status status = add_check(bindings, binder, map.checks.tokens, Check::tokens, 0, "token ids");
  if (status.ok()) {
    status = add_check(bindings, binder, map.checks.positions, Check::positions, 1, "positions");
  }
  if (status.ok() && columns_need_cells) {
    status = add_check(bindings, binder, map.checks.cells, Check::cells, 2, "cache cells");
  }
  if (!status.ok()) return status;
  return bindings;
}

}  // namespace graphtap::llama
