#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/report/history_svg.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {

std::string intervals_svg(const Durations& intervals) {
  constexpr int kHeight = 120, kFrom = 60, kWide = 640, kBase = 44 + kHeight;
  constexpr std::size_t kBins = 64;
  const std::vector<std::uint64_t> counts = intervals.histogram(kBins);
  const std::uint64_t most =
      std::max<std::uint64_t>(1, *std::max_element(counts.begin(), counts.end()));
  const double low = std::log10(static_cast<double>(std::max<std::int64_t>(1, intervals.least())));
  const double high = std::log10(static_cast<double>(std::max<std::int64_t>(1, intervals.most())));
  const auto x = [&](double ns) {
    return kFrom +
           kWide * (high > low ? (std::log10(std::max(1.0, ns)) - low) / (high - low) : 0.5);
  };
  std::string svg;
  const auto out = std::back_inserter(svg);
  fmt::format_to(
      out,
      "<svg class=\"spread\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"Time between steps: half are at most {2}, 99 in 100 at most {3}, the longest "
      "{4}\">\n<text x=\"{5}\" y=\"52\" class=\"a e\">{6}</text><text x=\"{5}\" y=\"{7}\" "
      "class=\"a "
      "e\">0</text>\n<text x=\"{5}\" y=\"66\" class=\"q e\">steps</text>\n",
      kFrom + kWide + 60, kBase + 44, duration_text(intervals.quantile(0.5)),
      duration_text(intervals.quantile(0.99)), duration_text(static_cast<double>(intervals.most())),
      kFrom - 8, with_commas(most), kBase + 4);
  for (std::size_t i = 0; i < kBins; ++i) {
    if (counts[i] == 0) continue;
    const double height =
        std::max(1.5, kHeight * static_cast<double>(counts[i]) / static_cast<double>(most));
    fmt::format_to(out,
                   "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                   "height=\"{:.1f}\" fill=\"#2464a6\"><title>{}</title></rect>\n",
                   kFrom + kWide * static_cast<double>(i) / kBins, kBase - height,
                   static_cast<double>(kWide) / kBins - 1, height, counted(counts[i], "step"));
  }
  fmt::format_to(out, "<path class=\"base\" d=\"M{} {}h{}\"/>\n", kFrom, kBase, kWide);
  double last = -100;
  for (int decade = 0; decade <= 13; ++decade) {
    for (const int digit : {1, 2, 5}) {
      const double ns = digit * std::pow(10.0, decade);
      const double place = std::log10(ns);
      if (place < low || place > high || x(ns) - last < 58) continue;
      last = x(ns);
      fmt::format_to(out,
                     "<path class=\"base\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
                     "class=\"a m\">{3}</text>\n",
                     last, kBase, kBase + 18, duration_text(ns));
    }
  }
  fmt::format_to(out,
                 "<text x=\"{}\" y=\"{}\" class=\"q m\">time between steps, logarithmic</text>\n",
                 kFrom + kWide / 2, kBase + 36);
  int line = 14;
  for (const auto& [share, name] : {std::pair(0.5, "p50"), std::pair(0.99, "p99")}) {
    const double ns = intervals.quantile(share);
    const bool right = x(ns) > kFrom + kWide * 0.8;  // no room for words to the right
    fmt::format_to(out,
                   "<path class=\"mark\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{3:.1f}\" y=\"{1}\" "
                   "class=\"a{4}\">{5} {6}</text>\n",
                   x(ns), line, kBase, x(ns) + (right ? -5 : 5), right ? " e" : "", name,
                   duration_text(ns));
    line += 16;
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace graphtap::cli
