// Who owns the rows of a run, and what became of those that nobody can be given.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "graphtap/store_reader.hpp"
#include "store/query.hpp"
#include "store/store_core.hpp"
#include "store/walk.hpp"

namespace graphtap {
namespace {

using store::Piece;
using store::RunState;

struct RankOrder {
  bool operator()(const Ranks& a, const Ranks& b) const noexcept {
    return std::tie(a.tensor, a.pipeline, a.data, a.expert) <
           std::tie(b.tensor, b.pipeline, b.data, b.expert);
  }
};

class RunAccounting {
 public:
  explicit RunAccounting(const RunState& run) {
    account_.run = &run.header.info;
    for (const auto& [serial, state] : run.requests) {
      RequestAccount& request = requests_[serial];
      request.serial = serial;
      request.id = state.id;
      for (const TokenRange& range : state.not_computed)
        request.not_computed_tokens += static_cast<std::uint64_t>(range.end - range.begin);
    }
  }

  void take(FrameWalk& walk) {
    const StepView& step = walk.step();
    ranks_.insert(step.info.ranks);
    for (const StoredRecord& record : step.records) {
      walk.pieces(record, pieces_);
      std::uint64_t unattributed = 0;
      for (const Piece& piece : pieces_) {
        if (piece.request == 0) {
          unattributed += piece.rows;
        } else {
          take(requests_[piece.request], piece);
        }
      }
      account_.unattributed_rows += unattributed;
      if (unattributed > 0) ++account_.unattributed_records;
      if (record.data.size() < record.rows * record.row_bytes) ++account_.short_records;
    }
    for (const StoredGap& gap : step.gaps) {
      const auto reason = static_cast<std::size_t>(gap.reason);
      std::set<std::uint64_t> owners;
      for (const StoredSlice& slice : gap.slices) {
        if (slice.request != 0 && slice.rows > 0) owners.insert(slice.request);
      }
      if (owners.empty()) ++account_.gaps_of_no_request;
      for (std::uint64_t owner : owners) {
        if (reason < kGapReasons) ++requests_[owner].gaps[reason];
      }
    }
  }

  RunAccount finish() {
    account_.ranks.assign(ranks_.begin(), ranks_.end());
    for (auto& [serial, request] : requests_) account_.requests.push_back(std::move(request));
    return std::move(account_);
  }

 private:
  static void take(RequestAccount& request, const Piece& piece) {
    request.rows += piece.rows;
    if (has(piece.flags, RowFlags::recomputed)) request.recomputed_rows += piece.rows;
    if (has(piece.flags, RowFlags::speculative)) request.speculative_rows += piece.rows;
    if (piece.rejected) request.rejected_rows += piece.rows;
  }

  RunAccount account_;
  std::map<std::uint64_t, RequestAccount> requests_;
  std::set<Ranks, RankOrder> ranks_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<RunAccount> StoreReader::accounts() const {
  std::vector<RunAccount> accounts;
  for (const RunState* run : core_->runs()) {
    RunAccounting accounting(*run);
    Query query;
    query.run = run->header.info.number;
    Result<store::ResolvedQuery> resolved = store::resolve(*core_, query);
    if (resolved.ok()) {  // a run that is there has no name that could be wrong
      FrameWalk walk(*core_, std::move(resolved).value());
      while (walk.next_step()) accounting.take(walk);
    }
    accounts.push_back(accounting.finish());
  }
  return accounts;
}

}  // namespace graphtap
