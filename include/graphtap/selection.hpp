#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/hook_table.hpp"

namespace graphtap {

/// Which of the rows and steps a selection would see are wanted.
struct Sampling {
  enum class Phase : std::uint8_t { any, decode, prefill };
  std::uint32_t every_step = 1;     ///< every nth step of a lane; ≥ 1
  std::uint32_t every_request = 1;  ///< every nth request by order of arrival; ≥ 1
  Phase phase = Phase::any;
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// A parsed selection, e.g. "q,k,v:0,4,8", "full,-pattern", "resid_pre:24-27 @decode @every=4".
///
/// Grammar (blanks are free, `;` and `,` separate terms):
///   selection := "none" | terms sampling*          empty text selects every active hook
///   term      := ["-"] names [":" layers]          "-" excludes; names alone mean all layers
///   names     := name | "*" | preset               layered names that stand directly before a name
///                                                  with layers share them: "q,k,v:0,4,8"; ";" ends
///                                                  that
///   layers    := range ("," range)*                range := N | N "-" M (inclusive) | "*"
///   sampling  := "@decode" | "@prefill" | "@every=" N | "@every-request=" N
/// The original's numeric form, "0:24,0:25,14", is read as type:layer pairs when the first term is
/// a number.
///
/// Meaning: the union of the terms without "-", less those with it; with exclusions only, all hooks
/// less those. "*" or a preset with layers means its layered hooks there. Only names of one sign
/// share layers. After a layer list a number goes on with it, anything else starts a term. A preset
/// takes those of its types that the model has; any other name must be in the model. A single layer
/// must have the hook; a range must lie within the model's layers and takes the hooks that are
/// there, as in models that mix layer kinds.
class Selection {
 public:
  /// Inclusive; {0, kEveryLayer} for "*".
  struct LayerRange {
    int first = 0;
    int last = 0;
    friend bool operator==(const LayerRange&, const LayerRange&) = default;
  };
  static constexpr int kEveryLayer = std::numeric_limits<int>::max();
  struct Term {
    bool exclude = false;
    std::vector<std::string> names;  ///< type names; "*" for any
    std::vector<LayerRange> layers;  ///< empty: all layers, and global hooks too
    std::string text;                ///< as written, for messages
    std::string preset;              ///< the preset it comes from, or empty
  };

  /// Errors: invalid_argument that names the word and its near matches, or the offending character.
  static Result<Selection> parse(std::string_view text,
                                 const Catalogue& catalogue = Catalogue::builtin());

  /// The hooks of `table` it means. Errors: a hook type the model lacks, a layer it lacks, a global
  /// hook with layers, or a selection that matches nothing (unless it is "none").
  [[nodiscard]] Result<HookSet> resolve(const HookTable& table) const;

  [[nodiscard]] bool is_none() const noexcept { return none_; }
  [[nodiscard]] bool is_default() const noexcept { return !none_ && terms_.empty(); }
  [[nodiscard]] const std::vector<Term>& terms() const noexcept { return terms_; }
  [[nodiscard]] const Sampling& sampling() const noexcept { return sampling_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::vector<Term> terms_;
  Sampling sampling_;
  bool none_ = false;
};

/// One line of a switching schedule, "8:resid_pre:20-29": before step 8 the selection takes effect.
struct ScheduleEntry {
  std::uint64_t step = 0;
  Selection selection;
};

/// Parses "STEP:SELECTION"; nothing after the colon means every active hook. Errors as
/// Selection::parse, plus a step that is not a number.
Result<ScheduleEntry> parse_schedule_entry(std::string_view text,
                                           const Catalogue& catalogue = Catalogue::builtin());

}  // namespace graphtap
