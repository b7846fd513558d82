// Parts of one tensor that several tensor-parallel ranks captured, made one again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graphtap/catalogue.hpp"
#include "graphtap/store_reader.hpp"
#include "store/coverage.hpp"

namespace graphtap {
namespace {

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

/// Of each token of the joined range the gap in one shard that keeps it from being there.
class Presence {
 public:
  Presence(const Gathered& shard, const TokenRange& all) : shard_(shard) {
    const auto place = [&](std::int64_t token) {
      return static_cast<std::size_t>(token - all.begin);
    };
    reasons_.assign(place(all.end), &outside_);
    std::fill(reasons_.begin() + shard.tokens.begin - all.begin,
              reasons_.begin() + shard.tokens.end - all.begin, nullptr);
    for (const MissingTokens& missing : shard.missing) {
      for (std::int64_t token = missing.tokens.begin; token < missing.tokens.end; ++token)
        reasons_[place(token)] = &missing;
    }
  }
  /// Null: its row is there.
  [[nodiscard]] const MissingTokens* at(std::size_t place) const { return reasons_[place]; }
  [[nodiscard]] const std::byte* row(std::int64_t token) const {
    return shard_.data.data() +
           static_cast<std::uint64_t>(token - shard_.tokens.begin) * shard_.row_bytes;
  }

 private:
  const MissingTokens outside_{};  // the shard has nothing of these tokens
  const Gathered& shard_;
  std::vector<const MissingTokens*> reasons_;
};

Status check(const std::vector<Gathered>& shards) {
  const Gathered& first = shards.front();
  const Hook& hook = *first.hook;
  for (const Gathered& shard : shards) {
    if (shard.hook->name != hook.name || shard.hook->dtype != hook.dtype ||
        shard.hook->row_shape.size() != hook.row_shape.size()) {
      return wrong(fmt::format("shards of different hooks: {} ({}) and {} ({})", hook.name,
                               to_string(hook.dtype), shard.hook->name,
                               to_string(shard.hook->dtype)));
    }
    if (shard.tensor_ranks.size() != 1) return wrong("a shard was joined already");
  }
  for (std::size_t i = 1; i < shards.size(); ++i) {
    if (shards[i].tensor_ranks == shards[i - 1].tensor_ranks)
      return wrong(fmt::format("tensor rank {} is there twice", shards[i].tensor_ranks.front()));
  }
  return {};
}

/// Every rank of the group must be there: a row without one of its parts is none.
Status check_complete(const std::vector<Gathered>& shards) {
  std::int32_t world = shards.back().tensor_ranks.front() + 1;
  for (const Gathered& shard : shards) world = std::max(world, shard.run->world.tensor);
  for (std::int32_t rank = 0; rank < world; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (place < shards.size() && shards[place].tensor_ranks.front() == rank) continue;
    return {Code::not_found,
            fmt::format("{} is split over {} tensor-parallel ranks, and rank {} is not among the "
                        "{} given; ask for one rank to read its part alone",
                        shards.front().hook->name, world, rank, shards.size())};
  }
  return {};
}

Status join(std::vector<Gathered>& shards, Gathered& out) {
  if (Status s = check_complete(shards); !s.ok()) return s;
  out.row_bytes = 0;
  out.joined_dim = 0;
  for (const Gathered& shard : shards) {
    if (shard.hook->row_shape.empty() || shard.hook->row_shape.front() == kPerStepColumns) {
      return {Code::unsupported,
              fmt::format("{} has no fixed first dimension that parts could be joined along",
                          shard.hook->name)};
    }
    out.row_bytes += shard.row_bytes;
    out.joined_dim += shard.hook->row_shape.front();
    if (shard.columns != shards.front().columns && shard.columns != 0 &&
        shards.front().columns != 0) {
      return {Code::unsupported,
              fmt::format("parts of {} differ in their per-step dimension ({} and {})",
                          shard.hook->name, shards.front().columns, shard.columns)};
    }
    out.columns = std::max(out.columns, shard.columns);
  }
  return {};
}

}  // namespace

Result<Gathered> merge_shards(std::vector<Gathered> shards) {
  if (shards.empty()) return wrong("there are no shards to join");
#ifdef GRAPHTAP_BUG_store_shards_out_of_order
  std::reverse(shards.begin(), shards.end());
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].tensor_ranks = {static_cast<std::int32_t>(i)};
#else
  std::sort(shards.begin(), shards.end(),
            [](const Gathered& a, const Gathered& b) { return a.tensor_ranks < b.tensor_ranks; });
#endif
  if (Status s = check(shards); !s.ok()) return s;
  Gathered out;
  out.run = shards.front().run;
  out.hook = shards.front().hook;
  out.request = shards.front().request;
  out.sharded = shards.front().sharded;
  out.tokens = shards.front().tokens;
  for (const Gathered& shard : shards) {
    out.tokens.begin = std::min(out.tokens.begin, shard.tokens.begin);
    out.tokens.end = std::max(out.tokens.end, shard.tokens.end);
    out.duplicates += shard.duplicates;
    out.rejected += shard.rejected;
    out.tensor_ranks.push_back(shard.tensor_ranks.front());
  }
  if (out.sharded) {
    if (Status s = join(shards, out); !s.ok()) return s;
  } else {
    for (const Gathered& shard : shards) {
      if (shard.row_bytes != shards.front().row_bytes)
        return wrong(fmt::format("rows of {} differ in width", out.hook->name));
    }
    out.row_bytes = shards.front().row_bytes;
    out.columns = shards.front().columns;
  }
  const auto tokens = static_cast<std::uint64_t>(out.tokens.end - out.tokens.begin);
  if (tokens > 0 && out.row_bytes > std::numeric_limits<std::uint64_t>::max() / tokens)
    return Status(Code::exhausted, "the range does not fit into memory");
  out.data.resize(tokens * out.row_bytes);
  std::vector<Presence> there;
  there.reserve(shards.size());
  for (const Gathered& shard : shards) there.emplace_back(shard, out.tokens);

  std::byte* row = out.data.data();
  for (std::uint64_t i = 0; i < tokens; ++i, row += out.row_bytes) {
    const std::int64_t token = out.tokens.begin + static_cast<std::int64_t>(i);
    const MissingTokens* missing = nullptr;
    std::uint64_t found = 0;
    for (const Presence& shard : there) {
      const MissingTokens* reason = shard.at(i);
      if (reason && !missing) missing = reason;
      found += reason ? 0 : 1;
    }
    if (out.sharded ? missing != nullptr : found == 0) {
      store::add_missing(out.missing, {{token, token + 1}, missing->why, missing->reason});
      continue;
    }
    std::uint64_t at = 0;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      if (there[s].at(i)) continue;
      std::memcpy(row + at, there[s].row(token), shards[s].row_bytes);
      if (!out.sharded) break;  // each rank has the whole row
      at += shards[s].row_bytes;
    }
    if (!out.sharded) out.duplicates += found - 1;
  }
  return out;
}

}  // namespace graphtap
