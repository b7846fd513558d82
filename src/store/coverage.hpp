#pragma once
#include <cstdint>
#include <vector>

#include "graphtap/store_reader.hpp"

namespace graphtap::store {

/// Adds to a rising list; what goes on with the last of it makes that longer.
void add_missing(std::vector<MissingTokens>& list, const MissingTokens& next);

/// What is known of the tokens of one request in one hook, told range by range: memory for ranges,
/// not for tokens. One thread.
class Coverage {
 public:
  /// Rows of these tokens are there. Returns how many of them were there before.
  std::uint64_t add(TokenRange tokens);
  /// These tokens have no row; what says most about a token wins.
  void mark(TokenRange tokens, MissingTokens::Why why, GapReason reason = GapReason::not_fired);

  /// The smallest range around everything that was told.
  [[nodiscard]] TokenRange tokens() const;
  [[nodiscard]] std::uint64_t present() const;
  /// Tokens of `all` without a row: rising, disjoint. `all` holds everything that was told.
  [[nodiscard]] std::vector<MissingTokens> missing(TokenRange all) const;

 private:
  struct Run {
    TokenRange tokens;
    bool there = false;
    MissingTokens::Why why = MissingTokens::Why::not_captured;
    GapReason reason = GapReason::not_fired;

    [[nodiscard]] bool same_state(const Run& other) const {
      return there == other.there && (there || (why == other.why && reason == other.reason));
    }
  };
  template <class Change>
  void apply(TokenRange tokens, Change change);
  std::vector<Run> runs_;  // rising, disjoint, no two neighbours alike
};

}  // namespace graphtap::store
