#include "cli/report/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/report/history_svg.hpp"
#include "cli/report/html_text.hpp"
#include "cli/store_words.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

constexpr std::size_t kMostRuns = 30, kMostBars = 24, kMostChanges = 60, kMostLanes = 12;

template <class... Arguments>
void add(std::string& html, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(html), format, std::forward<Arguments>(arguments)...);
}

std::string since(std::int64_t unix_ns, std::int64_t begin) {
  return "+" + duration_text(static_cast<double>(std::max<std::int64_t>(0, unix_ns - begin)));
}

void changes_table(std::string& html, const RunHistory& history) {
  add(html,
      "<details><summary>Set versions and losses as tables</summary>\n<div class=\"wide\"><table>"
      "<tr><th class=\"n\">set version</th><th class=\"n\">first stored step ended</th><th "
      "class=\"n\">hooks wanted</th></tr>\n");
  const auto& changes = history.changes();
  for (std::size_t i = 0; i < std::min(changes.size(), kMostChanges); ++i) {
    add(html, "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        changes[i].version, since(changes[i].unix_ns, history.begin()), changes[i].hooks);
  }
  add(html, "</table></div>\n");
  const std::uint64_t rest = history.changes_left_out() +
                             (changes.size() > kMostChanges ? changes.size() - kMostChanges : 0);
  if (rest > 0) add(html, "<p class=\"sub\">and {}.</p>\n", counted(rest, "later version"));
  if (!history.lost().empty()) {
    add(html,
        "<div class=\"wide\"><table><tr><th>reason of loss</th><th class=\"n\">records</th><th "
        "class=\"n\">first</th><th class=\"n\">last</th><th>meaning</th></tr>\n");
    for (const auto& [reason, counts] : history.lost()) {
      std::uint64_t sum = 0;
      std::size_t first = counts.size(), last = 0;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] == 0) continue;
        sum += counts[i];
        first = std::min(first, i);
        last = i + 1;
      }
      add(html,
          "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
          "class=\"n\">{}</td><td>{}</td></tr>\n",
          to_string(reason), with_commas(sum), since(history.time(first), history.begin()),
          since(history.time(last), history.begin()), html_text(explain(reason)));
    }
    add(html, "</table></div>\n");
  }
  add(html, "</details>\n");
}

}  // namespace

std::string runs_html(const ReportData& data) {
  if (data.runs.size() < 2) return {};
  std::string html;
  add(html,
      "<h2>Runs in this store</h2>\n<p>This page is about run {}; --run N shows another.</p>\n<div "
      "class=\"wide\"><table class=\"runs\"><tr><th class=\"n\">run</th><th>name</th><th>state</th>"
      "<th>first step (UTC)</th><th class=\"n\">time span</th><th class=\"n\">requests</th><th "
      "class=\"n\">steps</th><th class=\"n\">records</th><th class=\"n\">bytes</th><th "
      "class=\"n\">missing</th><th class=\"n\">shed</th></tr>\n",
      data.run.run->number);
  const std::size_t skip = data.runs.size() > kMostRuns ? data.runs.size() - kMostRuns : 0;
  for (std::size_t i = skip; i < data.runs.size(); ++i) {
    const RunSummary& run = data.runs[i];
    const double span = static_cast<double>(run.last_end_unix_ns - run.first_end_unix_ns);
    add(html,
        "<tr{}><td class=\"n\">{}</td><td class=\"id\">{}</td><td>{}</td><td>{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n{}\">{}</td><td class=\"n{}\">{}</td></tr>\n",
        run.run->number == data.run.run->number ? " class=\"now\"" : "", run.run->number,
        html_text(run.run->name.empty() ? run.run->model : run.run->name, 60), to_string(run.state),
        run.steps > 0 ? utc_time(run.first_end_unix_ns) : "no step", duration_text(span),
        with_commas(run.requests), with_commas(run.steps), with_commas(run.records),
        human_bytes(run.payload_bytes), run.missing > 0 ? " bad" : "", with_commas(run.missing),
        run.shed > 0 ? " bad" : "", with_commas(run.shed));
  }
  add(html, "</table></div>\n");
  if (skip > 0) {
    add(html, "<p class=\"sub\">{} not listed; graphtap ls lists all.</p>\n",
        counted(skip, "older run"));
  }
  return html;
}

std::string timeline_html(const ReportData& data) {
  const RunHistory& history = *data.history;
  if (data.run.steps == 0) return "<p>This run stored no step.</p>\n";
  std::string html;
  add(html,
      "<h2>What was switched on, and when</h2>\n<p>A band for each hook type, a line a layer, the "
      "first layer at the bottom. Solid: on in every step of that time; pale: in some of them, or "
      "in some of the layers that share a line. Empty: nothing on, or nothing ran — such steps are "
      "not stored. Below, hatched: records that were wanted and lost.</p>\n<div "
      "class=\"figure\">\n{}</div>\n",
      timeline_svg(data.run.run->hooks, history));
  add(html, "<p class=\"sub\">{} of time and {} of the hook set. {}</p>\n",
      counted(history.buckets(), "slice"),
      counted(history.changes().size() + history.changes_left_out(), "version"),
      history.steps_without_time() > 0
          ? counted(history.steps_without_time(), "step") + " without an end time not shown."
          : std::string());
  if (const std::size_t rest = timeline_types_left_out(data.run.run->hooks, history); rest > 0) {
    add(html, "<p class=\"sub\">{} not drawn; graphtap show lists their records.</p>\n",
        counted(rest, "further hook type"));
  }
  changes_table(html, history);
  return html;
}

std::string requests_html(const ReportData& data) {
  if (data.table.empty()) return {};
  std::string html;
  add(html,
      "<h2>Requests</h2>\n<p>Those that lost most first, then the longest.</p>\n<div "
      "class=\"wide\"><table class=\"requests\"><tr><th class=\"n\">serial</th><th>id</th><th "
      "class=\"n\">prompt tokens</th><th class=\"n\">rows of tokens</th><th "
      "class=\"n\">steps</th><th class=\"n\">records lost</th><th>complete</th></tr>\n");
  for (const RequestRow& row : data.table) {
    const RequestSummary& summary = row.summary;
    add(html,
        "<tr><td class=\"n\">{}</td><td class=\"id\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n{}\">{}</td><td>{}</td></tr>\n",
        summary.serial, html_text(summary.id, 120), summary.prompt_tokens,
        tokens_text(summary.tokens), summary.steps, row.lost > 0 ? " bad" : "",
        with_commas(row.lost), completeness(summary));
  }
  add(html, "</table></div>\n");
  if (data.rows_left_out > 0) {
    add(html, "<p class=\"sub\">and {}; graphtap ls lists all, --request ID draws one.</p>\n",
        counted(data.rows_left_out, "further request"));
  }
  return html;
}

std::string bytes_html(const ReportData& data) {
  if (data.bytes.empty()) return {};
  std::string html;
  add(html,
      "<h2>Bytes of each hook type</h2>\n<div class=\"wide\"><table "
      "class=\"bars\"><tr><th>hook</th>"
      "<th class=\"n\">hooks</th><th class=\"n\">bytes</th><th class=\"n\">bytes a hook</th>"
      "<th>share of the largest</th></tr>\n");
  const double most = static_cast<double>(std::max<std::uint64_t>(1, data.bytes.front().bytes));
  for (std::size_t i = 0; i < std::min(data.bytes.size(), kMostBars); ++i) {
    const TypeBytes& type = data.bytes[i];
    add(html,
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"track\"><i style=\"width:{:.2f}%\"></i></td></tr>\n",
        html_text(type.hook, 60), type.hooks, human_bytes(type.bytes),
        human_bytes(type.bytes / std::max<std::size_t>(1, type.hooks)),
        100 * static_cast<double>(type.bytes) / most);
  }
  add(html, "</table></div>\n");
  if (data.bytes.size() > kMostBars) {
    std::uint64_t rest = 0;
    for (std::size_t i = kMostBars; i < data.bytes.size(); ++i) rest += data.bytes[i].bytes;
    add(html, "<p class=\"sub\">and {} with {}; see the totals.</p>\n",
        counted(data.bytes.size() - kMostBars, "smaller type"), human_bytes(rest));
  }
  return html;
}

std::string intervals_html(const ReportData& data) {
  const RunHistory& history = *data.history;
  const Durations intervals = history.intervals();
  if (data.run.steps == 0) return {};
  std::string html;
  add(html,
      "<h2>Time between steps</h2>\n<p>From the end of a step to the end of the next one of its "
      "lane, where both are stored and nothing lies between them; waiting for requests is part of "
      "it. A store does not keep when a record reached it, so this page cannot tell the delay of "
      "delivery.</p>\n");
  if (intervals.count() == 0) {
    add(html, "<p class=\"sub\">No two stored steps follow one another.</p>\n");
    return html;
  }
  add(html, "<div class=\"figure\">\n{}</div>\n", intervals_svg(intervals));
  add(html,
      "<div class=\"wide\"><table class=\"lanes\"><tr><th class=\"n\">lane</th><th "
      "class=\"n\">steps</th><th class=\"n\">intervals</th><th class=\"n\">p50</th><th "
      "class=\"n\">p99</th><th class=\"n\">longest</th></tr>\n");
  const auto row = [&](const char* kind, const std::string& lane, std::uint64_t steps,
                       const Durations& spread) {
    add(html,
        "<tr{}><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        kind, lane, with_commas(steps), with_commas(spread.count()),
        duration_text(spread.quantile(0.5)), duration_text(spread.quantile(0.99)),
        duration_text(static_cast<double>(spread.most())));
  };
  std::uint64_t steps = 0;
  std::size_t shown = 0;
  for (const auto& [number, lane] : history.lanes()) {
    steps += lane.steps;
    if (shown++ < kMostLanes) row("", std::to_string(number), lane.steps, lane.intervals);
  }
  row(" class=\"sum\"", "all", steps, intervals);
  add(html, "</table></div>\n<p class=\"sub\">p50 and p99 to within 1.2 %.</p>\n");
  if (shown > kMostLanes || history.lanes_left_out() > 0) {
    const std::uint64_t unlisted = shown > kMostLanes ? shown - kMostLanes : 0;
    add(html, "<p class=\"sub\">{} not listed; {} not counted at all.</p>\n",
        counted(unlisted, "further lane"), counted(history.lanes_left_out(), "lane"));
  }
  return html;
}

}  // namespace graphtap::cli
