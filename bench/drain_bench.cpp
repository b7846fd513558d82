// The way out: verification and slicing alone, and the whole drain (copy, verify, slice, null
// sink).
#include <benchmark/benchmark.h>

#include <cstring>

#include "bench_rig.hpp"
#include "drain/delivery_builder.hpp"
#include "plan/planner.hpp"
#include "plan/tickets.hpp"

namespace graphtap {
namespace {

using bench::Rig;

constexpr int kHooks = 36;

/// Frames that lie in staging already: bytes are those verified, not touched.
void BM_Verify(benchmark::State& state) {
  const std::int64_t row_bytes = state.range(0);
  const auto table = std::make_shared<const HookTable>(bench::table_of(kHooks, row_bytes));
  auto plan = std::make_shared<StepPlan>();
  plan->kind = StepKind::graph;
  plan->wanted = table->all();
  plan->token_slices = {{std::make_shared<RequestInfo>(RequestInfo{1, "a", 0}), 0, 0, 1}};
  plan->frames.resize(1);
  FramePlan& frame = plan->frames[0];
  for (const Hook& hook : table->hooks()) {
    PlannedRecord record;
    record.hook = hook.id;
    record.slot = hook.first_slot;
    record.rows = 1;
    record.row_bytes = static_cast<std::uint64_t>(row_bytes);
    frame.records.push_back(record);
  }
  lay_out(frame, plan->kind, table->slots());
  frame.ticket = next_ticket();
  std::vector<std::byte> memory(frame.bytes);
  const auto ring = FrameRing::make(memory.data(), memory.size(), 1, {});
  frame.loan = ring->try_lend(frame.bytes);
  for (const PlannedRecord& record : frame.records) {
    const std::uint32_t once = 1;
    std::memcpy(memory.data() + record.slot * sizeof(once), &once, sizeof(once));
    const wire::RecordHead head{frame.loan->magic(), frame.ticket, record.hook, 0, 1,
                                record.row_bytes};
    std::memcpy(memory.data() + record.offset, &head, sizeof(head));
  }
  Accounts accounts(table->size());
  RequestLedger ledger;
  EndedFrame ended;
  ended.plan = plan;
  for (auto _ : state) {
    const auto step = build_delivery(table, {}, ended, frame.loan, accounts, ledger);
    if (step->records.size() != kHooks) state.SkipWithError("a record was refused");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kHooks) * row_bytes);
}
BENCHMARK(BM_Verify)->Arg(512)->Arg(8 << 10)->Arg(64 << 10);

/// From the end of a step to the null sink, in one thread.
void BM_Drain(benchmark::State& state) {
  const std::int64_t row_bytes = state.range(0);
  Rig rig(kHooks, GateTier::soft, row_bytes);
  const StepShape shape = rig.shape(StepKind::eager);
  for (auto _ : state) {
    state.PauseTiming();
    Step step = rig.lane->begin(shape, inline_stream());
    for (HookId hook = 0; hook < kHooks; ++hook)
      rig.lane->produce(hook, rig.source(), inline_stream());
    step.end();
    state.ResumeTiming();
    rig.drain();
  }
  if (rig.monitor->stats().total.missing() != 0) state.SkipWithError("records are missing");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kHooks) * row_bytes);
}
BENCHMARK(BM_Drain)->Arg(512)->Arg(8 << 10)->Arg(64 << 10)->UseRealTime();

}  // namespace
}  // namespace graphtap

BENCHMARK_MAIN();
