#include "cli/graph/graph_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

const char* what_it_does(GateTier tier) {
  switch (tier) {
    case GateTier::soft:
      return "the plan of a step says which hooks are OFF; graph objects are never touched";
    case GateTier::node:
      return "nodes of hooks that are off are also disabled in the engine's own exec";
    case GateTier::specialised:
      return "once a set has settled, an exec without the unused producers takes over";
  }
  return "";
}

std::string execs(const GraphPhase& phase) {
  std::string text;
  if (phase.owner_launches > 0) text = fmt::format("owner {}", phase.owner_launches);
  if (phase.specialised_launches > 0) {
    text += fmt::format("{}specialised {}", text.empty() ? "" : " + ", phase.specialised_launches);
  }
  return text.empty() ? "-" : text;
}

std::string nodes(const GraphPhase& phase) {
  if (phase.most_nodes == 0) return "-";
  if (phase.least_nodes == phase.most_nodes) return std::to_string(phase.most_nodes);
  return fmt::format("{}-{}", phase.least_nodes, phase.most_nodes);
}

std::uint64_t bad(const CheckCounts& check) { return check.wrong + check.unaccounted; }

std::string verdict(const CheckCounts& check) {
  if (bad(check) == 0) return "right";
  std::string text;
  if (check.wrong > 0) text = fmt::format("{} WRONG", check.wrong);
  if (check.unaccounted > 0) {
    text += fmt::format("{}{} LOST", text.empty() ? "" : ", ", check.unaccounted);
  }
  return text;
}

}  // namespace

std::string graph_head_text(const GraphOptions& options, const HookTable& table) {
  return fmt::format(
      "A decoder of {} layers on the host device: {} hooks, so {} producers in each graph, among "
      "the\n"
      "nodes that compute. Decode steps are graphs, captured for batches of {} rows; prompts are\n"
      "prefilled without a graph. {} made-up requests (seed {}) join, decode together, are "
      "preempted\n"
      "now and then, and leave. Every delivered byte is computed again and compared.\n",
      options.shape.layers, table.size(), table.size(), fmt::join(options.batches, ", "),
      options.traffic.requests, options.traffic.seed);
}

std::string graph_tier_text(const GraphTierResult& result) {
  std::string text =
      fmt::format("\ntier {}: {}\n", to_string(result.tier), what_it_does(result.tier));
  TextTable table({{"from step", true},
                   {"set"},
                   {"hooks", true},
                   {"graph+eager", true},
                   {"exec launched"},
                   {"nodes run", true},
                   {"records", true},
                   {"missing", true},
                   {"shed", true},
                   {"host µs/step", true},
                   {"launch", true},
                   {"check"}});
  for (const GraphPhase& phase : result.phases) {
    if (phase.graph_steps + phase.eager_steps == 0) continue;
    const CheckCounts& check = phase.check;
    table.add({std::to_string(phase.first_step), phase.set, std::to_string(phase.hooks),
               fmt::format("{}+{}", phase.graph_steps, phase.eager_steps), execs(phase),
               nodes(phase), with_commas(check.records), with_commas(check.missing),
               with_commas(check.shed), fmt::format("{:.1f}", phase.step_us),
               fmt::format("{:.1f}", phase.launch_us), verdict(check)});
  }
  text += table.text(2);
  const Stats& stats = result.stats;
  const CheckCounts check = result.check();
  text += fmt::format(
      "  {} steps; requests: {} joined, {} finished, {} preempted and recomputed\n"
      "  {} {}, {} nodes changed, {} exec swaps, {} failed; at most {} of the ring used\n"
      "  {} records, {}, {} recomputed, {} wrong\n",
      result.steps, result.joined, result.finished, result.preempted, stats.switches,
      stats.switches == 1 ? "switch" : "switches", stats.nodes_changed, stats.exec_swaps,
      stats.switch_errors, human_bytes(stats.ring_high_water), with_commas(check.records),
      human_bytes(stats.total.bytes), counted(check.rows, "row"), bad(check));
  for (const std::string& example : result.examples) text += "  WRONG: " + example + '\n';
  for (const Unmanaged& hook : stats.unmanaged) {
    text += fmt::format("  {} in {} is switched by the plan alone: {}\n", hook.hook, hook.graph,
                        hook.reason);
  }
  return text;
}

std::string graph_end_text(const std::vector<GraphTierResult>& results) {
  std::uint64_t records = 0, rows = 0, wrong = 0;
  for (const GraphTierResult& result : results) {
    const CheckCounts check = result.check();
    records += check.records;
    rows += check.rows;
    wrong += bad(check);
  }
  return fmt::format(
      "\nhow to read it: \"nodes run\" is what one replay costs the device. soft runs every node, "
      "and "
      "those\nthat are off write nothing. node leaves disabled nodes in the exec. specialised "
      "drops "
      "them: after\n\"none\" has settled, only the model's own nodes are left. Whatever the tier, "
      "the "
      "same records arrive.\n"
      "{} records with {} rows recomputed, {} wrong\n",
      with_commas(records), with_commas(rows), wrong);
}

nlohmann::json graph_json(const GraphOptions& options, const Schedule& schedule,
                          const std::vector<GraphTierResult>& results) {
  auto tiers = nlohmann::json::array();
  std::uint64_t wrong = 0;
  for (const GraphTierResult& result : results) {
    auto phases = nlohmann::json::array();
    for (const GraphPhase& phase : result.phases) {
      phases.push_back({{"first_step", phase.first_step},
                        {"set", phase.set},
                        {"hooks", phase.hooks},
                        {"graph_steps", phase.graph_steps},
                        {"eager_steps", phase.eager_steps},
                        {"owner_launches", phase.owner_launches},
                        {"specialised_launches", phase.specialised_launches},
                        {"least_nodes", phase.least_nodes},
                        {"most_nodes", phase.most_nodes},
                        {"host_us_per_step", phase.step_us},
                        {"launch_us", phase.launch_us},
                        {"records", phase.check.records},
                        {"rows_checked", phase.check.rows},
                        {"missing", phase.check.missing},
                        {"shed", phase.check.shed},
                        {"wrong", phase.check.wrong},
                        {"unaccounted", phase.check.unaccounted}});
    }
    const Stats& stats = result.stats;
    wrong += bad(result.check());
    tiers.push_back({{"tier", to_string(result.tier)},
                     {"steps", result.steps},
                     {"requests_joined", result.joined},
                     {"requests_finished", result.finished},
                     {"preemptions", result.preempted},
                     {"graph_nodes", result.graph_nodes},
                     {"producer_nodes", result.producer_nodes},
                     {"phases", std::move(phases)},
                     {"totals", totals_json(result.totals)},
                     {"switches", stats.switches},
                     {"nodes_changed", stats.nodes_changed},
                     {"exec_swaps", stats.exec_swaps},
                     {"switch_errors", stats.switch_errors},
                     {"ring_high_water", stats.ring_high_water},
                     {"wrong_examples", result.examples},
                     {"closed", result.closed.ok() ? "ok" : result.closed.message()},
                     {"interrupted", result.interrupted}});
  }
  return {{"layers", options.shape.layers},
          {"hidden", options.shape.hidden},
          {"batches", options.batches},
          {"seed", options.traffic.seed},
          {"schedule", schedule_json(schedule)},
          {"tiers", std::move(tiers)},
          {"wrong", wrong}};
}

}  // namespace graphtap::cli
