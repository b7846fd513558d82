#include "graphtap/store_verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "store/checksum.hpp"
#include "store/index.hpp"
#include "store/lock.hpp"
#include "store/step_decoder.hpp"
#include "store/store_core.hpp"
#include "store/verify_footer.hpp"

namespace graphtap {
namespace {

using store::FrameEntry;
using store::FrameKind;
using store::RunState;
using store::Segment;

class Verifier {
 public:
  Verifier(bool deep, VerifyReport& report) : deep_(deep), report_(report) {}

  void run(const RunState& run);

 private:
  void note(const Segment& segment, Severity severity, std::uint64_t offset, std::string what) {
    report_.findings.push_back({severity, segment.name(), offset, std::move(what)});
  }
  void step(const Segment& segment, const FrameEntry& entry);
  void order(const Segment& segment, const FrameEntry& entry);
  void record(const Segment& segment, const FrameEntry& entry, std::size_t index);
  void slices(const Segment& segment, const FrameEntry& entry, const StoredRecord& record);
  void count(std::span<const StoredSlice> slices, std::uint64_t records, std::uint64_t gaps);
  void requests(const RunState& run);

  const bool deep_;
  VerifyReport& report_;
  store::StepDecoder decoder_;

  // Of the run being looked at.
  struct Seen {
    std::uint64_t records = 0, gaps = 0;
    bool begun = false;
    std::optional<store::Position> last;      // of a record or gap
    std::optional<store::Position> finished;  // of the completion
  };
  std::map<std::uint32_t, FrameEntry> last_of_lane_;
  std::map<std::uint64_t, Seen> seen_;
  store::Position position_;
};

void Verifier::run(const RunState& run) {
  last_of_lane_.clear();
  seen_.clear();
  ++report_.runs;
  std::string why;
  for (const auto& part : run.parts) {
    const Segment& segment = *part.segment;
    const store::SegmentDirectory& directory = segment.directory();
    for (std::size_t i = 0; i < directory.events(); ++i) {
      const store::EventEntry event = directory.event(i);
      Seen& seen = seen_[event.request];
      switch (static_cast<RequestEvent::Kind>(event.kind)) {
        case RequestEvent::Kind::begun:
          seen.begun = true;
          break;
        case RequestEvent::Kind::finished:
          seen.finished = store::Position{segment.number(), event.frame};
          break;
        default:
          break;
      }
      if (event.begin > event.end) {
        note(segment, Severity::error, 0,
             fmt::format("an event of request {} has tokens [{}, {})", event.request, event.begin,
                         event.end));
      }
    }
    report_.events += directory.events();
    for (std::size_t i = 0; i < directory.frames(); ++i) {
      const FrameEntry entry = directory.frame(i);
      ++report_.frames;
      if (static_cast<FrameKind>(entry.kind) != FrameKind::step) continue;
      position_ = {segment.number(), static_cast<std::uint32_t>(i)};
      if (!decoder_.decode(run.header.info, segment, entry, why)) {
        note(segment, Severity::error, entry.offset, why);
        continue;
      }
      step(segment, entry);
    }
  }
  requests(run);
}

void Verifier::step(const Segment& segment, const FrameEntry& entry) {
  const StepView& view = decoder_.step();
  ++report_.steps;
  report_.records += view.records.size();
  report_.gaps += view.gaps.size();
  order(segment, entry);
  std::set<std::pair<HookId, std::uint16_t>> keys;
  const auto once = [&](const Hook& hook, std::uint16_t ordinal) {
    if (keys.emplace(hook.id, ordinal).second) return;
    note(segment, Severity::error, entry.offset,
         fmt::format("{}, ordinal {}, is in the step (ticket {}) twice", hook.name, ordinal,
                     view.info.ticket));
  };
  for (std::size_t i = 0; i < view.records.size(); ++i) {
    once(*view.records[i].hook, view.records[i].ordinal);
    record(segment, entry, i);
    count(view.records[i].slices, 1, 0);
  }
  for (const StoredGap& gap : view.gaps) {
    once(*gap.hook, gap.ordinal);
    count(gap.slices, 0, 1);
  }
}

void Verifier::order(const Segment& segment, const FrameEntry& entry) {
  const auto [last, first] = last_of_lane_.try_emplace(entry.lane, entry);
  if (first) return;
  const FrameEntry before = std::exchange(last->second, entry);
  const bool next_part = entry.ticket == before.ticket && entry.part > before.part;
  if (!next_part && entry.ticket <= before.ticket) {
    note(segment, Severity::error, entry.offset,
         fmt::format("lane {}: ticket {} comes after ticket {}", entry.lane, entry.ticket,
                     before.ticket));
  }
  if (!next_part && entry.step <= before.step) {
    note(segment, Severity::error, entry.offset,
         fmt::format("lane {}: step {} comes after step {}", entry.lane, entry.step, before.step));
  }
}

void Verifier::record(const Segment& segment, const FrameEntry& entry, std::size_t index) {
  const StoredRecord& record = decoder_.step().records[index];
  report_.payload_bytes += record.data.size();
  const auto complain = [&](std::string what) {
    note(segment, Severity::error, entry.offset,
         fmt::format("record of {} (ticket {}): {}", record.hook->name, entry.ticket, what));
  };
  if (record.row_bytes != record.hook->row_bytes(record.columns)) {
    complain(fmt::format("rows of {} bytes, though its shape takes {}", record.row_bytes,
                         record.hook->row_bytes(record.columns)));
  }
  slices(segment, entry, record);
  if (!deep_) return;
  report_.payload_bytes_checked += record.data.size();
  if (!decoder_.payload_matches(index)) complain("its payload does not match its checksum");
}

void Verifier::slices(const Segment& segment, const FrameEntry& entry, const StoredRecord& record) {
  std::uint64_t row = 0;
  for (const StoredSlice& slice : record.slices) {
    if (slice.row < row) {
      note(segment, Severity::error, entry.offset,
           fmt::format("record of {} (ticket {}): slices overlap or are out of order",
                       record.hook->name, entry.ticket));
      return;
    }
    row = std::uint64_t{slice.row} + slice.rows;
  }
}

void Verifier::count(std::span<const StoredSlice> slices, std::uint64_t records,
                     std::uint64_t gaps) {
  std::uint64_t last = 0;
  for (const StoredSlice& slice : slices) {
    // A request's slices are neighbours: counted once, as the writer's own tally does.
    if (slice.request == 0 || slice.request == last) continue;
    last = slice.request;
    Seen& seen = seen_[slice.request];
    seen.records += records;
    seen.gaps += gaps;
    seen.last = position_;
  }
}

void Verifier::requests(const RunState& run) {
  const std::string where = run.parts.empty() ? "" : run.parts.back().segment->name();
  const auto complain = [&](Severity severity, const store::RequestState& request,
                            std::uint64_t serial, std::string_view what) {
    report_.findings.push_back({severity, where, 0,
                                fmt::format("run {}, request {} (serial {}): {}",
                                            run.header.info.number, request.id, serial, what)});
  };
  for (const auto& [serial, request] : run.requests) {
    const Seen& seen = seen_[serial];
    if (!request.finished) continue;
    const store::EventEntry& finished = *request.finished;
    if (finished.valid != 0 && finished.gaps != 0) {
      complain(Severity::error, request, serial,
               "its completion says that it is valid and has gaps");
    }
    if (seen.last && seen.finished && *seen.finished < *seen.last) {
      complain(Severity::error, request, serial, "records or gaps of it come after its completion");
    }
    // Without its beginning, older segments of the run may have been removed: then nothing is
    // known.
    if (!seen.begun) continue;
    if (seen.records != finished.records || seen.gaps != finished.gaps) {
      complain(
          Severity::warning, request, serial,
          fmt::format("its completion counts {} records and {} gaps, the store holds {} and {}",
                      finished.records, finished.gaps, seen.records, seen.gaps));
    }
  }
}

void verify_index(const StoreCore& core, bool live, VerifyReport& report) {
  const std::filesystem::path path = core.layout().index();
  std::error_code error;
  std::vector<const Segment*> segments;
  for (const auto& segment : core.segments().all()) {
    if (segment->has_head()) segments.push_back(segment.get());
  }
  if (!std::filesystem::exists(path, error)) {
    if (!segments.empty()) {
      report.findings.push_back({live ? Severity::note : Severity::warning, "index.sqlite", 0,
                                 "is missing; `graphtap index` builds it from the segments"});
    }
    return;
  }
  std::filesystem::path log = path;
  log += "-wal";
  if (!live && std::filesystem::exists(log, error)) {
    // Part of it lies in SQLite's log, and to read that would be to change the directory.
    report.findings.push_back(
        {Severity::warning, "index.sqlite", 0,
         "was left open by a writer that was stopped; the next writer, or `graphtap "
         "index`, builds it anew"});
    return;
  }
  Result<store::Database> db = store::Database::open_for_reading(path, live);
  if (!db.ok()) {
    report.findings.push_back({Severity::warning, "index.sqlite", 0,
                               db.status().message() + "; `graphtap index` rebuilds it"});
    return;
  }
  store::IndexCheck check =
      store::check_index(db.value(), core.manifest().store_id, segments, live);
  report.index_rows = check.rows;
  report.findings.insert(report.findings.end(), check.findings.begin(), check.findings.end());
}

}  // namespace

std::uint64_t VerifyReport::count(Severity severity) const noexcept {
  return static_cast<std::uint64_t>(std::count_if(
      findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; }));
}

Result<VerifyReport> verify_store(const std::filesystem::path& directory, bool deep) {
  StoreCore core(store::Layout{directory}, {ReadOptions::Check::never});
  const bool live = store::WriterLock::holder(core.layout()).has_value();
  if (Status s = core.load(); !s.ok()) return s;
  VerifyReport report;
  report.segments = core.segments().all().size();
  for (const auto& segment : core.segments().all()) store::verify_footer(*segment, report.findings);
  Verifier verifier(deep, report);
  for (const RunState* run : core.runs()) verifier.run(*run);
  verify_index(core, live, report);
  const std::vector<Finding> met = core.findings(live);
  report.findings.insert(report.findings.end(), met.begin(), met.end());
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) {
                     return std::tie(a.file, a.offset, a.what) < std::tie(b.file, b.offset, b.what);
                   });
  // One damage may be met by the scan and by the look at its frame.
  report.findings.erase(std::unique(report.findings.begin(), report.findings.end(),
                                    [](const Finding& a, const Finding& b) {
                                      return std::tie(a.file, a.offset, a.what) ==
                                             std::tie(b.file, b.offset, b.what);
                                    }),
                        report.findings.end());
  return report;
}

}  // namespace graphtap
