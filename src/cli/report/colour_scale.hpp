#pragma once
#include <string>
#include <vector>

namespace graphtap::cli {

/// Norms as colours: one sequential scale from light to dark, so that darker always means larger.
/// Logarithmic when the norms span more than a factor of 30 (first tokens often have huge ones).
class ColourScale {
 public:
  ColourScale(double least, double most);

  /// "#rrggbb"; values outside are clamped. Luminance falls strictly along the scale.
  [[nodiscard]] std::string colour(double norm) const;
  /// Round numbers from least to most for a legend, rising.
  [[nodiscard]] std::vector<double> ticks() const;
  /// 0 at least, 1 at most.
  [[nodiscard]] double position(double norm) const;
  [[nodiscard]] bool logarithmic() const noexcept { return logarithmic_; }
  [[nodiscard]] double least() const noexcept { return least_; }
  [[nodiscard]] double most() const noexcept { return most_; }

 private:
  double least_, most_;
  bool logarithmic_;
};

/// "0.0312", "4.71", "25100", "1.2e+07": three digits.
[[nodiscard]] std::string short_number(double value);

}  // namespace graphtap::cli
