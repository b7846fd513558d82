#pragma once
#include <string>
#include <vector>

#include "cli/report/colour_scale.hpp"
#include "cli/report/report_data.hpp"

namespace graphtap::cli {

/// One figure: the schedule strip, the heat map below it, axes and legend, as an <svg> element that
/// stands alone. Cells are <rect class="v" …><title>…</title></rect> (values) and class "g", "n"
/// (gaps, not computed); what was not captured has no cell. `id` makes the ids inside unique in the
/// page.
[[nodiscard]] std::string heat_map_svg(const RequestReport& request, const HeatMap& map,
                                       const ColourScale& scale,
                                       const std::vector<std::string>& pieces,
                                       const std::string& id);

/// The colour of the nth set in schedule strips; "none" is white.
[[nodiscard]] std::string set_colour(const HookSetWords& set, std::size_t index);

}  // namespace graphtap::cli
