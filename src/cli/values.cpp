#include "cli/values.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/near_match.hpp"
#include "graphtap/status.hpp"

namespace graphtap::cli {
namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view text, const std::string& right) {
  throw Error(Code::invalid_argument, fmt::format("{} is {}; {}", what, in_quotes(text), right));
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits{
    Unit{"", 1.0},
    Unit{"b", 1.0},
    Unit{"k", 1024.0},
    Unit{"kib", 1024.0},
    Unit{"kb", 1e3},
    Unit{"m", 1048576.0},
    Unit{"mib", 1048576.0},
    Unit{"mb", 1e6},
    Unit{"g", 1073741824.0},
    Unit{"gib", 1073741824.0},
    Unit{"gb", 1e9},
    Unit{"t", 1099511627776.0},
    Unit{"tib", 1099511627776.0},
    Unit{"tb", 1e12},
};

std::string size_text(std::uint64_t bytes) {
  for (const auto& [unit, name] :
       {std::pair{1ull << 30, "GiB"}, std::pair{1ull << 20, "MiB"}, std::pair{1ull << 10, "KiB"}}) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
  }
  return fmt::format("{} bytes", bytes);
}

struct TimeUnit {
  std::string_view name;
  double milliseconds;
};
constexpr std::array kTimeUnits{TimeUnit{"ms", 1.0}, TimeUnit{"s", 1e3}, TimeUnit{"m", 6e4},
                                TimeUnit{"h", 36e5}, TimeUnit{"d", 864e5}};

std::string time_text(std::chrono::milliseconds time) {
  for (auto unit = kTimeUnits.rbegin(); unit != kTimeUnits.rend(); ++unit) {
    const auto whole = static_cast<std::int64_t>(unit->milliseconds);
    if (time.count() >= whole && time.count() % whole == 0)
      return fmt::format("{}{}", time.count() / whole, unit->name);
  }
  return fmt::format("{}ms", time.count());
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::uint64_t parse_count(std::string_view what, std::string_view text, std::uint64_t least,
                          std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < least ||
      number > most) {
    refuse(what, text, fmt::format("it must be a whole number from {} to {}", least, most));
  }
  return number;
}

std::uint64_t parse_size(std::string_view what, std::string_view text, std::uint64_t least,
                         std::uint64_t most) {
  const auto wrong = [&](std::string_view why) {
    refuse(what, text, fmt::format("{}; write a size such as 4096, 512KiB, 64MiB or 1.5GiB", why));
  };
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string unit(digits == std::string_view::npos ? "" : text.substr(digits));
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  std::transform(unit.begin(), unit.end(), unit.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc{} || end != number.data() + number.size()) {
    wrong("it does not begin with a number");
  }
  const auto* const known =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  if (known == kUnits.end()) wrong(fmt::format("{} is no unit", in_quotes(unit)));
  const double bytes = std::floor(value * known->bytes);
  if (bytes < static_cast<double>(least) || bytes > static_cast<double>(most)) {
    refuse(what, text, fmt::format("it must be from {} to {}", size_text(least), size_text(most)));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::chrono::milliseconds parse_time(std::string_view what, std::string_view text,
                                     std::chrono::milliseconds least,
                                     std::chrono::milliseconds most) {
  constexpr std::string_view kRight = "write a time such as 200ms, 1.5s, 30m, 12h or 7d";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto found = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                  [&](const TimeUnit& known) { return known.name == unit; });
  if (error != std::errc{} || found == kTimeUnits.end() || !std::isfinite(number))
    refuse(what, text, std::string(kRight));
  const double milliseconds = number * found->milliseconds;
  if (milliseconds < static_cast<double>(least.count()) ||
      milliseconds > static_cast<double>(most.count())) {
    refuse(what, text,
           fmt::format("it must be from {} to {}; {}", time_text(least), time_text(most), kRight));
  }
  return std::chrono::milliseconds(std::llround(milliseconds));
}

TokenSpan parse_tokens(std::string_view what, std::string_view text) {
  TokenSpan span;
  const std::size_t dash = text.find('-');
  const auto first = whole(text.substr(0, dash));
  const std::string_view rest = dash == std::string_view::npos ? "" : text.substr(dash + 1);
  const auto last = dash == std::string_view::npos ? first : whole(rest);
  const bool open = dash != std::string_view::npos && rest.empty();
  if (!first || (!open && !last) || (last && *last < *first) ||
      (last && *last == std::numeric_limits<std::int64_t>::max())) {
    refuse(what, text, "write a token such as 7, a range such as 10-20, or 10- for all from 10 on");
  }
  span.begin = *first;
  if (!open) span.end = *last + 1;
  return span;
}

RankFilter parse_ranks(std::string_view what, std::string_view text) {
  RankFilter filter;
  const std::pair<std::string_view, std::optional<std::int32_t>*> groups[] = {
      {"tensor", &filter.tensor},
      {"pipeline", &filter.pipeline},
      {"data", &filter.data},
      {"expert", &filter.expert}};
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto group = std::find_if(std::begin(groups), std::end(groups), [&](const auto& known) {
      return known.first == part.substr(0, equals);
    });
    const auto rank = whole(equals < part.size() ? part.substr(equals + 1) : std::string_view{});
    if (group == std::end(groups) || !rank || *rank > std::numeric_limits<std::int32_t>::max() ||
        group->second->has_value()) {
      refuse(what, text,
             "write ranks such as tensor=1 or tensor=0,pipeline=2 (tensor, pipeline, "
             "data, expert)");
    }
    *group->second = static_cast<std::int32_t>(*rank);
    if (comma == rest.size()) return filter;
    rest.remove_prefix(comma + 1);
  }
}

std::size_t parse_word(std::string_view what, std::string_view text,
                       const std::vector<std::string_view>& words) {
  const auto at = std::find(words.begin(), words.end(), text);
  if (at == words.end()) {
    refuse(what, text,
           fmt::format("it must be {}{}", fmt::join(words, ", "), did_you_mean(text, words)));
  }
  return static_cast<std::size_t>(at - words.begin());
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  constexpr std::array kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  for (value /= 1024; value >= 1023.95 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

std::string ranges(const std::vector<int>& rising) {
  std::string text;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(rising[i]) : fmt::format("{}-{}", rising[i], rising[last]);
    i = last + 1;
  }
  return text;
}

std::string utc_time(std::int64_t unix_ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::gmtime(static_cast<std::time_t>(unix_ns / 1'000'000'000)));
}

}  // namespace graphtap::cli
