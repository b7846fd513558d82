#include "cli/report/colour_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace graphtap::cli {
namespace {

using Rgb = std::array<double, 3>;

// Light yellow through green and blue to near black; every step darker than the one before.
constexpr std::array<Rgb, 8> kStops{{{255, 247, 188},
                                     {254, 227, 128},
                                     {190, 219, 138},
                                     {104, 190, 160},
                                     {45, 148, 172},
                                     {36, 100, 166},
                                     {40, 56, 130},
                                     {22, 20, 66}}};
constexpr double kLogFrom = 30;
constexpr double kApart = 0.11;  // of a legend's width, between two of its numbers

}  // namespace

ColourScale::ColourScale(double least, double most)
    : least_(least),
      most_(std::max(least, most)),
      logarithmic_(least > 0 && most / least > kLogFrom) {}

double ColourScale::position(double norm) const {
  if (!(most_ > least_)) return 0.5;
  const double clamped = std::clamp(norm, least_, most_);
  return logarithmic_ ? std::log(clamped / least_) / std::log(most_ / least_)
                      : (clamped - least_) / (most_ - least_);
}

std::string ColourScale::colour(double norm) const {
  const double place = position(norm) * static_cast<double>(kStops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), kStops.size() - 2);
  const double share = place - static_cast<double>(below);
  std::array<int, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double channel = kStops[below][i] + share * (kStops[below + 1][i] - kStops[below][i]);
    rgb[i] = static_cast<int>(std::lround(channel));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

std::vector<double> ColourScale::ticks() const {
  if (!(most_ > least_)) return {least_};
  std::vector<double> ticks{least_};
  const auto add = [&](double tick) {
    // Too close to the one before or to the end, numbers would be printed over each other.
    const bool clear =
        position(tick) - position(ticks.back()) > kApart && position(tick) < 1 - kApart;
    if (clear && tick > least_ && tick < most_) ticks.push_back(tick);
  };
  if (logarithmic_) {
    const bool wide = most_ / least_ > 2000;
    const auto last = static_cast<int>(std::floor(std::log10(most_)));
    for (auto power = static_cast<int>(std::floor(std::log10(least_))); power <= last; ++power) {
      add(std::pow(10, power));
      if (!wide) add(3 * std::pow(10, power));
    }
  } else {
    const double span = most_ - least_;
    const double step = std::pow(10, std::floor(std::log10(span)));
    const double width = span > 5 * step ? 2 * step : span > 2 * step ? step : step / 2;
    const double first = std::ceil(least_ / width);
    for (int i = 0; first * width + i * width < most_; ++i) add((first + i) * width);
  }
  ticks.push_back(most_);
  return ticks;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size < 1000 || size >= 1e6) return fmt::format("{:.3g}", value);
  const double unit =
      std::pow(10, std::floor(std::log10(size)) - 2);  // "25100" rather than "2.51e+04"
  return fmt::format("{:.0f}", std::round(value / unit) * unit);
}

}  // namespace graphtap::cli
