// I1 to I6 over random schedules: on the cooperative host device, where the seed chooses every
// interleaving too, and on a GPU, where each graph is captured and replayed for real.
// GRAPHTAP_SEEDS: how many schedules (10,000 by default, fewer on a GPU and under a sanitizer);
// GRAPHTAP_FIRST_SEED: where to begin, to repeat one that failed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "property/support/world.hpp"

namespace graphtap::property {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr std::uint64_t kEnoughForCoverage = 2000;

std::uint64_t default_schedules() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 1500;
#else
  return testing::make_engine()->cooperative() ? 10'000 : kEnoughForCoverage;
#endif
}

Trouble trouble_of(std::uint64_t seed) {
  switch (seed % 8) {
    case 0:
    case 1:
      return {};
    case 2:
    case 3:
      return {.violations = true};
    case 4:
      return {.violations = true, .failing_sink = true};
    case 5:
    case 6:
      return {.violations = true, .faults = true};
    default:
      return {.violations = true, .lost = true};
  }
}

void print(const Counts& c) {
  fmt::print("schedules {} steps {} records {} gaps {}\n", c.schedules, c.steps, c.records, c.gaps);
  fmt::print(
      "ring wraps {} sheds {} ordinals {} exec swaps {} doubly stale graphs {} late graphs {}\n",
      c.wraps, c.sheds, c.ordinals, c.exec_swaps, c.doubly_stale, c.late_graphs);
  fmt::print(
      "replaced execs {} clears {} ring resizes {} stream changes {} eager steps {} filtered "
      "leases {} recomputed rows {} flushes {} sink failures {} lost devices {}\n",
      c.replaced_execs, c.cleared, c.ring_resizes, c.stream_changes, c.eager_steps,
      c.filtered_leases, c.recomputed_rows, c.flushes, c.sink_failures, c.lost_devices);
  fmt::print(
      "violations: launches without a plan {} left out {} twice {} late {}, nodes off {}, ids "
      "swapped {}, steps given up {}\n",
      c.unplanned_launches, c.missed_launches, c.double_launches, c.late_launches, c.nodes_off,
      c.swapped_ids, c.aborted);
  for (std::size_t call = 0; call < kCalls; ++call) {
    fmt::print("fault {:16} before {:6} after {:6} sticky {:4}\n",
               to_string(static_cast<Call>(call)), c.faults[call][0], c.faults[call][1],
               c.faults[call][2]);
  }
}

TEST(Schedules, I1_I2_I3_I4_I5_EveryRecordIsRightOrAbsent) {
  const std::uint64_t schedules = from_environment("GRAPHTAP_SEEDS", default_schedules());
  const std::uint64_t first = from_environment("GRAPHTAP_FIRST_SEED", 1);
  Counts counts;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = first; seed < first + schedules && failed < 5; ++seed) {
    World world(seed, trouble_of(seed), counts);
    const std::vector<std::string> errors = world.run();
    ++counts.schedules;
    if (errors.empty()) continue;
    ++failed;
    std::string all;
    for (const std::string& error : errors) all += "\n  " + error;
    ADD_FAILURE() << "seed " << seed << " (GRAPHTAP_FIRST_SEED=" << seed
                  << " GRAPHTAP_SEEDS=1):" << all;
  }
  print(counts);
  if (schedules < kEnoughForCoverage) return;
  const std::uint64_t often = schedules / 10;
  EXPECT_GE(counts.wraps, often);
  EXPECT_GE(counts.sheds, often);
  EXPECT_GE(counts.ordinals, often);
  EXPECT_GE(counts.exec_swaps, often);
  EXPECT_GE(counts.doubly_stale, often);
  EXPECT_GE(counts.late_graphs, often);
  for (std::size_t call = 0; call < kCalls; ++call) {
    if (static_cast<Call>(call) == Call::synchronize)
      continue;  // nothing in graphtap waits that way
    EXPECT_GE(counts.faults[call][0] + counts.faults[call][1] + counts.faults[call][2], often / 10)
        << to_string(static_cast<Call>(call));
  }
}

}  // namespace
}  // namespace graphtap::property
