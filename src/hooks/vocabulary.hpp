#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/catalogue.hpp"
#include "graphtap/selection.hpp"

namespace graphtap {

/// Every word the selection language takes from a catalogue: names, aliases, and presets if wanted.
/// The views live as long as the catalogue is unchanged.
[[nodiscard]] std::vector<std::string_view> known_words(const Catalogue& catalogue,
                                                        bool with_presets);

/// What a preset means, as terms without exclusions: one term for all its types without layers,
/// then one for each list of layers. Errors: invalid_argument for a preset that is "none" or
/// samples, that excludes layers, or that leaves nothing.
[[nodiscard]] Result<std::vector<Selection::Term>> expand(const Preset& preset,
                                                          const Catalogue& catalogue);

}  // namespace graphtap
