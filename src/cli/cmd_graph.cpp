#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/graph/graph_run.hpp"
#include "cli/graph/graph_text.hpp"
#include "cli/interrupt.hpp"
#include "cli/store_options.hpp"
#include "cli/subcommands.hpp"
#include "cli/values.hpp"
#include "cli/watched_sink.hpp"
#include "graphtap/store_sink.hpp"
#include "plan/wire.hpp"

namespace graphtap::cli {
namespace {

struct Options {
  std::optional<std::string> hooks;
  std::vector<std::string> at;
  std::string tier = "all", policy = "lossless", eager = "same", apply = "next-launch";
  std::string layers = "30", hidden = "64", requests = "24", seed = "1", settle = "4",
              ring = "16MiB";
  std::optional<std::string> steps, store;
  StoreWords store_words;
  bool json = false, quiet = false;
};

constexpr const char* kExamples = R"(Examples:
  graphtap graph
      a schedule of its own (all, none, ten layers, all), through every tier
  graphtap graph --hooks residual --at 100:none --at 200:resid_pre:20-29 --tier specialised
      one tier, your schedule; the steps count graph and eager steps alike
  graphtap graph --policy shed --ring 64KiB
      too little room: what is shed is counted, nothing is mislabelled
  graphtap graph --store s; graphtap report s --out graph.html
      keep what was captured, and look at it)";

// Without --hooks and --at: something to see.
const std::vector<std::string> kOwnSchedule{"50:none", "90:resid_pre:20-29", "140:"};

std::vector<std::string> own_schedule(int layers) {
  std::vector<std::string> schedule = kOwnSchedule;
  if (layers < 30)
    schedule[1] = fmt::format("90:resid_pre:{}-{}", layers - (layers + 2) / 3, layers - 1);
  return schedule;
}

GraphOptions read(const Options& options) {
  GraphOptions graph;
  graph.shape.layers = static_cast<int>(parse_count("--layers", options.layers, 1, 512));
  graph.shape.hidden = static_cast<int>(parse_count("--hidden", options.hidden, 1, 65536));
  graph.traffic.requests =
      static_cast<std::uint32_t>(parse_count("--requests", options.requests, 1, 1000));
  graph.traffic.most_running = graph.batches.back();
  graph.traffic.seed = parse_count("--seed", options.seed, 0, UINT64_MAX);
  graph.settle = static_cast<std::uint32_t>(parse_count("--settle", options.settle, 1, 1'000'000));
  graph.most_steps =
      options.steps ? parse_count("--steps", *options.steps, 1, 1'000'000) : std::uint64_t{0};
  graph.policy = parse_word("--policy", options.policy, {"lossless", "shed"}) == 0
                     ? Policy::lossless
                     : Policy::shed;
  constexpr EagerPolicy kEager[] = {EagerPolicy::same, EagerPolicy::all, EagerPolicy::none};
  graph.eager = kEager[parse_word("--eager", options.eager, {"same", "all", "none"})];
  graph.apply = parse_word("--apply", options.apply, {"next-launch", "now"}) == 0
                    ? Apply::at_next_launch
                    : Apply::now;
  graph.ring_bytes =
      wire::align_up(parse_size("--ring", options.ring, 1 << 10, std::uint64_t{1} << 36));
  return graph;
}

std::vector<GateTier> tiers(const std::string& word) {
  constexpr GateTier kTiers[] = {GateTier::soft, GateTier::node, GateTier::specialised};
  const std::size_t chosen = parse_word("--tier", word, {"all", "soft", "node", "specialised"});
  if (chosen == 0) return {std::begin(kTiers), std::end(kTiers)};
  return {kTiers[chosen - 1]};
}

void check_ring(const GraphOptions& graph, const HookTable& table, const Schedule& schedule) {
  const std::uint64_t least = largest_graph_step(graph, table, schedule);
  if (graph.policy == Policy::shed || graph.ring_bytes >= least) return;
  throw Error(
      Code::invalid_argument,
      fmt::format("--ring is {} bytes, but the largest step of this schedule takes {}; give it "
                  "at least {}KiB, enable fewer hooks, or use --policy shed",
                  graph.ring_bytes, least, (least + 1023) / 1024));
}

std::shared_ptr<WatchedSink> open_store(const Options& options, StoreOptions store,
                                        const HookTable& table, GateTier tier) {
  if (!options.store) return nullptr;
  store.run_name = fmt::format("graph, tier {}", to_string(tier));
  return std::make_shared<WatchedSink>(
      open_store_sink(*options.store, table, store).value_or_throw());
}

Exit verdict(const std::vector<GraphTierResult>& results, Console& console) {
  for (const GraphTierResult& result : results) {
    for (const auto& [status, what] : {std::pair{&result.stored, "the store lost records"},
                                       std::pair{&result.closed, "not everything was delivered"}}) {
      if (status->ok()) continue;
      console.err << "graphtap: " << what << ": " << status->message() << '\n';
      return exit_for(status->code());
    }
    const CheckCounts check = result.check();
    if (check.wrong + check.unaccounted + check.missing > 0) return Exit::damaged;
  }
  return !results.empty() && results.back().interrupted ? Exit::interrupted : Exit::ok;
}

Exit graph(const Options& options, Console& console) {
  const GraphOptions graph = read(options);
  const StoreOptions store_options = read_store_options(options.store_words);
  const HookTable table = decoder_table(graph.shape);
  const bool own = !options.hooks && options.at.empty();
  const Schedule schedule(options.hooks, own ? own_schedule(graph.shape.layers) : options.at, table,
                          [&](const Selection& selection) { return selection.resolve(table); });
  const std::vector<GateTier> wanted = tiers(options.tier);
  check_ring(graph, table, schedule);

  const bool text = !options.json && !options.quiet;
  std::vector<GraphTierResult> results;
  const InterruptGuard guard;
  for (const GateTier tier : wanted) {
    const std::shared_ptr<WatchedSink> store = open_store(options, store_options, table, tier);
    if (text && results.empty()) console.out << graph_head_text(graph, table) << std::flush;
    {
      ProgressLine progress(console, text);
      results.push_back(run_graphs(graph, table, schedule, tier, store, [&](std::uint64_t step) {
        progress.show(fmt::format("tier {}: step {}", to_string(tier), step));
      }));
    }
    const GraphTierResult& result = results.back();
    if (text) console.out << graph_tier_text(result) << std::flush;
    if (result.interrupted || !result.stored.ok()) break;
  }
  if (options.json) {
    console.out << graph_json(graph, schedule, results).dump(2) << '\n';
  } else {
    console.out << graph_end_text(results);
    for (const Switch* late : schedule.unreached(results.back().steps)) {
      warn(console, fmt::format("--at {}: was never reached, there were {} steps", late->step,
                                results.back().steps));
    }
    if (options.store) console.out << "store: " << *options.store << '\n';
  }
  return verdict(results, console);
}

}  // namespace

Action setup_graph(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_text(app, "--hooks", options->hooks, "SELECTION",
           "enabled from step 0 on (default: every hook)");
  add_texts(app, "--at", options->at, "STEP:SELECTION", "switch before this step; repeatable");
  add_text(app, "--tier", options->tier, "TIER", "soft, node, specialised or all");
  add_text(app, "--apply", options->apply, "WHEN",
           "switch at each graph's next-launch, or all now");
  add_text(app, "--steps", options->steps, "N",
           "end after N steps (default: when all have finished)");
  add_text(app, "--requests", options->requests, "N", "made-up requests");
  add_text(app, "--layers", options->layers, "N", "layers of the decoder");
  add_text(app, "--hidden", options->hidden, "N", "width of its residual stream");
  add_text(app, "--settle", options->settle, "N", "launches before a graph is specialised");
  add_text(app, "--policy", options->policy, "POLICY",
           "when the ring is full: lossless waits, or shed");
  add_text(app, "--ring", options->ring, "SIZE", "payload ring, e.g. 64KiB");
  add_text(app, "--eager", options->eager, "WHAT", "prefill steps capture same, all or none");
  add_text(app, "--seed", options->seed, "N", "of the made-up requests");
  add_text(app, "--store", options->store, "DIR", "also write what is captured to this store");
  add_store_options(app, options->store_words);
  add_flag(app, "--json", options->json, "print one JSON document");
  add_flag(app, "--quiet", options->quiet, "print the verdict only");
  add_examples(app, kExamples);
  return [options](Console& console) { return graph(*options, console); };
}

}  // namespace graphtap::cli
