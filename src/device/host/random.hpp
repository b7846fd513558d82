#pragma once
#include <cstdint>

namespace graphtap {

/// SplitMix64: the same sequence for a seed on every platform and library, which <random> does not
/// promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// A number in [0, bound); bound ≥ 1. The bias of the remainder is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  /// True with this probability.
  bool chance(double probability) noexcept {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace graphtap
