// What a step costs the host: planning, nothing to plan, switching, catching up.
#include <benchmark/benchmark.h>

#include "bench_rig.hpp"
#include "hooks/lease_book.hpp"
#include "plan/planner.hpp"

namespace graphtap {
namespace {

using bench::half_of;
using bench::Rig;

/// The planner alone: which records, how long, where.
void BM_Plan(benchmark::State& state) {
  const HookTable table = bench::table_of(static_cast<int>(state.range(0)));
  const auto book = LeaseBook::make(table.all());
  LeaseSpec spec;
  spec.hooks = table.all();
  const Lease lease = book->add(spec).value_or_throw();
  const Planner planner(table, table.all(), EagerPolicy::same, 8192);
  const auto request = std::make_shared<RequestInfo>(RequestInfo{1, "a", 0});
  const std::vector<RowSpan> spans{{request, 0, 1}};
  StepShape shape;
  shape.kind = StepKind::graph;
  shape.tokens = spans;
  const auto demand = book->current();
  std::uint64_t step = 0;
  for (auto _ : state) {
    const auto plan = planner.plan(*demand, shape, step++);
    lay_out(plan->frames[0], plan->kind, table.slots());
    benchmark::DoNotOptimize(plan->frames[0].bytes);
  }
}
BENCHMARK(BM_Plan)->Arg(36)->Arg(828);

/// begin() and end() of a graph step with every hook: frame, header image, upload, close,
/// hand-over.
void BM_Step(benchmark::State& state) {
  Rig rig(static_cast<int>(state.range(0)), GateTier::soft);
  const StepShape shape = rig.shape(StepKind::graph);
  std::size_t open = 0;
  for (auto _ : state) {
    rig.lane->begin(shape, inline_stream()).end();
    if (++open % 32 == 0) {
      state.PauseTiming();
      rig.drain();
      state.ResumeTiming();
    }
  }
}
BENCHMARK(BM_Step)->Arg(36)->Arg(828);

/// The same with nothing enabled (I6: at most 0.2 µs).
void BM_EmptyStep(benchmark::State& state) {
  Rig rig(static_cast<int>(state.range(0)), GateTier::soft);
  (void)rig.monitor->enable("none");
  const StepShape shape = rig.shape(StepKind::graph);
  (void)rig.lane->begin(shape, inline_stream());
  for (auto _ : state) rig.lane->begin(shape, inline_stream()).end();
}
BENCHMARK(BM_EmptyStep)->Arg(36)->Arg(828);

/// Swapping the desired set does not depend on how many graphs are bound (A15).
void BM_Switch(benchmark::State& state) {
  Rig rig(36, GateTier::node);
  std::vector<std::shared_ptr<BoundGraph>> graphs;
  for (std::int64_t i = 0; i < state.range(0); ++i) graphs.push_back(rig.capture());
  const HookSet sets[] = {rig.monitor->table().all(), half_of(36)};
  std::size_t which = 0;
  for (auto _ : state) {
    const Status status = rig.monitor->enable(sets[++which % 2]);
    if (!status.ok()) state.SkipWithError("enable failed");
  }
}
BENCHMARK(BM_Switch)->RangeMultiplier(4)->Range(1, 64);

/// The next replay after a change of 18 of 36 hooks: node flips on the bound exec, beside begin and
/// end.
void BM_CatchUp(benchmark::State& state) {
  Rig rig(36, GateTier::node);
  const auto graph = rig.capture();
  const HookSet sets[] = {rig.monitor->table().all(), half_of(36)};
  const StepShape shape = rig.shape(StepKind::graph);
  std::size_t turn = 0;
  for (auto _ : state) {
    state.PauseTiming();
    (void)rig.monitor->enable(state.range(0) != 0 ? sets[turn % 2] : sets[0]);
    if (++turn % 32 == 0) rig.drain();
    Step step = rig.lane->begin(shape, inline_stream());
    state.ResumeTiming();
    const Result<Exec> exec = step.prepare(*graph);
    benchmark::DoNotOptimize(exec.ok());
    state.PauseTiming();
    step.end();
    state.ResumeTiming();
  }
  state.SetLabel(state.range(0) != 0 ? "18 nodes flipped" : "nothing changed");
}
BENCHMARK(BM_CatchUp)->Arg(0)->Arg(1)->Iterations(5000);

}  // namespace
}  // namespace graphtap

BENCHMARK_MAIN();
