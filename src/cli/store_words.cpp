#include "cli/store_words.hpp"

#include <fmt/format.h>

#include "cli/values.hpp"

namespace graphtap::cli {

std::shared_ptr<StoreReader> open_store(const std::string& directory) {
  return StoreReader::open(directory).value_or_throw();
}

const RunSummary* choose_run(const StoreSummary& store, const std::optional<std::string>& number) {
  if (store.runs.empty()) {
    throw Error(Code::not_found, fmt::format("{} holds no run yet", store.path));
  }
  if (!number) return &store.runs.back();
  const std::uint64_t wanted = parse_count("--run", *number, 1, UINT32_MAX);
  std::vector<int> there;
  for (const RunSummary& run : store.runs) {
    if (run.run->number == wanted) return &run;
    there.push_back(static_cast<int>(run.run->number));
  }
  throw Error(Code::not_found, fmt::format("--run {}: {} has no such run; there are {}", wanted,
                                           store.path, ranges(there)));
}

void warn_of(Console& console, const std::vector<Finding>& findings) {
  std::size_t shown = 0;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::note) continue;
    if (shown++ == 10) {
      warn(console, fmt::format("{} findings in all; see graphtap verify", findings.size()));
      return;
    }
    warn(console, fmt::format("{} at byte {}: {}", finding.file, finding.offset, finding.what));
  }
}

std::string completeness(const RequestSummary& request) {
  if (!request.finished) return "unfinished";
  return request.valid ? "complete" : counted(request.gaps, "gap");
}

std::string tokens_text(const TokenRange& range) {
  if (range.end <= range.begin) return "-";
  if (range.end == range.begin + 1) return std::to_string(range.begin);
  return fmt::format("{}-{}", range.begin, range.end - 1);
}

std::string_view explain(GapReason reason) noexcept {
  switch (reason) {
    case GapReason::not_fired:
      return "planned, but its producer did not write: the node was off, or the graph lacks it";
    case GapReason::fired_twice:
      return "its producer ran more than once under one plan, so whose data it is, is unknown";
    case GapReason::wrong_head:
      return "what lay at its place was another record's";
    case GapReason::capture:
      return "the step was being captured into a graph: nothing ran";
    case GapReason::aborted:
      return "the step was planned and then given up";
    case GapReason::device_error:
      return "a device call for this step failed";
    case GapReason::device_lost:
      return "the device was lost with everything in flight";
    case GapReason::shutdown:
      return "the deadline of the shutdown passed";
    case GapReason::source_too_small:
      return "the tensor had fewer rows than the plan";
    case GapReason::mismatch:
      return "the engine ran something else than was planned";
    case GapReason::shed_ring:
      return "shed: no room in the payload ring (a larger --ring helps)";
    case GapReason::shed_timeout:
      return "shed: no room in the ring in time (the sinks are too slow, or --ring too small)";
    case GapReason::shed_too_large:
      return "shed: larger than the ring itself (a larger --ring is needed)";
    case GapReason::shed_headers:
      return "shed: every header slot was in flight";
  }
  return "unknown to this version";
}

}  // namespace graphtap::cli
