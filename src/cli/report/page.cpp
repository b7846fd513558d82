#include "cli/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/report/colour_scale.hpp"
#include "cli/report/heat_map_svg.hpp"
#include "cli/report/html_text.hpp"
#include "cli/report/page_assets.hpp"
#include "cli/report/page_parts.hpp"
#include "cli/store_words.hpp"
#include "cli/values.hpp"
#include "graphtap/version.hpp"

namespace graphtap::cli {
namespace {

/// The page while it is written.
class Page {
 public:
  Page(const ReportData& data, const Transcript& transcript)
      : data_(data), transcript_(transcript) {}

  std::string write() {
    head();
    summary();
    html_ += runs_html(data_);
    html_ += timeline_html(data_);
    figures();
    html_ += requests_html(data_);
    html_ += bytes_html(data_);
    totals();
    html_ += intervals_html(data_);
    findings();
    add("<footer>Made by graphtap {} from {}. This page loads nothing: it can be kept, sent and "
        "read "
        "anywhere.</footer>\n<div id=\"tip\"></div>\n<script>{}</script>\n</body>\n</html>\n",
        version(), html_text(data_.store), kPageScript);
    return std::move(html_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(html_), format, std::forward<Arguments>(arguments)...);
  }
  const RequestText* text_of(const RequestReport& request) const {
    const auto at = transcript_.requests.find(request.summary.serial);
    return at == transcript_.requests.end() ? nullptr : &at->second;
  }
  /// What stands below the columns; tokens without text of their own (such as <|im_start|>) by
  /// number.
  std::vector<std::string> labels_of(const RequestReport& request) const {
    const RequestText* const text = text_of(request);
    if (!text) return {};
    std::vector<std::string> labels = text->pieces;
    for (std::size_t i = 0; i < std::min(labels.size(), text->tokens.size()); ++i) {
      if (labels[i].empty()) labels[i] = fmt::format("#{}", text->tokens[i]);
    }
    return labels;
  }
  std::string key(const RequestReport& request) const {
    return std::to_string(request.summary.serial);
  }

  void head();
  void summary();
  void card(bool bad, const std::string& number, const std::string& words);
  void choice();
  void figures();
  void request_head(const RequestReport& request);
  void set_list(const RequestReport& request);
  void totals();
  void findings();

  const ReportData& data_;
  const Transcript& transcript_;
  std::string html_;
};

void Page::head() {
  const RunInfo& run = *data_.run.run;
  add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>graphtap: {0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>What was captured in {0}</h1>\n"
      "<p class=\"sub\">model {2} · run {3} · {4} UTC · {5}</p>\n",
      html_text(run.name.empty() ? run.model : run.name, 80), kPageStyle, html_text(run.model, 80),
      run.number, utc_time(run.started_unix_ns), to_string(data_.run.state));
}

void Page::card(bool bad, const std::string& number, const std::string& words) {
  add("<div class=\"card{}\"><b>{}</b><span>{}</span></div>\n", bad ? " bad" : "", number, words);
}

void Page::summary() {
  add("<div class=\"cards\">\n");
  card(false, with_commas(data_.run.requests), data_.run.requests == 1 ? "request" : "requests");
  card(false, with_commas(data_.run.steps), "steps that captured something");
  card(false, with_commas(data_.run.records), "records");
  card(false, human_bytes(data_.run.payload_bytes), "captured");
  card(false,
       duration_text(static_cast<double>(data_.run.last_end_unix_ns - data_.run.first_end_unix_ns)),
       "from the first step to the last");
  card(data_.run.missing > 0, with_commas(data_.run.missing), "missing");
  card(data_.run.shed > 0, with_commas(data_.run.shed), "shed");
  add("</div>\n");
}

void Page::choice() {
  add("<div class=\"choice\"><label>request <select id=\"request\">");
  // The page opens with the request that saw the most switching.
  const auto first = std::max_element(
      data_.requests.begin(), data_.requests.end(),
      [](const auto& a, const auto& b) { return a.bands.size() < b.bands.size(); });
  for (const RequestReport& request : data_.requests) {
    add("<option value=\"{}\"{}>{} (serial {})</option>", key(request),
        &request == &*first ? " selected" : "", html_text(request.summary.id, 60),
        request.summary.serial);
  }
  add("</select></label><label>hook <select id=\"hook\">");
  for (const HeatMap& map : data_.requests.front().maps) {
    add("<option value=\"{0}\">{0}</option>", html_text(map.hook));
  }
  add("</select></label></div>\n");
}

void Page::request_head(const RequestReport& request) {
  const RequestSummary& summary = request.summary;
  add("<div class=\"pick\" data-request=\"{}\"><h3>{}</h3>\n", key(request),
      html_text(summary.id, 120));
  if (const RequestText* text = text_of(request)) {
    std::string prompt, response;
    for (std::size_t i = 0; i < text->pieces.size(); ++i) {
      (i < text->prompt_tokens ? prompt : response) += text->pieces[i];
    }
    add("<div class=\"text\"><em>{}</em>{}</div>\n", html_lines(prompt, 1200),
        html_lines(response, 1200));
  }
  add("<p class=\"sub\">serial {}, {} prompt tokens, rows of tokens {}, {}</p></div>\n",
      summary.serial, summary.prompt_tokens, tokens_text(summary.tokens), completeness(summary));
}

void Page::set_list(const RequestReport& request) {
  add("<ul class=\"sets\">");
  for (std::size_t i = 0; i < request.sets.size(); ++i) {
    const HookSetWords& set = request.sets[i];
    std::string where;
    for (const Band& band : request.bands) {
      if (band.set == i) where += (where.empty() ? "" : ", ") + tokens_text(band.tokens);
    }
    add("<li><i style=\"background:{}\"></i>tokens {}: {}</li>", set_colour(set, i),
        html_text(where, 120),
        set.hooks == 0
            ? "nothing was captured"
            : fmt::format("{} ({})", html_text(set.full, 300), counted(set.hooks, "hook")));
  }
  add("</ul>\n");
}

void Page::figures() {
  add("<h2>Norms by layer and token</h2>\n"
      "<p>Each cell is the Euclidean norm of what a hook saw of one token in one layer; darker is "
      "larger. The strip above a map shows what was switched on when that token was computed: "
      "where "
      "nothing was, the map stays empty, and nothing was paid for. A hatched cell was wanted and "
      "lost. "
      "Point at a cell for its value.</p>\n");
  if (data_.requests.empty()) {
    add("<p class=\"sub\">No map: this run stored {}.</p>\n",
        data_.table.empty() ? "no request" : "no hook that has layers");
    return;
  }
  choice();
  if (data_.requests_left_out > 0) {
    add("<p class=\"sub\">{} not drawn; choose with --request ID, or --tokens for a part of "
        "each.</p>\n",
        counted(data_.requests_left_out, "further request"));
  }
  if (!data_.types_left_out.empty()) {
    add("<p class=\"sub\">Not drawn, for the page would be too large: {}; choose with "
        "--hooks.</p>\n",
        html_text(fmt::format("{}", fmt::join(data_.types_left_out, ", ")), 300));
  }
  for (const RequestReport& request : data_.requests) {
    request_head(request);
    const std::vector<std::string> labels = labels_of(request);
    for (std::size_t i = 0; i < request.maps.size(); ++i) {
      const HeatMap& map = request.maps[i];
      const auto scale = data_.scales.find(map.hook);
      const auto [least, most] = scale == data_.scales.end() ? std::pair(0.0, 0.0) : scale->second;
      add("<div class=\"figure pick\" data-request=\"{}\" data-hook=\"{}\">\n<h3>{} of {}</h3>\n",
          key(request), html_text(map.hook), html_text(map.hook),
          html_text(request.summary.id, 80));
      if (map.tokens_per_column > 1) {
        add("<p class=\"sub\">A column is the mean of {} tokens; fewer with --tokens.</p>\n",
            map.tokens_per_column);
      }
      html_ += heat_map_svg(request, map, ColourScale(least, most), labels,
                            fmt::format("f{}-{}", request.summary.serial, i));
      set_list(request);
      add("</div>\n");
    }
  }
}

void Page::totals() {
  add("<h2>Totals of each hook</h2>\n<div "
      "class=\"wide\"><table><tr><th>hook</th><th>layers</th><th class=\"n\">tokens</th><th "
      "class=\"n\">records</th><th class=\"n\">bytes</th><th class=\"n\">missing</th><th "
      "class=\"n\">shed</th></tr>\n");
  TotalsRow sum;
  const auto row = [&](const char* kind, const TotalsRow& totals, const std::string& tokens) {
    add("<tr{}><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        kind, html_text(totals.hook), ranges(totals.layers), tokens, with_commas(totals.records),
        human_bytes(totals.bytes), with_commas(totals.missing), with_commas(totals.shed));
  };
  for (const TotalsRow& totals : data_.totals) {
    row("", totals, with_commas(totals.tokens));
    sum.records += totals.records;
    sum.bytes += totals.bytes;
    sum.missing += totals.missing;
    sum.shed += totals.shed;
  }
  sum.hook = "all";
  row(" class=\"sum\"", sum, "");
  add("</table></div>\n<p class=\"sub\">tokens: of each layer in the row; a token that was "
      "computed "
      "twice "
      "counts twice. missing and shed: records that were wanted and are not there.</p>\n");
}

void Page::findings() {
  if (data_.findings.empty()) return;
  add("<h2>Findings</h2>\n<p>Reading the store met the following; graphtap verify says "
      "more.</p>\n<ul>\n");
  for (const Finding& finding : data_.findings) {
    add("<li>{}: {} at byte {}: {}</li>\n", to_string(finding.severity), html_text(finding.file),
        finding.offset, html_text(finding.what));
  }
  add("</ul>\n");
}

}  // namespace

std::string report_page(const ReportData& data, const Transcript& transcript) {
  return Page(data, transcript).write();
}

}  // namespace graphtap::cli
