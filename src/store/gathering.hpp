#pragma once
#include <cstddef>

#include "graphtap/store_reader.hpp"
#include "store/coverage.hpp"
#include "store/walk.hpp"

namespace graphtap::store {

/// Fills a Gathered with the rows of one rank and knows of each token why it is not there.
class Gathering {
 public:
  using Why = MissingTokens::Why;
  /// `out` and `hook` must outlive it; out.tokens says which.
  Gathering(Gathered& out, const Hook& hook) : out_(out), hook_(hook) {}

  /// Rows of a record. Errors: exhausted, unsupported (rows that differ in width).
  Status take(const StoredRecord& record, const Piece& piece, bool readable);
  /// That rows are not there.
  void mark(const Piece& piece, Why why, GapReason reason);
  void mark_not_computed(const TokenRange& range);
  /// Fills out.missing, and the rows if none came. Errors: exhausted.
  Status finish();

 private:
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(out_.tokens.end - out_.tokens.begin);
  }
  Status fit(const StoredRecord& record);

  Gathered& out_;
  const Hook& hook_;
  Coverage coverage_;
};

}  // namespace graphtap::store
