#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <optional>

#include "base/near_match.hpp"
#include "graphtap/store_reader.hpp"
#include "store/gathering.hpp"
#include "store/query.hpp"
#include "store/store_core.hpp"
#include "store/walk.hpp"

namespace graphtap {
namespace {

using store::Gathering;
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

/// What one tensor-parallel rank has of the request.
struct Part {
  Gathered out;
  std::optional<Gathering> gathering;
};

class Parts {
 public:
  Parts(const Gathered& blank, const store::RequestState& request)
      : blank_(blank), request_(request) {}

  Gathering& of(std::int32_t rank) {
    const auto [part, fresh] = parts_.try_emplace(rank);
    if (fresh) {
      part->second.out = blank_;
      part->second.out.tensor_ranks = {rank};
      Gathering& gathering = part->second.gathering.emplace(part->second.out, *blank_.hook);
      for (const TokenRange& range : request_.not_computed) gathering.mark_not_computed(range);
    }
    return *part->second.gathering;
  }

  Result<Gathered> finish() {
    if (parts_.empty()) of(blank_.run->ranks.tensor);
    std::vector<Gathered> shards;
    for (auto& [rank, part] : parts_) {
      if (Status s = part.gathering->finish(); !s.ok()) return s;
      shards.push_back(std::move(part.out));
    }
    if (shards.size() == 1) return std::move(shards.front());
    return merge_shards(std::move(shards));
  }

 private:
  const Gathered& blank_;
  const store::RequestState& request_;
  std::map<std::int32_t, Part> parts_;  // by rank; addresses stay
};

Result<Gathered> gather_all(const Gathered& blank, FrameWalk& walk, const Target& target) {
  Parts parts(blank, *target.request);
  std::vector<Piece> pieces;
  while (walk.next_step()) {
    const StepView& step = walk.step();
    const std::int32_t rank = step.info.ranks.tensor;
    for (const StoredGap& gap : step.gaps) {
      if (!walk.wants(*gap.hook, gap.ordinal)) continue;
      pieces.clear();
      for (const StoredSlice& slice : gap.slices) walk.pieces(slice, pieces);
      for (const Piece& piece : pieces) parts.of(rank).mark(piece, Why::gap, gap.reason);
    }
    for (std::size_t i = 0; i < step.records.size(); ++i) {
      const StoredRecord& record = step.records[i];
      if (!walk.wants(*record.hook, record.ordinal)) continue;
      walk.pieces(record, pieces);
      for (const Piece& piece : pieces) {
        if (Status s = parts.of(rank).take(record, piece, walk.payload_ok(i)); !s.ok()) return s;
      }
    }
  }
  return parts.finish();
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
  if (run.header.table) {
    const HookType* type = run.header.table->catalogue().find(out.hook->type);
    out.sharded = type && type->sharded;
  }
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
  resolved.ranks = query.ranks;
  FrameWalk walk(*core_, std::move(resolved));
  try {
    return gather_all(out, walk, target.value());
  } catch (const std::bad_alloc&) {
    return Status(Code::exhausted, fmt::format("tokens [{}, {}) of {} do not fit into memory",
                                               out.tokens.begin, out.tokens.end, out.hook->name));
  } catch (const std::length_error&) {
    return Status(Code::exhausted, fmt::format("tokens [{}, {}) of {} do not fit into memory",
                                               out.tokens.begin, out.tokens.end, out.hook->name));
  }
}

}  // namespace graphtap
