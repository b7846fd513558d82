#include "cli/report/page.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <regex>

#include "cli/report/heat_map_svg.hpp"
#include "cli/store_words.hpp"
#include "unit/cli/sample_store.hpp"

namespace graphtap::cli {
namespace {

/// An element as it stands in the text.
struct Element {
  std::string name, text;
  std::map<std::string, std::string> attributes;
};

/// Reads markup strictly: every element must be closed in order, attributes quoted, entities known.
/// HTML's own void elements may stay open. Returns the elements; problems are test failures.
std::vector<Element> parse(const std::string& markup) {
  std::vector<Element> elements;
  std::vector<std::size_t> open;
  const std::regex attribute(R"rx(\s+([A-Za-z:-]+)(="([^"<]*)")?)rx");
  const auto is_void = [](const std::string& name) { return name == "meta" || name == "!DOCTYPE"; };
  for (std::size_t at = 0; at < markup.size();) {
    const std::size_t tag = markup.find('<', at);
    const std::string text = markup.substr(at, tag == std::string::npos ? tag : tag - at);
    if (!open.empty()) {
      elements[open.back()].text += text;
      const std::string& parent = elements[open.back()].name;
      if (parent != "style" && parent != "script") {
        for (std::size_t amp = text.find('&'); amp != std::string::npos;
             amp = text.find('&', amp + 1)) {
          EXPECT_TRUE(std::regex_search(text.substr(amp, 8), std::regex("^&(amp|lt|gt|quot|#39);")))
              << text.substr(amp, 20);
        }
      }
    }
    if (tag == std::string::npos) break;
    std::size_t end = markup.find('>', tag);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an open tag at the end";
      break;
    }
    if (markup[tag + 1] == '/') {
      const std::string name = markup.substr(tag + 2, end - tag - 2);
      if (open.empty() || elements[open.back()].name != name) {
        ADD_FAILURE() << "</" << name << "> closes "
                      << (open.empty() ? "nothing" : elements[open.back()].name);
        return elements;
      }
      open.pop_back();
      at = end + 1;
      continue;
    }
    const bool closed = markup[end - 1] == '/';
    std::string inside = markup.substr(tag + 1, end - tag - 1 - (closed ? 1 : 0));
    Element element;
    element.name = inside.substr(0, inside.find_first_of(" \n"));
    const std::string rest = inside.substr(element.name.size());
    std::size_t read = 0;
    for (std::sregex_iterator it(rest.begin(), rest.end(), attribute), none; it != none; ++it) {
      if (static_cast<std::size_t>(it->position()) != read) break;
      EXPECT_TRUE(element.attributes.emplace((*it)[1], (*it)[3]).second) << inside;
      read += static_cast<std::size_t>(it->length());
    }
    EXPECT_TRUE(read == rest.size() || element.name == "!DOCTYPE") << inside;
    elements.push_back(element);
    at = end + 1;
    if (closed || is_void(element.name)) continue;
    open.push_back(elements.size() - 1);
    if (element.name == "style" || element.name == "script") {  // not markup inside
      const std::size_t close = markup.find("</" + element.name, at);
      elements.back().text = markup.substr(at, close - at);
      at = close;
    }
  }
  EXPECT_TRUE(open.empty()) << elements[open.back()].name << " is never closed";
  return elements;
}

std::vector<Element> cells(const std::vector<Element>& elements, const std::string& kind) {
  std::vector<Element> found;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto type = elements[i].attributes.find("class");
    if (elements[i].name != "rect" || type == elements[i].attributes.end() || type->second != kind)
      continue;
    found.push_back(elements[i]);
    if (i + 1 < elements.size() && elements[i + 1].name == "title")
      found.back().text = elements[i + 1].text;
  }
  return found;
}

double luminance(const std::string& colour) {
  const int rgb = std::stoi(colour.substr(1), nullptr, 16);
  return 0.2126 * (rgb >> 16) + 0.7152 * (rgb >> 8 & 255) + 0.0722 * (rgb & 255);
}

ReportData collect(const SampleStore& store) {
  const auto reader = store.keep(open_store(store.path));  // the data points into it
  const StoreSummary summary = reader->summary();
  return collect_report(*reader, summary.runs.front(), {});
}

std::string figure(const ReportData& data, std::size_t request) {
  const HeatMap& map = data.requests[request].maps[0];
  const auto [least, most] = data.scales.at(map.hook);
  return heat_map_svg(data.requests[request], map, ColourScale(least, most), {}, "f");
}

TEST(ReportSvg, OneCellForEachValueAndEachGapAndNoneForWhatWasOff) {
  SampleStore store;
  const ReportData data = collect(store);
  for (std::size_t request = 0; request < 2; ++request) {
    const std::vector<Element> elements = parse(figure(data, request));
    std::map<CellState, std::size_t> expected;
    for (const Cell& cell : data.requests[request].maps[0].cells) ++expected[cell.state];
    EXPECT_EQ(cells(elements, "v").size(), expected[CellState::value]);
    EXPECT_EQ(cells(elements, "g").size(), expected[CellState::gap]);
    EXPECT_EQ(cells(elements, "n").size(), expected[CellState::not_computed]);
    EXPECT_EQ(cells(elements, "s").size(), data.requests[request].bands.size());
    EXPECT_GT(expected[CellState::gap], 0u);
    for (const Element& cell : cells(elements, "g")) {
      EXPECT_EQ(cell.attributes.at("fill"), "url(#f-gap)");
      EXPECT_NE(cell.text.find("gap: shed_ring"), std::string::npos) << cell.text;
    }
  }
}

TEST(ReportSvg, LargerNormsAreDarkerAndTheHoverTextHasTheValue) {
  SampleStore store;
  const ReportData data = collect(store);
  std::map<double, double> brightness;  // by norm
  for (const Element& cell : cells(parse(figure(data, 1)), "v")) {
    std::smatch found;
    ASSERT_TRUE(std::regex_search(
        cell.text, found,
        std::regex(R"(token (\d+), (layer (\d+)|after the last layer): ([\d.e+]+))")))
        << cell.text;
    const int layer = found[3].matched ? std::stoi(found[3]) : 4;
    const double norm = SampleStore::norm(1, layer, std::stoll(found[1]));
    EXPECT_NEAR(std::stod(found[4]), norm, norm * 0.006) << cell.text;  // three digits
    brightness[norm] = luminance(cell.attributes.at("fill"));
  }
  ASSERT_GT(brightness.size(), 10u);
  for (auto last = brightness.begin(), next = std::next(last); next != brightness.end();
       ++last, ++next) {
    EXPECT_GT(last->second, next->second) << last->first << " and " << next->first;
  }
}

TEST(ReportSvg, CellsLieWhereTheirTokenAndLayerAre) {
  SampleStore store;
  const ReportData data = collect(store);
  std::map<std::pair<int, int>, std::string> places;
  for (const Element& cell : cells(parse(figure(data, 0)), "v")) {
    const std::pair place(std::stoi(cell.attributes.at("x")), std::stoi(cell.attributes.at("y")));
    EXPECT_TRUE(places.emplace(place, cell.text).second) << "two cells at one place";
  }
  // Further right is a later token, further up a higher layer.
  EXPECT_NE(places.begin()->second.find("token 0, after the last layer"), std::string::npos);
  EXPECT_NE(places.rbegin()->second.find("token 10"), std::string::npos);
}

TEST(ColourScale, IsMonotoneInBothModes) {
  for (const auto& [least, most] :
       {std::pair(1.0, 10.0), std::pair(0.01, 5000.0), std::pair(0.0, 100.0)}) {
    const ColourScale scale(least, most);
    double last = 256;
    for (int i = 0; i <= 100; ++i) {
      const double share = i / 100.0;
      const double norm = scale.logarithmic() ? least * std::pow(most / least, share)
                                              : least + share * (most - least);
      const double now = luminance(scale.colour(norm));
      EXPECT_LT(now, last) << norm;
      last = now;
    }
    const std::vector<double> ticks = scale.ticks();
    EXPECT_GE(ticks.size(), 3u);
    EXPECT_TRUE(std::is_sorted(ticks.begin(), ticks.end()));
    EXPECT_EQ(ticks.front(), least);
    EXPECT_EQ(ticks.back(), most);
  }
  EXPECT_TRUE(ColourScale(0.01, 5000).logarithmic());
  EXPECT_FALSE(ColourScale(0, 5000).logarithmic());  // zero has no logarithm
  EXPECT_EQ(ColourScale(3, 3).colour(3), ColourScale(3, 3).colour(99));
  EXPECT_EQ(short_number(25060), "25100");
  EXPECT_EQ(short_number(0.031249), "0.0312");
}

TEST(ReportPage, IsWellFormedAndLoadsNothing) {
  SampleStore store;
  const std::string page = report_page(collect(store), {});
  const std::vector<Element> elements = parse(page);
  std::map<std::string, int> count;
  for (const Element& element : elements) {
    ++count[element.name];
    for (const char* loads : {"src", "href", "data", "action", "srcset"}) {
      EXPECT_FALSE(element.attributes.contains(loads)) << element.name << " " << loads;
    }
    EXPECT_NE(element.name, "link");
    EXPECT_NE(element.name, "img");
  }
  EXPECT_EQ(count["svg"], 4);  // two maps, the timeline, the time between steps
  EXPECT_EQ(count["script"], 1);
  for (const char* loads : {"http:", "https:", "//", "@import", "fetch(", "XMLHttp"}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
  EXPECT_NE(page.find("sample &lt;model&gt;"), std::string::npos);
  EXPECT_NE(page.find("sample &amp; run"), std::string::npos);
}

TEST(ReportPage, D6_ARunWithoutLayersOrRequestsHasAPageAndNoMap) {
  TempDir dir;
  HookTable table("no layers");
  HookSpec spec;
  spec.type = "final_logits";
  spec.row_shape = {2};
  const HookId logits = table.add(spec).value_or_throw();
  const auto sink = open_store_sink(dir / "store", table, {}).value_or_throw();
  const float values[2] = {3, 4};
  DeliveredStep step;
  step.table = &table;
  step.ticket = 1;
  step.end_unix_ns = 1'700'000'000'000'000'000;
  step.wanted = HookSet::all(1);
  step.records.push_back({&table[logits], 0, 1, 8, 0, std::as_bytes(std::span(values)), {}});
  ASSERT_TRUE(sink->write(step).ok());
  ASSERT_TRUE(sink->close().ok());
  const auto reader = open_store(dir / "store");
  const StoreSummary summary = reader->summary();
  const ReportData data = collect_report(*reader, summary.runs.front(), {});
  EXPECT_TRUE(data.requests.empty());
  const std::string page = report_page(data, {});
  int pictures = 0;
  for (const Element& element : parse(page)) pictures += element.name == "svg" ? 1 : 0;
  EXPECT_EQ(pictures, 1);  // the timeline
  EXPECT_NE(page.find("No map: this run stored no request"), std::string::npos);
  EXPECT_NE(page.find("final_logits"), std::string::npos);
}

TEST(ReportPage, TheTotalsAreThoseOfTheStore) {
  SampleStore store;
  const std::string page = report_page(collect(store), {});
  std::vector<std::string> row;
  for (const Element& element : parse(page)) {
    if (element.name == "td") row.push_back(element.text);
  }
  std::string all;
  for (const std::string& cell : row) all += cell + "|";
  // Layers 0 and 3: 5 steps of two requests, 1 of three rows, 1 that was shed, each. Layer 1 has
  // one step more; of layer 2 that one was shed too.
  EXPECT_NE(all.find("resid_pre|0,3|13|12|208 B|0|2|"), std::string::npos) << all;
  EXPECT_NE(all.find("resid_pre|1|15|7|120 B|0|1|"), std::string::npos) << all;
  EXPECT_NE(all.find("resid_pre|2|13|6|104 B|0|2|"), std::string::npos) << all;
}

TEST(ReportPage, E_IdsAndTextsOfUsersCannotBecomeMarkup) {
  SampleStore store("<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>\xff\x1b");
  Transcript transcript;
  transcript.requests[1] = {"x", 2, {7, 8, 9}, {"</title><script>", "'\"&", "\xc3"}, "length"};
  const std::string page = report_page(collect(store), transcript);
  const std::vector<Element> elements = parse(page);
  int scripts = 0;
  for (const Element& element : elements) {
    scripts += element.name == "script" ? 1 : 0;
    EXPECT_NE(element.name, "img");
    EXPECT_FALSE(element.attributes.contains("onerror"));
  }
  EXPECT_EQ(scripts, 1);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
}

TEST(ReportPage, TranscriptsLabelTheColumns) {
  SampleStore store;
  Transcript transcript;
  transcript.requests[1] = {"alpha", 2, {1, 2, 3, 4, 5, 6, 7, 8}, {"", " The", " sea"}, "length"};
  const std::string page = report_page(collect(store), transcript);
  EXPECT_NE(page.find("token 1 “ The”, layer 3"), std::string::npos);
  EXPECT_NE(page.find("token 0 “#1”, layer 0"),
            std::string::npos);  // a token without text of its own
}

}  // namespace
}  // namespace graphtap::cli
