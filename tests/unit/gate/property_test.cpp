// Random sets, launches, flips, faults, replaced execs and rebinding, each schedule made from a
// seed that is printed when it fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "device/host/random.hpp"
#include "support/seeds.hpp"
#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

constexpr std::size_t kHooks = 6;
constexpr std::uint64_t kSchedules = 1500;
constexpr std::uint64_t kSchedulesInRealTime = 200;
constexpr int kOperations = 200;

// One schedule: a few graphs of one lane, and everything that may happen to them.
class Schedule {
 public:
  Schedule(std::uint64_t seed, std::map<std::string, std::uint64_t>& seen)
      : random_(seed), seen_(seen), rig_(options()) {
    for (int i = 0; i < 6; ++i) sets_.push_back(random_set());
    sets_.push_back(rig_.none());
    sets_.push_back(rig_.all());
    for (int i = 0; i < 3; ++i) graphs_.push_back(make_graph());
    wanted_ = rig_.all();
  }

  void run() {
    for (int i = 0; i < kOperations; ++i) operation();
    if (random_.chance(0.5)) rig_.pump_all();
    finish();
  }

 private:
  struct Member {
    std::unique_ptr<Exec> exec = std::make_unique<Exec>();  // what current_exec answers
    Captured captured;
    std::shared_ptr<BoundGraph> bound;
    std::vector<Exec> owned;  // execs of the owner, to destroy at the end
    bool restored = false;
  };

  RigOptions options() {
    RigOptions options;
    options.hooks = kHooks;
    options.tier = random_.chance(0.3) ? GateTier::node : GateTier::specialised;
    options.settle = static_cast<std::uint32_t>(1 + random_.below(4));
    options.budget = random_.chance(0.5) ? 1ull << 40 : 40'000 + random_.below(250'000);
    options.engine.seed = random_.next();
    options.engine.advance = random_.chance(0.3) ? 0.02 : 0.5;
    return options;
  }
  HookSet random_set() {
    std::vector<HookId> ids;
    for (HookId hook = 0; hook < kHooks; ++hook) {
      if (random_.chance(0.4)) ids.push_back(hook);
    }
    return HookSet::of(kHooks, ids);
  }
  Member make_graph() {
    Member member;
    std::vector<HookId> hooks;
    for (HookId hook = 0; hook < kHooks; ++hook) {
      if (random_.chance(0.8)) hooks.push_back(hook);
    }
    member.captured = rig_.capture(hooks);
    *member.exec = member.captured.exec;
    member.owned.push_back(member.captured.exec);
    bind(member);
    return member;
  }
  void bind(Member& member) {
    BindOptions options;
    options.keep_owner_exec = random_.chance(0.1);
    options.current_exec = [exec = member.exec.get()] { return *exec; };
    const std::uint64_t unmanaged = rig_.totals().unmanaged.size();
    member.bound = rig_.bind(member.captured, options);
    member.restored = false;
    seen_["unmanaged hooks"] += rig_.totals().unmanaged.size() - unmanaged;
  }
  Member& any() { return graphs_[random_.below(graphs_.size())]; }

  void operation() {
    Member& member = any();
    switch (random_.below(20)) {
      case 0:
      case 1:
        wanted_ = sets_[random_.below(sets_.size())];
        ++seen_["set changes"];
        break;
      case 2:
        for (const auto& graph : rig_.registry->graphs(0)) (void)graph->apply_now(wanted_);
        ++seen_["flips at once"];
        break;
      case 3:
      case 4:
      case 5:
        if (rig_.registry->pump()) ++seen_["jobs"];
        break;
      case 6:
        faults();
        break;
      case 7:
        if (random_.chance(0.3)) replace_exec(member);
        break;
      case 8:
        if (random_.chance(member.restored ? 0.8 : 0.1)) rebind(member);
        break;
      case 9:
        if (random_.chance(0.1)) {
          (void)member.bound->restore();
          member.restored = true;
          ++seen_["restores"];
        }
        break;
      case 10:
        if (random_.chance(0.3)) missing_ += rig_.verify();
        break;
      default:
        step(member);
    }
  }
  void step(Member& member) {
    // A sampled step is planned with a subset of what is enabled.
    const HookSet planned = random_.chance(0.2) ? wanted_ & random_set() : wanted_;
    const Exec exec = rig_.step(*member.bound, planned);
    ASSERT_NE(exec, Exec{});
    ++seen_["launches"];
    if (exec != *member.exec) {
      ++seen_["launches of specialised execs"];
      ASSERT_FALSE(member.restored) << "switching has ended";
    }
  }
  void faults() {
    auto& faults = rig_.engine->faults();
    faults.clear();
    ++seen_["fault settings"];
    if (random_.chance(0.6)) return;
    // Failures of the owner's own calls are not what is tested: clone and instantiate fail in jobs
    // only.
    for (const Call call : {Call::set_enabled, Call::remove_node, Call::find_in_clone}) {
      if (random_.chance(0.5)) faults.set_rate(call, 0.3, FaultMode::before);
      if (random_.chance(0.3)) faults.set_rate(call, 0.2, FaultMode::after);
    }
    if (random_.chance(0.5)) faults.set_rate(Call::clone, 0.3, FaultMode::before);
  }
  void replace_exec(Member& member) {
    // Destroying an exec whose launches have not run yet is allowed.
    rig_.device->destroy_exec(*member.exec);
    *member.exec = rig_.device->instantiate(member.captured.graph, 0).value();
    member.owned.push_back(*member.exec);
    ++seen_["execs replaced"];
  }
  void rebind(Member& member) {
    if (random_.chance(0.5)) (void)member.bound->restore();
    auto& faults = rig_.engine->faults();
    faults.clear();  // what could not be enabled while failing is made up for when the handle goes
    member.bound.reset();
    EXPECT_EQ(rig_.disabled(member.captured, *member.exec), 0u);
    rig_.device->destroy_exec(*member.exec);
    rig_.device->destroy_graph(member.captured.graph);
    if (random_.chance(0.3)) faults.set_rate(Call::inspect, 0.2, FaultMode::before);
    Exec* kept = member.exec.get();
    member = make_graph();
    EXPECT_NE(kept, member.exec.get());
    faults.clear();
    ++seen_["graphs rebound"];
  }
  void finish() {
    missing_ += rig_.verify();
    rig_.engine->faults().clear();
    const GateTotals totals = rig_.totals();
    seen_["execs built"] += totals.execs_built;
    seen_["execs evicted"] += totals.execs_evicted;
    seen_["builds refused"] += totals.specialise_refused;
    seen_["builds failed"] += totals.specialise_failures;
    seen_["switch errors"] += totals.switch_errors;
    seen_["launches short"] += totals.launches_short;
    seen_["exec swaps"] += totals.exec_swaps;
    seen_["records missing"] += missing_;
    for (Member& member : graphs_) {
      EXPECT_TRUE(member.bound->restore().ok());
      EXPECT_EQ(rig_.disabled(member.captured, *member.exec), 0u);
      rig_.launch(*member.exec, member.bound->hooks(), rig_.all());
      member.bound.reset();
    }
    EXPECT_EQ(rig_.verify(), 0u);
    EXPECT_EQ(rig_.engine->live_execs(), graphs_.size());
    EXPECT_EQ(rig_.engine->live_graphs(), graphs_.size());
    const GateTotals end = rig_.totals();
    EXPECT_EQ(end.graphs_bound, 0u);
    EXPECT_EQ(end.nodes_bound, 0u);
    EXPECT_EQ(end.graphs_stale, 0u);
    EXPECT_EQ(end.specialised_execs, 0u);
    EXPECT_EQ(end.specialised_bytes, 0u);
  }

  Random random_;
  std::map<std::string, std::uint64_t>& seen_;
  Rig rig_;
  std::vector<HookSet> sets_;
  HookSet wanted_;
  std::vector<Member> graphs_;
  std::uint64_t missing_ = 0;
};

TEST(GateProperty, A5_A6_A7_A13_EveryPlannedProducerFiresAndEveryNodeComesBack) {
  std::map<std::string, std::uint64_t> seen;
  const std::uint64_t usual = make_engine()->cooperative() ? kSchedules : kSchedulesInRealTime;
  const std::uint64_t schedules = seeds(usual);
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule(seed, seen).run();
    if (HasFailure()) break;
  }
  for (const auto& [what, count] : seen) {
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
    if (schedules < usual) continue;
    EXPECT_GT(count, 0u) << what << " never happened";
  }
}

}  // namespace
}  // namespace graphtap::testing
