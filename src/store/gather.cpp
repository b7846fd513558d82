#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/near_match.hpp"
#include "graphtap/store_reader.hpp"
#include "store/query.hpp"
#include "store/store_core.hpp"
#include "store/walk.hpp"

namespace graphtap {
namespace {

using store::Piece;
using store::RunState;
using Why = MissingTokens::Why;

/// The one request that a gather means.
struct Target {
  const RunState* run = nullptr;
  std::uint64_t serial = 0;
  const store::RequestState* request = nullptr;
};

Result<Target> find_request(const StoreCore& core, const GatherQuery& query,
                            store::ResolvedQuery& resolved) {
  if (query.request.empty() && !query.serial) {
    return Status(Code::invalid_argument, "a gather needs a request: its id or its serial");
  }
  Query names;
  names.run = query.run;
  names.serial = query.serial;
  names.request = query.request;
  Result<store::ResolvedQuery> found = store::resolve(core, names);
  if (!found.ok()) return found.status();
  Target target;
  std::string all;
  std::size_t count = 0;
  for (const store::RunFilter& filter : found.value().runs) {
    for (std::uint64_t serial : filter.serials) {
      ++count;
      all += fmt::format("{}run {} serial {}", count > 1 ? ", " : "",
                         filter.run->header.info.number, serial);
      target = {filter.run, serial, &filter.run->requests.at(serial)};
    }
  }
  if (count > 1) {
    return Status(Code::invalid_argument,
                  fmt::format("{} requests match ({}); say which by run and serial", count, all));
  }
  resolved = std::move(found).value();
  std::erase_if(resolved.runs,
                [&](const store::RunFilter& filter) { return filter.run != target.run; });
  return target;
}

Result<const Hook*> find_hook(const RunState& run, const std::string& name) {
  std::vector<std::string_view> known;
  for (const Hook& hook : run.header.info.hooks) {
    if (hook.name == name) return &hook;
    known.push_back(hook.name);
  }
  return Status(Code::invalid_argument,
                fmt::format("run {} ({}) has no hook {}{}", run.header.info.number,
                            run.header.info.model, in_quotes(name), did_you_mean(name, known)));
}

/// What is known of each token while the steps are walked through.
class Gathering {
 public:
  Gathering(Gathered& out, const Hook& hook) : out_(out), hook_(hook), tokens_(count()) {}

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(out_.tokens.end - out_.tokens.begin);
  }

  Status take(const StoredRecord& record, const Piece& piece, bool readable) {
    if (piece.rejected) {
      out_.rejected += piece.rows;
      mark(piece, Why::rejected, {});
      return {};
    }
    if (!readable) {
      mark(piece, Why::damaged, {});
      return {};
    }
    if (Status s = fit(record); !s.ok()) return s;
    const std::size_t first = place(piece.first_token);
    std::memcpy(out_.data.data() + first * out_.row_bytes,
                record.data.data() + piece.row * record.row_bytes, piece.rows * record.row_bytes);
    for (std::size_t i = first; i < first + piece.rows; ++i) {
      if (tokens_[i].there) ++out_.duplicates;
      tokens_[i].there = true;
    }
    return {};
  }

  void mark(const Piece& piece, Why why, GapReason reason) {
    const std::size_t first = place(piece.first_token);
    for (std::size_t i = first; i < first + piece.rows; ++i) mark(tokens_[i], why, reason);
  }

  void mark_not_computed(const TokenRange& range) {
    const std::int64_t begin = std::max(range.begin, out_.tokens.begin);
    const std::int64_t end = std::min(range.end, out_.tokens.end);
    for (std::int64_t token = begin; token < end; ++token)
      mark(tokens_[place(token)], Why::not_computed, {});
  }

  void finish() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.there) continue;
      const auto at = out_.tokens.begin + static_cast<std::int64_t>(i);
      MissingTokens* last = out_.missing.empty() ? nullptr : &out_.missing.back();
      if (last && last->tokens.end == at && last->why == token.why &&
          last->reason == token.reason) {
        ++last->tokens.end;
      } else {
        out_.missing.push_back({{at, at + 1}, token.why, token.reason});
      }
    }
  }

 private:
  struct Token {
    bool there = false;
    Why why = Why::not_captured;
    GapReason reason = GapReason::not_fired;
  };
  [[nodiscard]] std::size_t place(std::int64_t token) const {
    return static_cast<std::size_t>(token - out_.tokens.begin);
  }
  /// What says most about a token wins: damage, then a lost record, then a draft, then a cache.
  static void mark(Token& token, Why why, GapReason reason) {
    const auto rank = [](Why w) {
      switch (w) {
        case Why::damaged:
          return 4;
        case Why::gap:
          return 3;
        case Why::rejected:
          return 2;
        case Why::not_computed:
          return 1;
        default:
          return 0;
      }
    };
    if (rank(why) < rank(token.why)) return;
    token.why = why;
    token.reason = why == Why::gap ? reason : GapReason::not_fired;
  }
  Status fit(const StoredRecord& record) {
    if (out_.row_bytes == 0) {
      if (count() > 0 && record.row_bytes > std::numeric_limits<std::uint64_t>::max() / count()) {
        return {Code::exhausted, "the range does not fit into memory"};
      }
      out_.row_bytes = record.row_bytes;
      out_.columns = record.columns;
      out_.data.resize(count() * record.row_bytes);
      return {};
    }
    if (out_.row_bytes == record.row_bytes) return {};
    return {Code::unsupported,
            fmt::format("rows of {} differ in width ({} and {} bytes): read them record by record",
                        hook_.name, out_.row_bytes, record.row_bytes)};
  }
  Gathered& out_;
  const Hook& hook_;
  std::vector<Token> tokens_;
};

Status gather_into(Gathered& out, FrameWalk& walk, const Target& target) {
  Gathering gathering(out, *out.hook);
  for (const TokenRange& range : target.request->not_computed) gathering.mark_not_computed(range);
  std::vector<Piece> pieces;
  while (walk.next_step()) {
    const StepView& step = walk.step();
    for (const StoredGap& gap : step.gaps) {
      if (!walk.wants(*gap.hook, gap.ordinal)) continue;
      pieces.clear();
      for (const StoredSlice& slice : gap.slices) walk.pieces(slice, pieces);
      for (const Piece& piece : pieces) gathering.mark(piece, Why::gap, gap.reason);
    }
    for (std::size_t i = 0; i < step.records.size(); ++i) {
      const StoredRecord& record = step.records[i];
      if (!walk.wants(*record.hook, record.ordinal)) continue;
      walk.pieces(record, pieces);
      for (const Piece& piece : pieces) {
        if (Status s = gathering.take(record, piece, walk.payload_ok(i)); !s.ok()) return s;
      }
    }
  }
  if (out.row_bytes == 0) {
    // Nothing is there: the rows it would have had, where that is known without a step.
    out.row_bytes = out.hook->row_bytes();
    if (gathering.count() > 0 && out.row_bytes > (std::uint64_t{1} << 62) / gathering.count()) {
      return {Code::exhausted, "the range does not fit into memory"};
    }
    out.data.resize(gathering.count() * out.row_bytes);
  }
  gathering.finish();
  return {};
}

}  // namespace

Result<Gathered> StoreReader::gather(const GatherQuery& query) const {
  store::ResolvedQuery resolved;
  const Result<Target> target = find_request(*core_, query, resolved);
  if (!target.ok()) return target.status();
  const RunState& run = *target.value().run;
  const Result<const Hook*> hook = find_hook(run, query.hook);
  if (!hook.ok()) return hook.status();

  Gathered out;
  out.run = &run.header.info;
  out.hook = hook.value();
  out.request = target.value().serial;
  out.tokens = {std::max<std::int64_t>(query.begin, 0), query.end};
  if (query.end < 0) {
    out.tokens.end = out.tokens.begin;
    for (const auto& part : run.parts) {
      part.segment->directory().ranges_of(out.request, [&](const store::RangeEntry& range) {
        out.tokens.end = std::max(out.tokens.end, range.end_token);
      });
    }
  }
  if (out.tokens.end < out.tokens.begin) {
    return Status(
        Code::invalid_argument,
        fmt::format("tokens [{}, {}): the end comes before the beginning", query.begin, query.end));
  }
  store::RunFilter& filter = resolved.runs.front();
  filter.hooks.assign(run.header.info.hooks.size(), false);
  filter.hooks[out.hook->id] = true;
  resolved.ordinal = query.ordinal;
  resolved.tokens = out.tokens;
  FrameWalk walk(*core_, std::move(resolved));
  try {
    if (Status s = gather_into(out, walk, target.value()); !s.ok()) return s;
  } catch (const std::bad_alloc&) {
    return Status(Code::exhausted, fmt::format("tokens [{}, {}) of {} do not fit into memory",
                                               out.tokens.begin, out.tokens.end, out.hook->name));
  } catch (const std::length_error&) {
    return Status(Code::exhausted, fmt::format("tokens [{}, {}) of {} do not fit into memory",
                                               out.tokens.begin, out.tokens.end, out.hook->name));
  }
  return out;
}

}  // namespace graphtap
