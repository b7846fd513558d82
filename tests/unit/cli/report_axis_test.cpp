#include <gtest/gtest.h>

#include <regex>

#include "cli/report/heat_map_svg.hpp"

namespace graphtap::cli {
namespace {

/// A map of `tokens` tokens that were all captured, as a Collector with at most 200 columns makes
/// it.
RequestReport request_of(std::int64_t first, std::int64_t tokens) {
  RequestReport request;
  request.tokens = {first, first + tokens};
  request.summary.tokens = request.tokens;
  HeatMap map;
  map.hook = "resid_pre";
  map.labels = {"0", "1"};
  map.first_token = first;
  map.tokens = tokens;
  map.tokens_per_column = (tokens + 199) / 200;
  map.columns =
      static_cast<std::size_t>((tokens + map.tokens_per_column - 1) / map.tokens_per_column);
  map.cells.resize(2 * map.columns);
  request.maps = {map};
  request.sets = {{"every hook", "every hook", 2}};
  request.bands = {{request.tokens, 0}};
  return request;
}

struct Tick {
  int x;
  std::int64_t token;
  [[nodiscard]] double half() const {  // of its text: 11 px digits are 6.4 wide, and some air
    return 3.5 * static_cast<double>(std::to_string(token).size());
  }
};

/// The numbers of the token axis: those whose mark is at the lower edge of the map.
std::vector<Tick> ticks_of(const std::string& svg) {
  std::vector<Tick> ticks;
  std::smatch map;
  EXPECT_TRUE(std::regex_search(
      svg, map, std::regex(R"rx(class="bg" x="\d+" y="(\d+)" width="(\d+)" height="(\d+)")rx")));
  const std::string edge = std::to_string(std::stoi(map[1]) + std::stoi(map[3]));
  const std::regex tick("d=\"M(\\d+) " + edge + R"rx(v4"[^>]*/><text [^>]*>(\d+)</text>)rx");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tick), none; it != none; ++it) {
    ticks.push_back({std::stoi((*it)[1]), std::stoll((*it)[2])});
  }
  return ticks;
}

// D6: an axis can be read however many tokens a request has.
TEST(ReportAxis, D6_NumbersOfTheTokenAxisStandEvenlyAndApart) {
  for (const std::int64_t first : {0, 7, 999'990}) {
    for (std::int64_t tokens = 1; tokens < 3'000'000; tokens = tokens * 3 / 2 + 1) {
      const RequestReport request = request_of(first, tokens);
      const std::string svg = heat_map_svg(request, request.maps[0], ColourScale(1, 2), {}, "f");
      const std::string where = std::to_string(first) + " + " + std::to_string(tokens);
      const std::vector<Tick> ticks = ticks_of(svg);
      if (tokens > 40) {
        EXPECT_GE(ticks.size(), 2u) << where;
      }
      for (std::size_t i = 1; i < ticks.size(); ++i) {
        EXPECT_LT(ticks[i - 1].x + ticks[i - 1].half(), ticks[i].x - ticks[i].half()) << where;
        EXPECT_EQ(ticks[i].token - ticks[i - 1].token, ticks[1].token - ticks[0].token) << where;
        EXPECT_NEAR(ticks[i].x - ticks[i - 1].x, ticks[1].x - ticks[0].x, 1) << where;
      }
    }
  }
}

TEST(ReportAxis, TheStripEndsWhereTheMapEndsThoughTheLastColumnIsNotFull) {
  const RequestReport request = request_of(0, 56'250);  // 282 a column: the last one has 132
  const std::string svg = heat_map_svg(request, request.maps[0], ColourScale(1, 2), {}, "f");
  const auto right = [&](const char* kind) {
    std::smatch found;
    const std::regex rect(std::string("class=\"") + kind +
                          R"rx(" x="(\d+)" y="\d+" width="(\d+)")rx");
    EXPECT_TRUE(std::regex_search(svg, found, rect)) << kind;
    return std::stoi(found[1]) + std::stoi(found[2]);
  };
  EXPECT_EQ(right("s"), right("bg"));
}

}  // namespace
}  // namespace graphtap::cli
