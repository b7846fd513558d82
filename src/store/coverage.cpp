#include "store/coverage.hpp"

#include <algorithm>
#include <iterator>

namespace graphtap::store {
namespace {

using Why = MissingTokens::Why;

/// What says most about a token wins: damage, then a lost record, then a draft, then a cache.
int weight(Why why) noexcept {
  switch (why) {
    case Why::damaged:
      return 4;
    case Why::gap:
      return 3;
    case Why::rejected:
      return 2;
    case Why::not_computed:
      return 1;
    case Why::not_captured:
      break;
  }
  return 0;
}

}  // namespace

void add_missing(std::vector<MissingTokens>& list, const MissingTokens& next) {
  MissingTokens* last = list.empty() ? nullptr : &list.back();
  if (last && last->tokens.end == next.tokens.begin && last->why == next.why &&
      last->reason == next.reason) {
    last->tokens.end = next.tokens.end;
  } else {
    list.push_back(next);
  }
}

/// Cuts the runs at both ends of `tokens`, fills what is between them, and changes each piece.
template <class Change>
void Coverage::apply(TokenRange tokens, Change change) {
  if (tokens.begin >= tokens.end) return;
  auto first =
      std::lower_bound(runs_.begin(), runs_.end(), tokens.begin,
                       [](const Run& run, std::int64_t token) { return run.tokens.end < token; });
  std::vector<Run> fresh;
  const auto push = [&fresh](Run run) {
    if (run.tokens.begin >= run.tokens.end) return;
    if (!fresh.empty() && fresh.back().tokens.end == run.tokens.begin &&
        fresh.back().same_state(run)) {
      fresh.back().tokens.end = run.tokens.end;
    } else {
      fresh.push_back(run);
    }
  };
  const auto part = [](Run run, std::int64_t begin, std::int64_t end) {
    run.tokens = {std::max(run.tokens.begin, begin), std::min(run.tokens.end, end)};
    return run;
  };
  const auto push_changed = [&](Run run) {
    if (run.tokens.begin >= run.tokens.end) return;
    change(run);
    push(run);
  };
  std::int64_t at = tokens.begin;
  auto last = first;
  // A run that only touches the range is taken in too, so that neighbours alike become one.
  for (; last != runs_.end() && last->tokens.begin <= tokens.end; ++last) {
    push(part(*last, last->tokens.begin, tokens.begin));
    push_changed({{at, std::min(std::max(at, last->tokens.begin), tokens.end)}});
    push_changed(part(*last, tokens.begin, tokens.end));
    at = std::max(at, std::min(last->tokens.end, tokens.end));
    if (last->tokens.end > tokens.end) {
      push_changed({{at, tokens.end}});
      at = tokens.end;
      push(part(*last, tokens.end, last->tokens.end));
    }
  }
  if (at < tokens.end) push_changed({{at, tokens.end}});
  const auto place = first - runs_.begin();
  runs_.erase(first, last);
  runs_.insert(runs_.begin() + place, fresh.begin(), fresh.end());
}

std::uint64_t Coverage::add(TokenRange tokens) {
  std::uint64_t before = 0;
  apply(tokens, [&](Run& run) {
    if (run.there) before += static_cast<std::uint64_t>(run.tokens.end - run.tokens.begin);
    run.there = true;
  });
  return before;
}

void Coverage::mark(TokenRange tokens, Why why, GapReason reason) {
  apply(tokens, [&](Run& run) {
#ifdef GRAPHTAP_BUG_coverage_last_reason_wins
    run.why = why;
#endif
    if (weight(why) < weight(run.why)) return;
    run.why = why;
    run.reason = why == Why::gap ? reason : GapReason::not_fired;
  });
}

TokenRange Coverage::tokens() const {
  if (runs_.empty()) return {};
  return {runs_.front().tokens.begin, runs_.back().tokens.end};
}

std::uint64_t Coverage::present() const {
  std::uint64_t rows = 0;
  for (const Run& run : runs_) {
    if (run.there) rows += static_cast<std::uint64_t>(run.tokens.end - run.tokens.begin);
  }
  return rows;
}

std::vector<MissingTokens> Coverage::missing(TokenRange all) const {
  std::vector<MissingTokens> missing;
  std::int64_t at = all.begin;
  for (const Run& run : runs_) {
    if (run.tokens.begin > at) add_missing(missing, {{at, run.tokens.begin}});
    if (!run.there) add_missing(missing, {run.tokens, run.why, run.reason});
    at = run.tokens.end;
  }
  if (all.end > at) add_missing(missing, {{at, all.end}});
  return missing;
}

}  // namespace graphtap::store
