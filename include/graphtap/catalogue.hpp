#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap {

/// What a hook's rows count. The step plan carries one count for each basis.
enum class RowBasis : std::uint8_t { tokens = 0, requests = 1, experts = 2, fixed = 3 };
/// Whether the hook exists once a layer or once a model.
enum class Scope : std::uint8_t { layer, global };
/// Which pipeline stages own the hook.
enum class Stage : std::uint8_t { any, first, last };

[[nodiscard]] const char* to_string(RowBasis basis) noexcept;

/// A kind of hook, e.g. `resid_pre`. Names are TransformerLens's.
struct HookType {
  std::string name;                  ///< "resid_pre"
  std::vector<std::string> aliases;  ///< other spellings the selection language takes
  std::string transformer_lens;    ///< "blocks.{layer}.hook_resid_pre"; empty: it has no such name
  std::string description;         ///< one line for people
  std::vector<std::string> shape;  ///< row shape in words: {"hidden"}, {"heads", "head_dim"}
  int number = -1;  ///< numeric id of the original system's `type:layer` form; -1: none
  Scope scope = Scope::layer;
  RowBasis rows = RowBasis::tokens;
  Stage stage = Stage::any;
  bool sharded = false;  ///< split over tensor-parallel ranks; otherwise rank 0 keeps it
};

/// A named selection, e.g. `hidden-states` = "resid_pre".
struct Preset {
  std::string name;
  std::string selection;
  std::string description;
};

/// The hook types and presets known to this process. A value: copy it, extend the copy.
/// Thread-safety: immutable reads are safe; extend() needs exclusive access.
class Catalogue {
 public:
  /// The types and presets shipped with graphtap (requirement B1).
  [[nodiscard]] static const Catalogue& builtin();

  /// Adds types and presets from JSON of the same form as the shipped file. `origin` is named in
  /// errors. A type needs name, description, shape, scope and rows; aliases, transformer_lens,
  /// number, stage and sharded may be left out. Presets may name presets that come before them.
  /// Errors: invalid_argument for malformed JSON, a missing, unknown or ill-typed field, a name
  /// already taken, or a preset that is no selection. On error the catalogue is as it was.
  Status extend(std::string_view json, std::string_view origin);

  [[nodiscard]] const std::vector<HookType>& types() const noexcept { return types_; }
  [[nodiscard]] const std::vector<Preset>& presets() const noexcept { return presets_; }
  /// By name or alias; null when unknown.
  [[nodiscard]] const HookType* find(std::string_view name) const noexcept;
  [[nodiscard]] const HookType* find_number(int number) const noexcept;
  [[nodiscard]] const Preset* find_preset(std::string_view name) const noexcept;

 private:
  std::vector<HookType> types_;
  std::vector<Preset> presets_;
};

}  // namespace graphtap
