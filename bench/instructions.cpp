// The paths whose cost is counted in instructions, since their times would be noise. Run by
// instructions.sh under callgrind, which counts inside the functions named measured_* only.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench_rig.hpp"

using graphtap::HookSet;
using graphtap::StepKind;
using graphtap::bench::Rig;

namespace {

constexpr int kWarm = 20;

void check(const graphtap::Status& status) {
  if (!status.ok()) std::abort();
}

}  // namespace

extern "C" {
__attribute__((noinline)) void measured_plan(Rig& rig, const graphtap::StepShape& shape) {
  rig.lane->begin(shape, graphtap::inline_stream()).end();
}
__attribute__((noinline)) void measured_empty(Rig& rig, const graphtap::StepShape& shape) {
  rig.lane->begin(shape, graphtap::inline_stream()).end();
}
__attribute__((noinline)) void measured_swap(Rig& rig, const HookSet& set) {
  check(rig.monitor->enable(set));
}
}

// instructions CASE COUNT: `plan` (36 hooks), `empty`, `swap1` and `swap64` (bound graphs).
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: instructions plan|empty|swap1|swap64 COUNT\n", stderr);
    return 2;
  }
  const std::string_view what = argv[1];
  const int count = std::atoi(argv[2]);
  Rig rig(36, graphtap::GateTier::node);
  const graphtap::StepShape shape = rig.shape(StepKind::graph);
  if (what == "plan" || what == "empty") {
    if (what == "empty") check(rig.monitor->enable("none"));
    for (int i = 0; i < kWarm; ++i) rig.lane->begin(shape, graphtap::inline_stream()).end();
    for (int i = 0; i < count; ++i) {
      if (i % 32 == 0) rig.drain();
      what == "plan" ? measured_plan(rig, shape) : measured_empty(rig, shape);
    }
    return 0;
  }
  if (what != "swap1" && what != "swap64") return 2;
  std::vector<std::shared_ptr<graphtap::BoundGraph>> graphs;
  for (int i = 0; i < (what == "swap1" ? 1 : 64); ++i) graphs.push_back(rig.capture());
  const HookSet sets[] = {rig.monitor->table().all(), graphtap::bench::half_of(36)};
  for (int i = 0; i < kWarm; ++i) check(rig.monitor->enable(sets[i % 2]));
  for (int i = 0; i < count; ++i) measured_swap(rig, sets[i % 2]);
  return 0;
}
