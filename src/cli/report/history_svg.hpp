#pragma once
#include <string>
#include <vector>

#include "cli/report/run_history.hpp"

namespace graphtap::cli {

/// Which hooks were on when: a band for each type (a line a layer, the first at the bottom), the
/// set versions above them, and below, on the same axis, the records lost by reason. An <svg>
/// element that stands alone. <path class="on">: on in all steps of that time, "part": in some;
/// <rect class="lost"> hatched bars; <rect class="h"> invisible, one a bucket, with the values as
/// its title. At most `most_types` bands; a line is several layers where a type has many.
[[nodiscard]] std::string timeline_svg(const std::vector<Hook>& hooks, const RunHistory& history,
                                       std::size_t most_types = 10);

/// Types that a timeline of `most_types` bands leaves out.
[[nodiscard]] std::size_t timeline_types_left_out(const std::vector<Hook>& hooks,
                                                  const RunHistory& history,
                                                  std::size_t most_types = 10);

/// How the times between steps are spread: <rect class="bar">, a logarithmic axis, lines at the
/// 50th and 99th percentile. Needs at least one interval.
[[nodiscard]] std::string intervals_svg(const Durations& intervals);

}  // namespace graphtap::cli
