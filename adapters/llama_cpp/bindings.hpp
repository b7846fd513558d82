#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtap/hook_table.hpp"
#include "graphtap/status.hpp"
#include "llama_cpp/hook_map.hpp"
#include "llama_cpp/session.hpp"

struct ggml_tensor;

namespace graphtap::llama {

/// What the adapter needs to know of a tensor to copy rows out of it.
struct TensorShape {
  int type = -1;                      ///< ggml_type
  std::array<std::int64_t, 4> ne{};   ///< elements, fastest dimension first
  std::array<std::uint64_t, 4> nb{};  ///< strides in bytes
};

/// One node of an evaluation graph, as the engine showed it.
struct GraphNode {
  std::string name;
  std::string op;
  int occurrence = 0;
  TensorShape shape;
  std::vector<TensorShape> inputs;
};

/// Name, op and occurrence: what selects a node. Never its address.
[[nodiscard]] std::string node_key(std::string_view name, std::string_view op, int occurrence);

/// One hook read at a node.
struct Tap {
  HookId hook = 0;
  int input = -1;         ///< ≥ 0: read this input before the node runs; else its output after
  int rows = 1;           ///< dimension that counts rows
  bool columns = false;   ///< dimension 0 is the step's keys
  bool requests = false;  ///< rows are those of RowBasis::requests
};

enum class Check : std::uint8_t { none = 0, tokens = 1, positions = 2, cells = 4 };

/// What is to be done at a node.
struct NodeActions {
  std::vector<Tap> taps;
  std::uint8_t checks = 0;                      ///< Check bits
  std::array<int, 3> check_inputs{-1, -1, -1};  ///< tokens, positions, cells
};

/// A map that was fitted to a model's graph.
struct Bindings {
  HookTable table{""};
  std::unordered_map<std::string, NodeActions> nodes;  ///< by node_key
  std::vector<UnmappedHook> unmapped;
};

/// What the model and the options say besides the graph.
struct ModelFacts {
  std::string name;
  int layers = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;   ///< rows of the step that was recorded
  std::string no_columns;  ///< why hooks with columns cannot be offered; empty: they can
};

/// Fits the map to a recorded graph. Hooks without a node are listed in `unmapped`, with the
/// reason. Errors: invalid_argument (a type the catalogue lacks, a broken catalogue part),
/// unsupported (the graph has no node for the token or position check, or for any hook).
[[nodiscard]] Result<Bindings> bind_map(const HookMap& map, const std::vector<GraphNode>& graph,
                                        const ModelFacts& facts);

}  // namespace graphtap::llama
