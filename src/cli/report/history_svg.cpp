#include "cli/report/history_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/report/html_text.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

constexpr int kLeft = 132, kRoom = 900, kRight = 40, kTop = 40;
constexpr std::size_t kMostLines = 24;  // of one band
constexpr int kLostHeight = 30;

struct Band {
  std::string type;
  std::vector<HookId> hooks;  // in layer order
  std::vector<int> layers;
  int top = 0, height = 0;
  [[nodiscard]] std::size_t lines() const { return std::min(kMostLines, hooks.size()); }
};

std::vector<Band> bands_of(const std::vector<Hook>& hooks, const RunHistory& history) {
  std::vector<Band> bands;
  for (const Hook& hook : hooks) {
    auto band = std::find_if(bands.begin(), bands.end(),
                             [&](const Band& known) { return known.type == hook.type; });
    if (band == bands.end()) {
      band = bands.insert(bands.end(), Band{});
      band->type = hook.type;
    }
    band->hooks.push_back(hook.id);
    if (hook.layer >= 0) band->layers.push_back(hook.layer);
  }
  std::erase_if(bands, [&](const Band& band) {
    return std::none_of(band.hooks.begin(), band.hooks.end(),
                        [&](HookId hook) { return history.ever_on(hook); });
  });
  return bands;
}

class Timeline {
 public:
  Timeline(const std::vector<Hook>& hooks, const RunHistory& history, std::size_t most_types)
      : history_(history), bands_(bands_of(hooks, history)) {
    if (bands_.size() > most_types) bands_.resize(most_types);
    int top = kTop;
    for (Band& band : bands_) {
      band.top = top;
      band.height = std::max(14, static_cast<int>(band.lines()) * 3);
      top += band.height + 8;
    }
    lost_top_ = top + 6;
    bottom_ = lost_top_ + static_cast<int>(history.lost().size()) * (kLostHeight + 8);
  }

  std::string draw() {
    add("<svg class=\"time\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
        "aria-label=\"Which hooks were on over time, and what was lost: {2} types, {3} changes of "
        "the set, {4} reasons of loss. The tables below hold the same.\">\n<defs><pattern "
        "id=\"lost\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#ffffff\"/><rect "
        "width=\"3\" height=\"6\" fill=\"#d02020\"/></pattern></defs>\n",
        kLeft + kRoom + kRight, bottom_ + 44, bands_.size(),
        history_.changes().size() + history_.changes_left_out(), history_.lost().size());
    versions();
    for (const Band& band : bands_) draw(band);
    losses();
    axis();
    for (std::size_t i = 0; i < history_.buckets(); ++i) hover(i);
    add("</svg>\n");
    return std::move(svg_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Arguments>(arguments)...);
  }
  [[nodiscard]] double x(std::size_t bucket) const {
    return kLeft + kRoom * static_cast<double>(bucket) / static_cast<double>(history_.buckets());
  }
  [[nodiscard]] double span() const {
    return static_cast<double>(history_.end() - history_.begin());
  }
  [[nodiscard]] double x_of(std::int64_t unix_ns) const {
    const double share = span() > 0 ? static_cast<double>(unix_ns - history_.begin()) / span() : 0;
    return kLeft + kRoom * std::clamp(share, 0.0, 1.0);
  }

  void versions();
  void draw(const Band& band);
  void losses();
  void axis();
  void hover(std::size_t bucket);

  const RunHistory& history_;
  std::vector<Band> bands_;
  int lost_top_ = 0, bottom_ = 0;
  std::string svg_;
};

// A mark for each version; a number where there is room for it.
void Timeline::versions() {
  add("<text x=\"{}\" y=\"26\" class=\"a e\">set version</text>\n", kLeft - 10);
  double last_mark = -1, last_number = -1000;
  for (const RunHistory::Change& change : history_.changes()) {
    const double at = x_of(change.unix_ns);
    if (at - last_mark < 1 && last_mark >= 0) continue;
    last_mark = at;
    add("<path class=\"mark\" d=\"M{:.1f} 30V{}\"/>\n", at, lost_top_ - 10);
    const std::string number = std::to_string(change.version);
    if (at - last_number < 12 + 7.0 * static_cast<double>(number.size())) continue;
    last_number = at;
    add("<text x=\"{:.1f}\" y=\"26\" class=\"a m\">{}</text>\n", at, number);
  }
}

void Timeline::draw(const Band& band) {
  add("<text x=\"{}\" y=\"{}\" class=\"a e\">{}</text>\n", kLeft - 10,
      band.top + (band.height >= 26 ? band.height / 2 - 3 : band.height / 2 + 4),
      html_text(band.type, 18));
  if (band.height >= 26 && !band.layers.empty()) {
    add("<text x=\"{}\" y=\"{}\" class=\"q e\">layers {}</text>\n", kLeft - 10,
        band.top + band.height / 2 + 11, html_text(ranges(band.layers), 14));
  }
  add("<rect class=\"bg\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f0f0ee\"/>\n", kLeft,
      band.top, kRoom, band.height);
  const std::size_t lines = band.lines();
  std::string all, some;
  for (std::size_t line = 0; line < lines; ++line) {
    const std::size_t first = line * band.hooks.size() / lines;
    const std::size_t end = (line + 1) * band.hooks.size() / lines;
    const auto state = [&](std::size_t bucket) {
      std::size_t full = 0, any = 0;
      for (std::size_t i = first; i < end; ++i) {
        const RunHistory::On on = history_.on(band.hooks[i], bucket);
        full += on == RunHistory::On::all ? 1U : 0U;
        any += on == RunHistory::On::no ? 0U : 1U;
      }
      if (any == 0) return RunHistory::On::no;
      return full == end - first ? RunHistory::On::all : RunHistory::On::some;
    };
    const double height = static_cast<double>(band.height) / static_cast<double>(lines);
    const double top = band.top + band.height - height * static_cast<double>(line + 1);
    for (std::size_t from = 0; from < history_.buckets();) {
      const RunHistory::On on = state(from);
      std::size_t to = from + 1;
      while (to < history_.buckets() && state(to) == on) ++to;
      if (on != RunHistory::On::no) {
        fmt::format_to(std::back_inserter(on == RunHistory::On::all ? all : some),
                       "M{:.1f} {:.1f}h{:.1f}v{:.1f}H{:.1f}z", x(from), top, x(to) - x(from),
                       height, x(from));
      }
      from = to;
    }
  }
  if (!all.empty()) add("<path class=\"on\" fill=\"#2464a6\" d=\"{}\"/>\n", all);
  if (!some.empty()) add("<path class=\"part\" fill=\"#8fb8dc\" d=\"{}\"/>\n", some);
}

void Timeline::losses() {
  int top = lost_top_;
  for (const auto& [reason, counts] : history_.lost()) {
    std::uint64_t most = 0, sum = 0;
    for (const std::uint64_t count : counts) {
      most = std::max(most, count);
      sum += count;
    }
    add("<text x=\"{0}\" y=\"{1}\" class=\"a e\">{2}</text>\n<text x=\"{0}\" y=\"{3}\" class=\"q "
        "e\">{4} lost</text>\n<path class=\"base\" d=\"M{5} {6}h{7}\"/>\n",
        kLeft - 10, top + 13, to_string(reason), top + 26, counted(sum, "record"), kLeft,
        top + kLostHeight, kRoom);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const double height =
          std::max(4.0, kLostHeight * static_cast<double>(counts[i]) / static_cast<double>(most));
      add("<rect class=\"lost\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "fill=\"url(#lost)\"/>\n",
          x(i), top + kLostHeight - height, std::max(2.0, x(i + 1) - x(i)), height);
    }
    top += kLostHeight + 8;
  }
}

void Timeline::axis() {
  add("<path class=\"base\" d=\"M{} {}h{}\"/>\n", kLeft, bottom_, kRoom);
  const int marks = span() > 0 ? 6 : 0;
  for (int i = 0; i <= marks; ++i) {
    const double share = marks == 0 ? 0 : static_cast<double>(i) / marks;
    add("<path class=\"base\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" class=\"a "
        "m\">{3}</text>\n",
        kLeft + kRoom * share, bottom_, bottom_ + 18,
        i == 0 ? std::string("0") : duration_text(span() * share));
  }
  add("<text x=\"{}\" y=\"{}\" class=\"q m\">time since the end of the first stored step, {} "
      "UTC</text>\n",
      kLeft + kRoom / 2, bottom_ + 36, utc_time(history_.begin()));
}

void Timeline::hover(std::size_t bucket) {
  const double since = static_cast<double>(history_.time(bucket) - history_.begin());
  std::string words = fmt::format("from {} on: ", duration_text(since));
  if (history_.steps_in(bucket) == 0) {
    words += "no step stored";
  } else {
    words += counted(history_.steps_in(bucket), "step");
    for (const Band& band : bands_) {
      const auto on = std::count_if(band.hooks.begin(), band.hooks.end(), [&](HookId hook) {
        return history_.on(hook, bucket) != RunHistory::On::no;
      });
      if (on > 0) {
        words += fmt::format("; {} {} of {}", html_text(band.type, 40), on, band.hooks.size());
      }
    }
  }
  for (const auto& [reason, counts] : history_.lost()) {
    if (counts[bucket] > 0) {
      words += fmt::format("; {}: {} lost", to_string(reason), counted(counts[bucket], "record"));
    }
  }
  add("<rect class=\"h\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" "
      "fill=\"transparent\"><title>{}</title></rect>\n",
      x(bucket), kTop, x(bucket + 1) - x(bucket), bottom_ - kTop, words);
}

}  // namespace

std::string timeline_svg(const std::vector<Hook>& hooks, const RunHistory& history,
                         std::size_t most_types) {
  return Timeline(hooks, history, most_types).draw();
}

std::size_t timeline_types_left_out(const std::vector<Hook>& hooks, const RunHistory& history,
                                    std::size_t most_types) {
  const std::size_t types = bands_of(hooks, history).size();
  return types > most_types ? types - most_types : 0;
}

}  // namespace graphtap::cli
