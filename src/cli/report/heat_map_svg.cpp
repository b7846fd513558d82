#include "cli/report/heat_map_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "cli/report/html_text.hpp"
#include "cli/store_words.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

constexpr int kLeft = 66, kRight = 24, kStripTop = 22, kStripHeight = 18, kMapTop = 48;
constexpr int kRoom = 1010;         // what the cells may be wide
constexpr double kCharacter = 6.1;  // about the width of a character of the strip's labels

/// Text that is put together piece by piece.
class Drawing {
 public:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

/// One figure while it is drawn.
class Figure {
 public:
  Figure(const RequestReport& request, const HeatMap& map, const ColourScale& scale,
         const std::vector<std::string>& pieces, const std::string& id)
      : request_(request),
        map_(map),
        scale_(scale),
        pieces_(pieces),
        id_(id),
        rows_(static_cast<int>(map.labels.size())),
        columns_(static_cast<int>(map.columns)),
        cell_width_(std::clamp(kRoom / std::max(1, columns_), 2, 24)),
        cell_height_(std::clamp(420 / std::max(1, rows_), 4, 16)),
        with_text_(map.tokens_per_column == 1 && cell_width_ >= 10 && !pieces.empty()) {}

  std::string draw();

 private:
  [[nodiscard]] int x(int column) const { return kLeft + column * cell_width_; }
  [[nodiscard]] int column_of(std::int64_t token) const;
  [[nodiscard]] int x_of_token(std::int64_t token) const;
  [[nodiscard]] int y(int row) const { return kMapTop + (rows_ - 1 - row) * cell_height_; }
  [[nodiscard]] int bottom() const { return kMapTop + rows_ * cell_height_; }
  [[nodiscard]] int legend_top() const { return bottom() + (with_text_ ? 112 : 40); }
  [[nodiscard]] int width() const { return std::max(x(columns_), kLeft + 620) + kRight; }
  [[nodiscard]] std::string column_words(std::size_t column) const;

  void definitions();
  void strip();
  void cell(int row, int column);
  void layers();
  void tokens();
  void prompt_line();
  void legend();
  void marks(const std::vector<TokenRange>& ranges, const char* kind, const char* fill,
             const char* words);
  void swatch(int left, const std::string& fill, const char* words, int line = 0,
              const char* kind = "k");

  const RequestReport& request_;
  const HeatMap& map_;
  const ColourScale& scale_;
  const std::vector<std::string>& pieces_;
  const std::string& id_;
  const int rows_, columns_, cell_width_, cell_height_;
  const bool with_text_;
  bool not_finite_ = false;
  Drawing svg_;
};

std::string Figure::draw() {
  svg_.add(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"Norms "
      "of "
      "{2} by layer and token, request {3}\">\n",
      width(), legend_top() + 58, html_text(map_.hook), html_text(request_.summary.id, 80));
  definitions();
  svg_.add("<rect class=\"bg\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f0f0ee\"/>\n",
           kLeft, kMapTop, columns_ * cell_width_, rows_ * cell_height_);
  strip();
  marks(request_.recomputed, "again", "#c77700", "computed again");
  marks(request_.summary.rejected, "rejected", "#8b3fc4", "drafted and rejected");
  for (int row = 0; row < rows_; ++row) {
    for (int column = 0; column < columns_; ++column) cell(row, column);
  }
  layers();
  tokens();
  prompt_line();
  legend();
  svg_.add("</svg>\n");
  return std::move(svg_).text();
}

int Figure::column_of(std::int64_t token) const {
  const std::int64_t column = (token - map_.first_token) / map_.tokens_per_column;
  return static_cast<int>(std::clamp<std::int64_t>(column, 0, columns_));
}

// Within a column of several tokens in proportion, so that round numbers stand evenly apart; the
// end of the last token is the end of the map, though its column may not be full.
int Figure::x_of_token(std::int64_t token) const {
  if (token >= map_.first_token + map_.tokens) return x(columns_);
  const std::int64_t before = std::max<std::int64_t>(0, token - map_.first_token);
  return kLeft + static_cast<int>(static_cast<double>(before) * cell_width_ /
                                  static_cast<double>(map_.tokens_per_column));
}

void Figure::definitions() {
  svg_.add(
      "<defs><pattern id=\"{0}-gap\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#ffffff\"/><rect "
      "width=\"3\" height=\"6\" fill=\"#d02020\"/></pattern><pattern id=\"{0}-not\" width=\"5\" "
      "height=\"5\" patternUnits=\"userSpaceOnUse\"><rect width=\"5\" height=\"5\" "
      "fill=\"#ffffff\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1.2\" fill=\"#777777\"/></pattern>"
      "<linearGradient id=\"{0}-scale\">",
      id_);
  for (int i = 0; i <= 14; ++i) {
    const double share = i / 14.0;
    const double norm = scale_.logarithmic()
                            ? scale_.least() * std::pow(scale_.most() / scale_.least(), share)
                            : scale_.least() + share * (scale_.most() - scale_.least());
    svg_.add("<stop offset=\"{:.3f}\" stop-color=\"{}\"/>", share, scale_.colour(norm));
  }
  svg_.add("</linearGradient></defs>\n");
}

// What was captured at which token.
void Figure::strip() {
  svg_.add("<text x=\"{}\" y=\"{}\" class=\"a e\">captured</text>\n", kLeft - 8, kStripTop + 13);
  for (const Band& band : request_.bands) {
    const HookSetWords& set = request_.sets[band.set];
    const int left = x_of_token(band.tokens.begin);
    const int right = std::max(x_of_token(band.tokens.end), left + 1);
    svg_.add(
        "<rect class=\"s\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
        "stroke=\"#555555\"><title>tokens {}: {}</title></rect>\n",
        left, kStripTop, right - left, kStripHeight, set_colour(set, band.set),
        tokens_text(band.tokens), html_text(set.full, 600));
    const int fits = static_cast<int>((right - left - 8) / kCharacter);
    if (fits >= 4) {
      svg_.add("<text x=\"{}\" y=\"{}\" class=\"b\">{}</text>\n", left + 4, kStripTop + 13,
               html_text(set.brief, static_cast<std::size_t>(fits)));
    }
  }
}

// Between the strip and the map: tokens that were computed more than once, or not accepted.
void Figure::marks(const std::vector<TokenRange>& ranges, const char* kind, const char* fill,
                   const char* words) {
  for (const TokenRange& range : ranges) {
    const std::int64_t begin = std::max(range.begin, map_.first_token);
    const std::int64_t end = std::min(range.end, map_.first_token + map_.tokens);
    if (begin >= end) continue;
    const int left = x(column_of(begin));
    const int right = x(column_of(end - 1)) + cell_width_;
    svg_.add(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"5\" "
        "fill=\"{}\"><title>tokens {}: {}</title></rect>\n",
        kind, left, kMapTop - 6, right - left, fill, tokens_text(range), words);
  }
}

std::string Figure::column_words(std::size_t column) const {
  const TokenRange range = map_.range(column);
  std::string words = (range.end - range.begin > 1 ? "tokens " : "token ") + tokens_text(range);
  const auto index = static_cast<std::size_t>(range.begin);
  if (range.end - range.begin == 1 && index < pieces_.size()) {
    words += " “" + html_text(pieces_[index], 24) + "”";
  }
  return words;
}

void Figure::cell(int row, int column) {
  const Cell& cell = map_.at(static_cast<std::size_t>(row), static_cast<std::size_t>(column));
  if (cell.state == CellState::off) return;
  std::string fill, words;
  char kind = 'v';
  switch (cell.state) {
    case CellState::value:
      fill = std::isfinite(cell.norm) ? scale_.colour(cell.norm) : "#d000c8";
      words = std::isfinite(cell.norm) ? short_number(cell.norm) : "a value is not finite";
      if (cell.rows > 1) words += fmt::format(" (mean of {})", cell.rows);
      if (cell.lost > 0) {
        words += fmt::format(", {} lost: {}", counted(cell.lost, "row"),
                             graphtap::to_string(cell.reason));
      }
      not_finite_ = not_finite_ || !std::isfinite(cell.norm);
      break;
    case CellState::gap:
      kind = 'g';
      fill = fmt::format("url(#{}-gap)", id_);
      words = fmt::format("gap: {}", graphtap::to_string(cell.reason));
      break;
    default:
      kind = 'n';
      fill = fmt::format("url(#{}-not)", id_);
      words = "not computed (from a prefix cache)";
  }
  svg_.add(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}, {} "
      "{}: {}</title></rect>\n",
      kind, x(column), y(row), cell_width_, cell_height_, fill,
      column_words(static_cast<std::size_t>(column)),
      map_.labels[static_cast<std::size_t>(row)] == "final" ? "after the last" : "layer",
      map_.labels[static_cast<std::size_t>(row)] == "final"
          ? "layer"
          : map_.labels[static_cast<std::size_t>(row)],
      words);
  if (kind == 'v' && cell.lost > 0) {  // some of its tokens are gaps: the lower part is hatched
    const int part = std::max(2, cell_height_ / 3);
    svg_.add(
        "<rect class=\"w\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#{}-gap)\"/>\n",
        x(column), y(row) + cell_height_ - part, cell_width_, part, id_);
  }
}

void Figure::layers() {
  const int every = cell_height_ >= 12 ? 1 : cell_height_ >= 6 ? 2 : 5;
  for (int row = 0; row < rows_; ++row) {
    const std::string& label = map_.labels[static_cast<std::size_t>(row)];
    if (row % every != 0 && row + 1 != rows_) continue;
    if (row + 1 == rows_ && every > 1 && (row - 1) % every == 0 && label != "final") continue;
    svg_.add("<text x=\"{}\" y=\"{}\" class=\"a e\">{}</text>\n", kLeft - 6,
             y(row) + cell_height_ / 2 + 4, html_text(label, 12));
  }
  svg_.add("<text transform=\"translate(14 {}) rotate(-90)\" class=\"a m\">layer</text>\n",
           kMapTop + rows_ * cell_height_ / 2);
}

void Figure::tokens() {
  // 1, 2, 5, 10, …: the closest at which the widest number keeps clear of its neighbour.
  const auto digits = std::to_string(map_.first_token + map_.tokens).size();
  const double room = std::max(34.0, 7.0 * static_cast<double>(digits) + 12);
  std::int64_t every = 1;
  for (int i = 0; static_cast<double>(every) * cell_width_ <
                  room * static_cast<double>(map_.tokens_per_column);
       ++i) {
    every = i % 3 == 1 ? every / 2 * 5 : every * 2;
  }
  for (std::int64_t token = (map_.first_token + every - 1) / every * every;
       token < map_.first_token + map_.tokens; token += every) {
    const int middle = x_of_token(token) + (map_.tokens_per_column == 1 ? cell_width_ / 2 : 0);
    svg_.add(
        "<path d=\"M{0} {1}v4\" stroke=\"#555555\"/><text x=\"{0}\" y=\"{2}\" class=\"a "
        "m\">{3}</text>\n",
        middle, bottom(), bottom() + 16, token);
  }
  for (int column = 0; with_text_ && column < columns_; ++column) {
    const auto token = static_cast<std::size_t>(map_.first_token + column);
    if (token >= pieces_.size()) break;
    svg_.add("<text transform=\"translate({} {}) rotate(-60)\" class=\"p e\">{}</text>\n",
             x(column) + cell_width_ / 2 + 4, bottom() + 28, html_text(pieces_[token], 13));
  }
  svg_.add("<text x=\"{}\" y=\"{}\" class=\"a e\">token</text>\n", kLeft - 8, bottom() + 16);
}

void Figure::prompt_line() {
  const std::int64_t prompt = request_.summary.prompt_tokens;
  if (prompt <= map_.first_token || prompt >= map_.first_token + map_.tokens) return;
  const int at = x_of_token(prompt);
  svg_.add(
      "<path class=\"l\" d=\"M{} {}V{}\" stroke=\"#000000\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"4 3\"/>\n<text x=\"{}\" y=\"14\" class=\"a e\">prompt</text><text "
      "x=\"{}\" y=\"14\" class=\"a\">response</text>\n",
      at, 4, bottom() + 4, at - 6, at + 6);
}

void Figure::swatch(int left, const std::string& fill, const char* words, int line,
                    const char* kind) {
  const int top = legend_top() + 4 + line * 26;
  svg_.add(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"16\" height=\"12\" fill=\"{}\" "
      "stroke=\"#999999\"/><text x=\"{}\" y=\"{}\" class=\"a\">{}</text>\n",
      kind, left, top, fill, left + 22, top + 10, words);
}

void Figure::legend() {
  const int top = legend_top();
  constexpr int kBar = 340;
  svg_.add(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill=\"url(#{}-scale)\" "
      "stroke=\"#999999\"/>\n",
      kLeft, top + 4, kBar, id_);
  for (const double tick : scale_.ticks()) {
    const double at = kLeft + scale_.position(tick) * kBar;
    svg_.add(
        "<path d=\"M{0:.1f} {1}v4\" stroke=\"#555555\"/><text x=\"{0:.1f}\" y=\"{2}\" class=\"a "
        "m\">{3}</text>\n",
        at, top + 16, top + 31, short_number(tick));
  }
  svg_.add("<text x=\"{}\" y=\"{}\" class=\"a\">norm of {}, in units of its values{}</text>\n",
           kLeft, top + 48, html_text(map_.hook),
           scale_.logarithmic() ? ", logarithmic scale" : "");
  swatch(kLeft + kBar + 30, "#f0f0ee", "not captured", 0, "bg");
  swatch(kLeft + kBar + 140, fmt::format("url(#{}-gap)", id_), "gap");
  swatch(kLeft + kBar + 200, fmt::format("url(#{}-not)", id_), "not computed");
  if (not_finite_) swatch(kLeft + kBar + 320, "#d000c8", "not finite");
  if (!request_.recomputed.empty()) swatch(kLeft + kBar + 30, "#c77700", "recomputed", 1);
  if (!request_.summary.rejected.empty()) swatch(kLeft + kBar + 140, "#8b3fc4", "rejected", 1);
}

}  // namespace

std::string set_colour(const HookSetWords& set, std::size_t index) {
  constexpr std::array kColours{"#cfe3f5", "#f9dfb5", "#d5ecc8", "#e8d3ee",
                                "#f6cfcf", "#cdeae6", "#e6e0c4", "#d8d8f6"};
  return set.hooks == 0 ? "#ffffff" : kColours[index % kColours.size()];
}

std::string heat_map_svg(const RequestReport& request, const HeatMap& map, const ColourScale& scale,
                         const std::vector<std::string>& pieces, const std::string& id) {
  return Figure(request, map, scale, pieces, id).draw();
}

}  // namespace graphtap::cli
