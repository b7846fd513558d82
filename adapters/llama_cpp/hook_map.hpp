#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap::llama {

/// One place in the engine's evaluation graph, as a map writes it.
struct NodePattern {
  std::string tensor;        ///< name with {layer}, {previous} or {last} in it
  std::string op;            ///< "MUL_MAT"; a name alone is not unique
  int occurrence = 0;        ///< among the nodes of this name and op, in graph order
  int input = -1;            ///< ≥ 0: the node's nth input instead of its output
  std::optional<int> layer;  ///< only for this layer

  /// The tensor's name for `layer` (-1: a global hook) of `layers`; nothing if the pattern is not
  /// for it.
  [[nodiscard]] std::optional<std::string> name_for(int layer_index, int layers) const;
};

/// Where one hook type is found.
struct MapHook {
  std::string type;
  std::vector<NodePattern> nodes;  ///< the first that exists is taken
  int rows = 1;                    ///< dimension that counts rows, in the engine's order
  int columns = -1;                ///< dimension of the keys, or -1
  bool heads = false;              ///< a flat row is heads × head size
};

/// Where a step's own token ids, positions and cache cells are read back.
struct MapChecks {
  std::optional<NodePattern> tokens, positions, cells;
};

/// The hooks of one model family as data. See maps/README.md.
struct HookMap {
  std::string name;
  std::vector<std::string> architectures;
  MapChecks checks;
  std::vector<MapHook> hooks;
  std::string catalogue;  ///< JSON for Catalogue::extend, or empty

  /// Reads a map. Errors: invalid_argument that names `origin`, the entry and what would be right.
  [[nodiscard]] static Result<HookMap> parse(std::string_view json, std::string_view origin);
  /// Errors as parse, plus not_found and io_error.
  [[nodiscard]] static Result<HookMap> load(const std::filesystem::path& file);
  /// The map for an architecture that ships with the adapter; nothing if there is none.
  [[nodiscard]] static std::optional<HookMap> builtin(std::string_view architecture);

  /// Adds the other map's hooks and checks; entries of the same type are replaced.
  void extend(HookMap other);
};

}  // namespace graphtap::llama
