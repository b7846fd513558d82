#pragma once
// What a random schedule must deliver, worked out the slow and obvious way, row by row.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/lease.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap::property {

/// A row of a tensor and whose it is.
struct RowOwner {
  std::uint64_t serial = 0;
  std::int64_t token = 0;
  bool recomputed = false;
  friend auto operator<=>(const RowOwner&, const RowOwner&) = default;
};

using Firing = std::pair<HookId, std::uint16_t>;  // hook, ordinal

/// One step as the engine knows it.
struct StepTruth {
  std::uint64_t world_step = 0;  // in every marker of its rows
  StepKind kind = StepKind::graph;
  std::vector<RowOwner> tokens, requests;
  std::uint32_t expert_rows = 0;
  std::map<Firing, std::vector<std::uint32_t>> wanted;  // rows, ascending
  std::map<Firing, int> fired;  // how often its producer ran under this step's plan
  bool anything_goes = false;   // a violation or a fault: gaps are allowed, wrong data never
};

/// Fills `bytes` with a pattern that no other (hook, ordinal, request, token, step) has.
void write_marker(std::byte* row, std::size_t bytes, Firing firing, std::uint64_t serial,
                  std::int64_t token, std::uint64_t world_step);
[[nodiscard]] bool is_marker(const std::byte* row, std::size_t bytes, Firing firing,
                             std::uint64_t serial, std::int64_t token, std::uint64_t world_step);

/// The rows that `leases` want of a hook in a step, by looking at each row alone.
[[nodiscard]] std::vector<std::uint32_t> wanted_rows_naively(
    const std::vector<LeaseSpec>& leases, const Hook& hook, const StepTruth& truth,
    std::uint64_t lane_step, const std::map<std::uint64_t, Request>& requests);

/// A sink that holds every delivery against the truth.
class CheckingSink final : public Sink {
 public:
  struct Seen {
    std::vector<RowOwner> rows;  // delivered, in order
    std::vector<RowOwner> gap_rows;
    std::uint64_t unowned_rows = 0, unowned_gap_rows = 0;
    std::set<GapReason> reasons;
    std::uint64_t records = 0, gaps = 0;
  };

  explicit CheckingSink(const HookTable& table) : table_(table) {}

  std::string name() const override { return "checking"; }
  Status write(const DeliveredStep& step) override;
  Status event(const RequestEvent& event) override;

  /// Compares everything that was seen with what was wanted; call at a quiescent point.
  void check_complete();

  std::map<std::pair<std::uint32_t, std::uint64_t>, StepTruth> truth;  // (lane, step)
  std::uint64_t fail_every = 0;  // every nth write is refused before it is looked at
  std::vector<std::string> errors;
  std::uint64_t records = 0, gaps = 0, ordinals = 0;
  bool strict = true;  // no faults: every gap must be accounted for by what the engine did

 private:
  void error(const std::string& what);
  [[nodiscard]] std::string identify(const std::byte* row, std::size_t bytes) const;
  void check_record(const DeliveredStep& step, const StepTruth& truth, const Record& record);

  const HookTable& table_;
  std::uint64_t writes_ = 0;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint32_t>> last_;  // lane → (step, part)
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<Firing, Seen>> seen_;
  std::map<std::uint64_t, std::uint64_t> gaps_of_request_, records_of_request_;
  std::set<std::uint64_t> finished_;
};

}  // namespace graphtap::property
