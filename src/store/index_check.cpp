#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/index.hpp"
#include "store/index_rows.hpp"

namespace graphtap::store {
namespace {

constexpr const char* kFile = "index.sqlite";
constexpr std::size_t kMostNamed = 8;  // differing rows named one by one, a table and segment

class Checker {
 public:
  Checker(Database& db, bool live, IndexCheck& check) : db_(db), live_(live), check_(check) {}

  void note(Severity severity, std::string what) {
    check_.findings.push_back({severity, kFile, 0, std::move(what)});
  }
  void behind(std::string what) {
    note(live_ ? Severity::note : Severity::warning,
         std::move(what) + "; `graphtap index` rebuilds it");
  }
  [[nodiscard]] Severity behind_severity() const {
    return live_ ? Severity::note : Severity::warning;
  }

  /// Compares the rows of one table and segment with what they should be. `grows`: the last rows
  /// may be missing or old, for the segment grows and the index follows.
  template <class Row>
  bool compare(const char* table, const char* sql, const std::string& segment, std::uint64_t number,
               const std::vector<Row>& rows, bool grows) {
    using Values = decltype(values(std::declval<const Row&>()));
    Result<Statement> ask = Statement::prepare(db_, sql);
    if (!ask.ok()) return broken(ask.status());
    ask.value().bind(number);
    std::size_t seen = 0;
    std::size_t wrong = 0;
    while (ask.value().next()) {
      Values stored{};
      for (std::size_t i = 0; i < stored.size(); ++i)
        stored[i] = ask.value().number(static_cast<int>(i));
      ++check_.rows;
      const bool same = seen < rows.size() && stored == values(rows[seen]);
      ++seen;
      if (same || grows) continue;
      if (++wrong <= kMostNamed) {
        note(Severity::error, fmt::format("row {} of table {} for {} differs from the segment",
                                          seen, table, segment));
      }
    }
    if (!ask.value().status().ok()) return broken(ask.value().status());
    if (seen < rows.size() && !grows) {
      behind(fmt::format("table {} has {} of {} rows of {}", table, seen, rows.size(), segment));
    }
    return true;
  }

  bool broken(const Status& status) {
    note(Severity::warning,
         "cannot be read: " + status.message() + "; `graphtap index` rebuilds it");
    return false;
  }

 private:
  Database& db_;
  bool live_;
  IndexCheck& check_;
};

std::map<std::uint64_t, IndexBatch::Segment> covered_segments(Database& db, Checker& checker,
                                                              bool& readable) {
  std::map<std::uint64_t, IndexBatch::Segment> covered;
  Result<Statement> ask = Statement::prepare(
      db, "SELECT segment, run, bytes, frames, closed FROM segments ORDER BY segment");
  readable = ask.ok() || checker.broken(ask.status());
  if (!readable) return covered;
  Statement& row = ask.value();
  while (row.next()) {
    const IndexBatch::Segment segment{
        row.unsigned_number(0), static_cast<std::uint32_t>(row.number(1)), row.unsigned_number(2),
        row.unsigned_number(3), row.number(4) != 0};
    covered.emplace(segment.number, segment);
  }
  readable = row.status().ok() || checker.broken(row.status());
  return covered;
}

bool has_tables(Database& db) {
  Result<Statement> ask = Statement::prepare(db, "SELECT count(*) FROM sqlite_schema");
  return !ask.ok() || !ask.value().next() || ask.value().number(0) > 0;
}

bool check_about(Database& db, const Id& store_id, Checker& checker) {
  if (!has_tables(db)) {  // its writer has only just begun
    checker.behind("is still empty");
    return false;
  }
  Result<Statement> ask = Statement::prepare(db, "SELECT key, value FROM about");
  if (!ask.ok()) return checker.broken(ask.status());
  std::map<std::string, std::string> about;
  while (ask.value().next()) about[ask.value().text(0)] = ask.value().text(1);
  if (!ask.value().status().ok()) return checker.broken(ask.value().status());
  if (about["store"] != to_hex(store_id)) {
    checker.note(Severity::warning, "belongs to another store; `graphtap index` rebuilds it");
    return false;
  }
  if (about["version"] != std::to_string(kIndexVersion)) {
    checker.behind("is of another version");
    return false;
  }
  if (about["state"] != "closed") checker.behind("was not closed");
  return true;
}

}  // namespace

IndexCheck check_index(Database& db, const Id& store_id,
                       const std::vector<const Segment*>& segments, bool live) {
  IndexCheck check;
  Checker checker(db, live, check);
  if (!check_about(db, store_id, checker)) return check;
  bool readable = false;
  const auto covered = covered_segments(db, checker, readable);
  if (!readable) return check;
  for (const auto& [number, row] : covered) {
    const bool there = std::any_of(
        segments.begin(), segments.end(),
        [wanted = number](const Segment* segment) { return segment->number() == wanted; });
    if (!there) checker.behind(fmt::format("covers {}, which is not there", segment_name(number)));
  }
  for (const Segment* segment : segments) {
    const auto row = covered.find(segment->number());
    if (row == covered.end()) {
      if (segment->directory().frames() > 0) checker.behind("does not cover " + segment->name());
      continue;
    }
    IndexBatch expected;
    expected.add(*segment);
    std::sort(expected.ranges.begin(), expected.ranges.end(), [](const auto& a, const auto& b) {
      return std::pair(a.entry.request, a.entry.first_frame) <
             std::pair(b.entry.request, b.entry.first_frame);
    });
    if (row->second.frames != expected.segments.front().frames) {
      checker.behind(fmt::format("covers {} of {} frames of {}", row->second.frames,
                                 expected.segments.front().frames, segment->name()));
      continue;
    }
    const bool grows = live && !segment->closed();
    const std::uint64_t number = segment->number();
    const std::string name = segment->name();
    if (!checker.compare("steps", kSelectSteps, name, number, expected.frames, grows) ||
        !checker.compare("spans", kSelectSpans, name, number, expected.ranges, grows) ||
        !checker.compare("events", kSelectEvents, name, number, expected.events, grows) ||
        !checker.compare("hook_totals", kSelectHookTotals, name, number, expected.hook_totals,
                         grows) ||
        !checker.compare("gap_totals", kSelectGapTotals, name, number, expected.gap_totals,
                         grows)) {
      break;
    }
  }
  return check;
}

}  // namespace graphtap::store
