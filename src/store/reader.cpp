#include "graphtap/store_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/near_match.hpp"
#include "store/lock.hpp"
#include "store/query.hpp"
#include "store/store_core.hpp"
#include "store/walk.hpp"

namespace graphtap {

using store::RequestState;
using store::RunState;

template <class View>
Cursor<View>::Cursor(std::unique_ptr<FrameWalk> walk) noexcept : walk_(std::move(walk)) {}
template <class View>
Cursor<View>::Cursor(Cursor&&) noexcept = default;
template <class View>
Cursor<View>& Cursor<View>::operator=(Cursor&&) noexcept = default;
template <class View>
Cursor<View>::~Cursor() = default;
template <class View>
bool Cursor<View>::next(View& out) {
  return walk_->next(out);
}
template class Cursor<RecordView>;
template class Cursor<GapView>;
template class Cursor<StepView>;

namespace {

template <class View>
Result<Cursor<View>> make_cursor(const StoreCore& core, const Query& query) {
  Result<store::ResolvedQuery> resolved = store::resolve(core, query);
  if (!resolved.ok()) return resolved.status();
  return Cursor<View>(std::make_unique<FrameWalk>(core, std::move(resolved).value()));
}

RequestSummary summarise(const RunState& run, std::uint64_t serial, const RequestState& state) {
  RequestSummary summary;
  summary.run = &run.header.info;
  summary.serial = serial;
  summary.id = state.id;
  summary.prompt_tokens = state.prompt_tokens;
  if (state.finished) {
    summary.finished = true;
    summary.valid = state.finished->valid != 0;
    summary.records = state.finished->records;
    summary.gaps = state.finished->gaps;
  }
  summary.not_computed = state.not_computed;
  for (const auto& rejection : state.rejections) summary.rejected.push_back(rejection.tokens);
  bool any = false;
  for (const auto& part : run.parts) {
    part.segment->directory().ranges_of(serial, [&](const store::RangeEntry& range) {
      summary.steps += range.frames;
      summary.tokens.begin =
          any ? std::min(summary.tokens.begin, range.first_token) : range.first_token;
      summary.tokens.end = any ? std::max(summary.tokens.end, range.end_token) : range.end_token;
      any = true;
    });
  }
  return summary;
}

RunSummary summarise(const RunState& run, bool writing, bool last) {
  RunSummary summary;
  summary.run = &run.header.info;
  summary.segments = run.parts.size();
  summary.requests = run.requests.size();
  const bool closed = !run.parts.empty() && run.parts.back().segment->closed();
  // A writer between two segments has just closed one: while it is there, its run is open.
  summary.state = writing && last ? RunSummary::State::open
                  : closed        ? RunSummary::State::closed
                                  : RunSummary::State::interrupted;
  bool any = false;
  for (const auto& part : run.parts) {
    const store::SegmentDirectory& directory = part.segment->directory();
    for (std::size_t i = 0; i < directory.frames(); ++i) {
      const store::FrameEntry entry = directory.frame(i);
      if (static_cast<store::FrameKind>(entry.kind) != store::FrameKind::step) continue;
      ++summary.steps;
      summary.records += entry.records;
      summary.payload_bytes += entry.payload_bytes;
      summary.first_end_unix_ns =
          any ? std::min(summary.first_end_unix_ns, entry.end_unix_ns) : entry.end_unix_ns;
      summary.last_end_unix_ns =
          any ? std::max(summary.last_end_unix_ns, entry.end_unix_ns) : entry.end_unix_ns;
      any = true;
    }
    directory.gap_totals([&](const store::GapTotalEntry& total) {
      (is_shed(static_cast<GapReason>(total.reason)) ? summary.shed : summary.missing) +=
          total.count;
    });
  }
  return summary;
}

}  // namespace

StoreReader::StoreReader(std::unique_ptr<StoreCore> core) noexcept : core_(std::move(core)) {}
StoreReader::~StoreReader() = default;

Result<std::shared_ptr<StoreReader>> StoreReader::open(const std::filesystem::path& directory,
                                                       ReadOptions options) {
  auto core = std::make_unique<StoreCore>(store::Layout{directory}, options);
  if (Status s = core->load(); !s.ok()) return s;
  return std::shared_ptr<StoreReader>(new StoreReader(std::move(core)));
}

Status StoreReader::refresh() { return core_->load(); }

std::vector<const RunInfo*> StoreReader::runs() const {
  std::vector<const RunInfo*> infos;
  for (const RunState* run : core_->runs()) infos.push_back(&run->header.info);
  return infos;
}

StoreSummary StoreReader::summary() const {
  StoreSummary summary;
  summary.path = core_->layout().directory.string();
  summary.writer = store::WriterLock::holder(core_->layout()).value_or("");
  const bool writing = !summary.writer.empty();
  for (const auto& segment : core_->segments().all()) {
    ++summary.segments;
    summary.file_bytes += segment->file_bytes();
  }
  const std::vector<const RunState*> runs = core_->runs();
  for (const RunState* run : runs)
    summary.runs.push_back(summarise(*run, writing, run == runs.back()));
  summary.findings = core_->findings(writing);
  return summary;
}

std::vector<RequestSummary> StoreReader::requests(const RequestFilter& filter) const {
  std::vector<RequestSummary> found;
  for (const RunState* run : core_->runs()) {
    if (filter.run && *filter.run != run->header.info.number) continue;
    for (const auto& [serial, state] : run->requests) {
      if (filter.serial && *filter.serial != serial) continue;
      if (!filter.id.empty() && filter.id != state.id) continue;
      found.push_back(summarise(*run, serial, state));
    }
  }
  return found;
}

Result<std::vector<HookTotals>> StoreReader::totals(std::uint32_t number) const {
  const RunState* run = core_->run(number);
  if (!run) return Status(Code::not_found, fmt::format("no run {} in the store", number));
  const std::vector<Hook>& hooks = run->header.info.hooks;
  std::vector<HookTotals> totals(hooks.size());
  for (const Hook& hook : hooks) totals[hook.id].hook = &hook;
  for (const auto& part : run->parts) {
    part.segment->directory().hook_totals([&](const store::HookTotalEntry& entry) {
      if (entry.hook >= totals.size()) return;
      HookTotals& total = totals[entry.hook];
      total.records += entry.records;
      total.rows += entry.rows;
      total.tokens += entry.tokens;
      total.bytes += entry.bytes;
    });
    part.segment->directory().gap_totals([&](const store::GapTotalEntry& entry) {
      if (entry.hook >= totals.size() || entry.reason >= kGapReasons) return;
      totals[entry.hook].gaps[entry.reason] += entry.count;
    });
  }
  return totals;
}

Result<RecordCursor> StoreReader::read(const Query& query) const {
  return make_cursor<RecordView>(*core_, query);
}
Result<GapCursor> StoreReader::gaps(const Query& query) const {
  return make_cursor<GapView>(*core_, query);
}
Result<StepCursor> StoreReader::steps(const Query& query) const {
  return make_cursor<StepView>(*core_, query);
}

std::vector<Finding> StoreReader::findings() const {
  return core_->findings(store::WriterLock::holder(core_->layout()).has_value());
}

}  // namespace graphtap
