#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/layout.hpp"
#include "store/run_header.hpp"
#include "store/segment_set.hpp"

namespace graphtap::store {

/// Where a frame stands among those of its run.
struct Position {
  std::uint64_t segment = 0;
  std::uint32_t frame = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

/// What the store knows of a request.
struct RequestState {
  struct Rejection {
    Position at;  // applies to what was stored before
    TokenRange tokens;
  };
  std::string id;
  std::int64_t prompt_tokens = 0;
  std::optional<EventEntry> finished;
  std::vector<TokenRange> not_computed;
  std::vector<Rejection> rejections;  // in order of position
};

/// A run's part of the store. Its address, and those of its requests, stay.
struct RunState {
  /// A segment of the run, and how much of it has been taken in.
  struct Part {
    const Segment* segment = nullptr;
    std::size_t requests = 0;
    std::size_t events = 0;
  };
  RunHeader header;
  std::vector<Part> parts;
  std::map<std::uint64_t, RequestState> requests;                       // by serial
  std::unordered_map<std::string, std::vector<std::uint64_t>> serials;  // by the user's id
};

}  // namespace graphtap::store

namespace graphtap {

/// What every StoreReader call works on: segments, runs and requests. load() must be alone; const
/// calls may run at the same time.
class StoreCore {
 public:
  StoreCore(store::Layout layout, ReadOptions options)
      : layout_(std::move(layout)), options_(options) {}
  Status load();

  [[nodiscard]] const store::Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const store::Manifest& manifest() const noexcept { return manifest_; }
  [[nodiscard]] const store::SegmentSet& segments() const noexcept { return segments_; }
  /// By number.
  [[nodiscard]] std::vector<const store::RunState*> runs() const;
  [[nodiscard]] const store::RunState* run(std::uint32_t number) const;

  /// Whether payloads of this segment are to be checked before they are handed out.
  [[nodiscard]] bool checks(const store::Segment& segment) const noexcept {
    return options_.payloads == ReadOptions::Check::always ||
           (options_.payloads == ReadOptions::Check::open_segments && !segment.closed());
  }
  /// Remembers damage that a cursor met; once, however often it is met.
  void report(Finding finding) const;
  /// Damage met so far, and torn ends. `writing`: a writer is at work, the last end is its.
  [[nodiscard]] std::vector<Finding> findings(bool writing) const;

 private:
  bool assign(const store::Segment& segment);
  static void take_in(store::RunState& run, store::RunState::Part& part);

  const store::Layout layout_;
  const ReadOptions options_;
  store::Manifest manifest_;
  store::SegmentSet segments_;
  std::size_t looked_at_ = 0;                   // segments that were assigned to a run, or waited
  std::vector<const store::Segment*> waiting_;  // those without a readable run frame
  std::map<std::string, std::unique_ptr<store::RunState>> runs_;  // by id

  mutable std::mutex met_mutex_;
  mutable std::vector<Finding> met_;
  mutable std::set<std::pair<std::string, std::uint64_t>> met_places_;
};

}  // namespace graphtap
