#include "store/export/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "store/checksum.hpp"
#include "store/coverage.hpp"
#include "store/export/names.hpp"
#include "store/walk.hpp"

namespace graphtap::store {
namespace {

using Why = MissingTokens::Why;

struct Key {
  std::uint32_t run;
  std::uint64_t serial;
  HookId hook;
  std::uint16_t ordinal;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Seen {
  const RunState* run = nullptr;
  const Hook* hook = nullptr;
  std::optional<std::uint64_t> row_bytes;
  std::optional<std::int32_t> tensor_rank;
  std::int64_t columns = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t rejected = 0;
  Coverage coverage;
};

class Planner {
 public:
  explicit Planner(FrameWalk& walk) : walk_(walk) {}

  Status look() {
    while (walk_.next_step()) {
      const StepView& step = walk_.step();
      add_to_digest({step.info.ticket, step.info.part, step.run->number});
      for (const StoredGap& gap : step.gaps) take(gap);
      for (std::size_t i = 0; i < step.records.size(); ++i) {
        if (Status s = take(i); !s.ok()) return s;
      }
    }
    return {};
  }

  Result<ExportPlan> finish() {
    std::map<std::string, std::size_t> requests;  // how many have the id
    std::optional<std::pair<std::uint32_t, std::uint64_t>> last;
    for (const auto& [key, seen] : seen_) {
      if (last != std::pair(key.run, key.serial)) ++requests[id_of(key, seen)];
      last = {key.run, key.serial};
    }
    for (auto& [key, seen] : seen_) {
      PlannedTensor tensor;
      tensor.run = seen.run;
      tensor.serial = key.serial;
      tensor.hook = seen.hook;
      tensor.ordinal = key.ordinal;
      tensor.tokens = seen.coverage.tokens();
      tensor.row_bytes = seen.row_bytes.value_or(seen.hook->row_bytes());
      tensor.columns = seen.columns;
      tensor.duplicates = seen.duplicates;
      tensor.rejected = seen.rejected;
      const std::uint64_t most = static_cast<std::uint64_t>(INT64_MAX);
      if (tensor.row_bytes > 0 && tensor.rows() > most / tensor.row_bytes) {
        return Status(Code::exhausted,
                      fmt::format("tokens [{}, {}) of {} take more than 2^63 bytes",
                                  tensor.tokens.begin, tensor.tokens.end, seen.hook->name));
      }
      for (const TokenRange& range : seen.run->requests.at(key.serial).not_computed) {
        seen.coverage.mark(
            {std::max(range.begin, tensor.tokens.begin), std::min(range.end, tensor.tokens.end)},
            Why::not_computed);
      }
      tensor.missing = seen.coverage.missing(tensor.tokens);
      const std::string& id = id_of(key, seen);
      tensor.name = tensor_name(request_part(id, requests[id] == 1, key.run, key.serial),
                                seen.hook->name, key.ordinal);
      plan_.tensors.push_back(std::move(tensor));
    }
    plan_.digest = digest_.value();
    return std::move(plan_);
  }

 private:
  static const std::string& id_of(const Key& key, const Seen& seen) {
    return seen.run->requests.at(key.serial).id;
  }

  void add_to_digest(std::initializer_list<std::uint64_t> numbers) {
    digest_.add(std::as_bytes(std::span(numbers.begin(), numbers.size())));
  }

  Seen& seen(const Piece& piece, const Hook& hook, std::uint16_t ordinal) {
    Seen& seen = seen_[{walk_.run().header.info.number, piece.request, hook.id, ordinal}];
    seen.run = &walk_.run();
    seen.hook = &hook;
    add_to_digest({hook.id, ordinal, piece.request, static_cast<std::uint64_t>(piece.first_token),
                   piece.row, piece.rows, piece.rejected ? 1u : 0u});
    return seen;
  }

  void take(const StoredGap& gap) {
    if (!walk_.wants(*gap.hook, gap.ordinal)) return;
    pieces_.clear();
    for (const StoredSlice& slice : gap.slices) walk_.pieces(slice, pieces_);
    for (const Piece& piece : pieces_) {
      if (piece.request == 0 || !walk_.run().requests.contains(piece.request)) continue;
      seen(piece, *gap.hook, gap.ordinal).coverage.mark(tokens_of(piece), Why::gap, gap.reason);
    }
  }

  Status take(std::size_t index) {
    const StoredRecord& record = walk_.step().records[index];
    if (!walk_.wants(*record.hook, record.ordinal)) return {};
    walk_.pieces(record, pieces_);
    for (const Piece& piece : pieces_) {
      if (piece.request == 0 || !walk_.run().requests.contains(piece.request)) {
        plan_.unattributed_rows += piece.rows;
        continue;
      }
      Seen& tensor = seen(piece, *record.hook, record.ordinal);
      if (piece.rejected) {
        tensor.rejected += piece.rows;
        tensor.coverage.mark(tokens_of(piece), Why::rejected);
        continue;
      }
      if (!walk_.payload_ok(index)) {
        tensor.coverage.mark(tokens_of(piece), Why::damaged);
        continue;
      }
      if (tensor.row_bytes.value_or(record.row_bytes) != record.row_bytes) {
        return {Code::unsupported,
                fmt::format("rows of {} (run {}, request serial {}) differ in width ({} and {} "
                            "bytes), so they make no tensor: leave the hook out (--hooks "
                            "full,-{}), or narrow the tokens down",
                            record.hook->name, walk_.run().header.info.number, piece.request,
                            *tensor.row_bytes, record.row_bytes, record.hook->type)};
      }
      const std::int32_t rank = walk_.step().info.ranks.tensor;
      if (tensor.tensor_rank.value_or(rank) != rank) {
        return {
            Code::unsupported,
            fmt::format("rows of {} (run {}, request serial {}) come from tensor-parallel ranks "
                        "{} and {}: export each rank by itself (--ranks tensor=N)",
                        record.hook->name, walk_.run().header.info.number, piece.request,
                        *tensor.tensor_rank, rank)};
      }
      tensor.tensor_rank = rank;
      tensor.row_bytes = record.row_bytes;
      tensor.columns = record.columns;
      tensor.duplicates += tensor.coverage.add(tokens_of(piece));
    }
    return {};
  }

  FrameWalk& walk_;
  std::map<Key, Seen> seen_;
  std::vector<Piece> pieces_;
  RunningChecksum digest_;
  ExportPlan plan_;
};

}  // namespace

std::vector<std::int64_t> PlannedTensor::shape() const {
  std::vector<std::int64_t> shape{tokens.end - tokens.begin};
  for (const std::int64_t dimension : hook->row_shape) {
    shape.push_back(dimension == kPerStepColumns ? columns : dimension);
  }
  return shape;
}

Result<ExportPlan> plan_export(const StoreCore& core, const Query& query) {
  Query asked = query;
  asked.begin = std::max<std::int64_t>(asked.begin, 0);
  Result<ResolvedQuery> resolved = resolve(core, asked);
  if (!resolved.ok()) return resolved.status();
  FrameWalk walk(core, std::move(resolved).value());
  Planner planner(walk);
  if (Status s = planner.look(); !s.ok()) return s;
  Result<ExportPlan> plan = planner.finish();
  if (plan.ok()) {
    for (PlannedTensor& tensor : plan.value().tensors) tensor.ranks = query.ranks;
  }
  return plan;
}

}  // namespace graphtap::store
