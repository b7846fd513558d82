#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graphtap/catalogue.hpp"
#include "graphtap/dtype.hpp"
#include "graphtap/hook_set.hpp"
#include "graphtap/status.hpp"

namespace graphtap {

/// A row dimension whose size a step says (key columns of an attention pattern):
/// StepShape::columns.
inline constexpr std::int64_t kPerStepColumns = -1;
/// The highest layer number there can be.
inline constexpr int kMaxLayer = 65'535;

/// One installed hook of one model: a place whose tensor can be captured.
struct Hook {
  HookId id = 0;
  std::string name;  ///< "blocks.24.resid_pre", or the type's name for a global hook
  std::string type;  ///< "resid_pre"
  int layer = -1;    ///< -1: global
  DType dtype = DType::f32;
  std::vector<std::int64_t> row_shape;  ///< of one row, e.g. {4096}; may hold one kPerStepColumns
  RowBasis rows = RowBasis::tokens;
  std::uint16_t ordinals = 1;    ///< how often it may fire in one step
  std::uint32_t fixed_rows = 1;  ///< rows a step, for RowBasis::fixed only
  std::uint32_t first_slot = 0;  ///< header slot of ordinal 0; ordinals are adjacent

  /// Bytes of one row when the per-step dimension has `columns` entries. Saturates; 0 for columns
  /// < 1.
  [[nodiscard]] std::uint64_t row_bytes(std::int64_t columns = 0) const noexcept;
};

/// What an adapter says of a hook when it builds the table.
struct HookSpec {
  std::string type;  ///< a catalogue name
  int layer = -1;    ///< required for Scope::layer, forbidden for Scope::global
  DType dtype = DType::f32;
  std::vector<std::int64_t> row_shape;
  std::uint16_t ordinals = 1;
  std::uint32_t fixed_rows = 1;
};

/// The installed hooks of a model, in firing order. Build once, then immutable and thread-safe.
class HookTable {
 public:
  explicit HookTable(std::string model, Catalogue catalogue = Catalogue::builtin());

  /// Errors: invalid_argument for an unknown type (with near matches), a layer where none belongs
  /// or none where one does, a hook already there, a row of zero bytes or of more than 2^63, two
  /// per-step dimensions, no ordinal, more than 65,535 hooks. An alias becomes the type's name.
  Result<HookId> add(HookSpec spec);

  [[nodiscard]] const std::string& model() const noexcept { return model_; }
  [[nodiscard]] const Catalogue& catalogue() const noexcept { return catalogue_; }
  [[nodiscard]] const std::vector<Hook>& hooks() const noexcept { return hooks_; }
  [[nodiscard]] const Hook& operator[](HookId id) const { return hooks_[id]; }
  [[nodiscard]] std::size_t size() const noexcept { return hooks_.size(); }
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }  ///< (hook, ordinal) pairs
  [[nodiscard]] int layers() const noexcept { return layers_; }          ///< highest layer + 1
  /// By "blocks.24.resid_pre" or "final_logits"; by type (or alias) and layer, -1 for a global
  /// hook.
  [[nodiscard]] std::optional<HookId> find(std::string_view name) const;
  [[nodiscard]] std::optional<HookId> find(std::string_view type, int layer) const;
  [[nodiscard]] HookSet all() const { return HookSet::all(size()); }
  [[nodiscard]] HookSet none() const { return HookSet::none(size()); }

 private:
  std::string model_;
  Catalogue catalogue_;
  std::vector<Hook> hooks_;
  std::unordered_map<std::string, HookId> by_name_;
  std::uint32_t slots_ = 0;
  int layers_ = 0;
};

}  // namespace graphtap
