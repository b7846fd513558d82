#pragma once
#include <cstddef>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/walk.hpp"

namespace graphtap::store {

/// Fills a Gathered with the rows of one rank and knows of each token why it is not there.
class Gathering {
 public:
  using Why = MissingTokens::Why;
  /// `out` and `hook` must outlive it; out.tokens says which.
  Gathering(Gathered& out, const Hook& hook) : out_(out), hook_(hook), tokens_(count()) {}

  /// Rows of a record. Errors: exhausted, unsupported (rows that differ in width).
  Status take(const StoredRecord& record, const Piece& piece, bool readable);
  /// That rows are not there.
  void mark(const Piece& piece, Why why, GapReason reason);
  void mark_not_computed(const TokenRange& range);
  /// Fills out.missing, and the rows if none came. Errors: exhausted.
  Status finish();

 private:
  struct Token {
    bool there = false;
    Why why = Why::not_captured;
    GapReason reason = GapReason::not_fired;
  };
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(out_.tokens.end - out_.tokens.begin);
  }
  [[nodiscard]] std::size_t place(std::int64_t token) const {
    return static_cast<std::size_t>(token - out_.tokens.begin);
  }
  static void mark(Token& token, Why why, GapReason reason);
  Status fit(const StoredRecord& record);

  Gathered& out_;
  const Hook& hook_;
  std::vector<Token> tokens_;
};

}  // namespace graphtap::store
