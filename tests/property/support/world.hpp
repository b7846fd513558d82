#pragma once
// A small serving engine, driven by a seed: requests join and leave, graphs are captured and
// replayed, hooks are switched, things go wrong. On the cooperative host device the seed decides
// every interleaving as well.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/host/random.hpp"
#include "graphtap/monitor.hpp"
#include "property/support/counts.hpp"
#include "property/support/oracle.hpp"
#include "support/engine.hpp"

namespace graphtap::property {

/// What kind of trouble a schedule may meet.
struct Trouble {
  bool violations = false;  ///< A5: launches missed, doubled, late, unplanned; nodes rewritten
  bool faults = false;      ///< device calls fail before or after they were carried out
  bool lost = false;        ///< a sticky error somewhere in the middle
  bool failing_sink = false;
};

inline constexpr std::uint32_t kMostRows = 24;
inline constexpr std::uint32_t kExpertRows = 3;

/// What a step's kernels read: whose row each row is.
struct InputRow {
  std::uint64_t serial;
  std::int64_t token;
};
struct Input {
  std::uint64_t world_step;
  std::uint32_t tokens;
  std::uint32_t requests;
  InputRow token_rows[kMostRows];
  InputRow request_rows[kMostRows];
};

class World {
 public:
  World(std::uint64_t seed, Trouble trouble, Counts& counts);
  ~World();
  /// Runs the whole schedule; what was wrong, empty if nothing.
  std::vector<std::string> run();

 private:
  struct Source_ {  // a hook's tensor in one graph or eager lane
    std::byte* data = nullptr;
    Source layout;
  };
  struct Captured {
    Graph graph{};
    Exec exec{};
    std::shared_ptr<BoundGraph> bound;
    std::uint32_t capacity = 0;
    std::byte* input = nullptr;
    std::map<Firing, int> fires;  // at each launch
    std::uint64_t set_changes_seen = 0;
    bool corrupt = false;  // a node's ids were rewritten
  };
  struct LaneWorld {
    std::shared_ptr<Lane> lane;
    Stream stream{};
    std::uint64_t steps = 0;
    std::vector<std::unique_ptr<Captured>> graphs;
    std::byte* eager_input = nullptr;
    Captured* owed = nullptr;  // a launch that was left out, to come late
    std::vector<std::byte> owed_input;
  };
  struct Serving {
    Request request;
    std::int64_t next = 0;
    std::int64_t length = 0;
    std::uint32_t lane = 0;
  };

  void make_table();
  void make_monitor();
  void capture(LaneWorld& lane);
  void swap_ids(Captured& graph);
  void replace_exec(Captured& graph);
  Source_ make_source(const Hook& hook, std::uint32_t rows);
  void fill_source(const Hook& hook, std::uint16_t ordinal, const Source_& source,
                   const std::byte* input) const;
  void step(std::uint32_t lane_index);
  void graph_step(LaneWorld& lane, StepTruth& truth, Step step, const std::vector<Captured*>& run);
  void eager_step(LaneWorld& lane, StepTruth& truth, Step step);
  std::vector<RowSpan> choose_rows(std::uint32_t lane_index, std::uint32_t most);
  StepTruth describe(const LaneWorld& lane, StepKind kind, const std::vector<RowSpan>& spans);
  std::vector<std::byte> input_of(const StepTruth& truth) const;
  void upload(std::byte* device, const std::vector<std::byte>& bytes, Stream stream);
  void switch_hooks();
  void change_leases();
  void follow(Stream stream, Stream first);
  void change_stream(LaneWorld& lane);
  void disturb(LaneWorld& lane);
  void set_faults(bool on);
  HookSet random_set(double density);
  void check_quiet(const char* when);
  void finish();
  std::byte* engine_memory(std::size_t bytes);
  void despite_refusals(const std::function<void()>& work);
  void insist(const std::function<Status()>&
                  call);  // an engine retries its own device calls until they go through

  Random random_;
  const Trouble trouble_;
  Counts& counts_;
  std::unique_ptr<testing::Engine> engine_;
  std::shared_ptr<Device> device_;  // the engine's
  HookTable table_{"property"};
  std::shared_ptr<CheckingSink> sink_;
  MonitorOptions options_;
  std::unique_ptr<Monitor> monitor_;
  std::vector<LaneWorld> lanes_;
  std::vector<Stream> streams_;
  std::vector<Serving> serving_;
  std::map<std::uint64_t, Request> requests_;
  std::map<std::uint64_t, std::int64_t> computed_until_;
  LeaseSpec default_lease_;
  std::vector<std::pair<Lease, LeaseSpec>> leases_;
  std::uint64_t set_changes_ = 0;
  std::uint64_t world_step_ = 0;
  std::uint64_t next_name_ = 0;
  std::deque<std::vector<std::byte>> unused_;
  std::vector<std::string> errors_;
};

}  // namespace graphtap::property
