// A decoder that serves a request mix from captured CUDA graphs, observed and switched through
// graphtap's public API.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "graphtap/cuda_device.hpp"
#include "graphtap/store_sink.hpp"
#include "runners.hpp"
#include "timing.hpp"

namespace {

using namespace example;
using nlohmann::json;

constexpr int kNoGpu = 77;  // what test runners take for "skipped"

struct Settings {
  ModelSize size;
  MixOptions mix;
  std::vector<std::string> at;
  std::string store, json_file, stamp;
  bool check = false, timing = true;
};

// Four of the layers, those a probe would be put on.
std::string some_layers(int layers) {
  const int first = layers / 3;
  return fmt::format("resid_pre:{}-{}", first, std::min(first + 3, layers - 1));
}

MonitoredRunner::Schedule parse_schedule(const Settings& settings,
                                         const graphtap::HookTable& table) {
  MonitoredRunner::Schedule schedule{{0, table.none()}};
  for (const std::string& text : settings.at) {
    const auto entry = graphtap::parse_schedule_entry(text, table.catalogue()).value_or_throw();
    if (!(entry.selection.sampling() == graphtap::Sampling{})) {
      throw graphtap::Error(graphtap::Code::invalid_argument,
                            text + ": a schedule here takes no @ conditions");
    }
    schedule[entry.step] = entry.selection.is_default()
                               ? table.all()
                               : entry.selection.resolve(table).value_or_throw();
  }
  return schedule;
}

struct Outcome {
  Served plain, served;
  graphtap::Stats stats;
  std::vector<std::string> problems;
  std::uint64_t rows = 0;  // checked and right
};

// The mix twice: as the model is, then observed. What differs is a problem.
Outcome serve_twice(Model& model, const Settings& settings) {
  Outcome outcome;
  const auto mix = make_mix(settings.mix, settings.size);
  ReferenceRunner reference(model, mix, settings.mix);
  outcome.plain = serve(mix, settings.mix, reference);

  const graphtap::HookTable table = make_table(settings.size);
  const auto schedule = parse_schedule(settings, table);
  RowChecker checker(model, reference, outcome.plain.tokens);
  std::vector<std::shared_ptr<graphtap::Sink>> sinks;
  if (settings.check) sinks.push_back(checker.sink());
  if (!settings.store.empty())
    sinks.push_back(graphtap::open_store_sink(settings.store, table).value_or_throw());
  if (sinks.empty()) sinks.push_back(graphtap::make_null_sink());

  graphtap::MonitorOptions options;
  options.selection = "none";
  graphtap::Monitor monitor(graphtap::make_cuda_device().value_or_throw(), table, options, sinks);
  {
    MonitoredRunner runner(model, monitor, settings.mix, schedule);
    outcome.served = serve(mix, settings.mix, runner);
    const auto flushed = monitor.flush(std::chrono::seconds(60));
    outcome.stats = monitor.stats();
    outcome.problems = runner.errors();
    if (!flushed.ok()) outcome.problems.push_back("flush: " + flushed.message());
    if (settings.check) {
      for (auto& problem : checker.problems()) outcome.problems.push_back(std::move(problem));
      const auto arrived = checker.rows();
      outcome.rows = std::accumulate(arrived.begin(), arrived.end(), std::uint64_t{0});
      for (std::size_t hook = 0; hook < arrived.size(); ++hook) {
        if (arrived[hook] == runner.expected_rows()[hook]) continue;
        outcome.problems.push_back(
            fmt::format("{}: {} rows arrived and were right, of {} computed while it was on",
                        table[static_cast<graphtap::HookId>(hook)].name, arrived[hook],
                        runner.expected_rows()[hook]));
      }
      if (outcome.rows == 0)
        outcome.problems.push_back("no row was checked: the schedule enables no hook");
    }
  }
  if (const auto closed = monitor.close(); !closed.ok())
    outcome.problems.push_back("close: " + closed.message());

  const graphtap::Counts& total = outcome.stats.total;
  if (outcome.served.tokens != outcome.plain.tokens) {
    outcome.problems.push_back("the monitored model generated other tokens");
  }
  if (total.planned != total.delivered + total.missing() + total.shed()) {
    outcome.problems.push_back("records are unaccounted for");
  }
  if (total.missing() + total.shed() + outcome.stats.device_errors > 0) {
    outcome.problems.push_back(
        fmt::format("{} records missing, {} shed, {} device errors {}", total.missing(),
                    total.shed(), outcome.stats.device_errors, outcome.stats.last_device_error));
  }
  for (const auto& [step, hooks] : schedule) {
    if (step >= static_cast<std::uint64_t>(outcome.served.steps)) {
      outcome.problems.push_back(
          fmt::format("--at {}: there were only {} steps", step, outcome.served.steps));
    }
  }
  return outcome;
}

void print(const Outcome& outcome, const std::vector<Timing>& timings, int rows) {
  const auto& served = outcome.served;
  const auto& stats = outcome.stats;
  fmt::print("{:<22}{:>12}\n", "requests", served.tokens.size());
  fmt::print("{:<22}{:>12}   {} decode, {} prefill\n", "steps", served.steps, served.decode_steps,
             served.steps - served.decode_steps);
  fmt::print("{:<22}{:>12}\n", "tokens computed", served.rows);
  fmt::print("{:<22}{:>12}\n", "switches", stats.switches);
  fmt::print("{:<22}{:>12}   {} bytes\n", "records delivered", stats.total.delivered,
             stats.total.bytes);
  fmt::print("{:<22}{:>12}\n{:<22}{:>12}\n", "records missing", stats.total.missing(),
             "records shed", stats.total.shed());
  fmt::print("{:<22}{:>12}\n", "rows checked", outcome.rows);
  for (const Timing& timing : timings) {
    const bool bare = &timing == &timings.front();
    fmt::print("{:<22}{:>9.2f} us   a decode step of {} rows{}\n",
               bare ? timing.what : "hooks " + timing.what, timing.median(), rows,
               bare ? "" : fmt::format(", {:+.2f} us", timing.median() - timings[0].median()));
  }
  for (const std::string& problem : outcome.problems) fmt::print("PROBLEM {}\n", problem);
  fmt::print("{}\n", outcome.problems.empty() ? "all right" : "FAILED");
}

void write_json(const Settings& settings, const std::string& command, const Outcome& outcome,
                const std::vector<Timing>& timings, int rows) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "device properties");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "driver version");
  check(cudaRuntimeGetVersion(&runtime), "runtime version");
  json file = {{"benchmark", "cuda_decode"},
               {"environment",
                {{"gpu", properties.name},
                 {"driver_cuda", driver},
                 {"runtime_cuda", runtime},
                 {"stamp", settings.stamp},
                 {"command", command}}},
               {"model",
                {{"layers", settings.size.layers},
                 {"hidden", settings.size.hidden},
                 {"intermediate", settings.size.intermediate},
                 {"vocab", settings.size.vocab}}},
               {"requests", settings.mix.requests},
               {"seed", settings.mix.seed},
               {"steps", outcome.served.steps},
               {"decode_steps", outcome.served.decode_steps},
               {"tokens", outcome.served.rows},
               {"switches", outcome.stats.switches},
               {"records", outcome.stats.total.delivered},
               {"bytes", outcome.stats.total.bytes},
               {"missing", outcome.stats.total.missing()},
               {"shed", outcome.stats.total.shed()},
               {"checked", settings.check},
               {"rows_checked", outcome.rows},
               {"problems", outcome.problems},
               {"step_time", json::array()}};
  for (const Timing& timing : timings) {
    file["step_time"].push_back({{"hooks", timing.what},
                                 {"rows", rows},
                                 {"median_us", timing.median()},
                                 {"samples", timing.us}});
  }
  std::ofstream out(settings.json_file);
  out << file.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + settings.json_file);
}

int run(const Settings& settings, const std::string& command) {
  Model model(settings.size);
  const Outcome outcome = serve_twice(model, settings);
  std::vector<Timing> timings;
  const int rows = std::min(8, settings.mix.max_batch);
  if (settings.timing) timings = time_steps(model, rows, some_layers(settings.size.layers));
  print(outcome, timings, rows);
  if (!settings.json_file.empty()) write_json(settings, command, outcome, timings, rows);
  return outcome.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  ModelSize& size = settings.size;
  CLI::App app(
      "Serves a synthetic request mix with continuous batching: prefill as eager steps, decode "
      "from captured CUDA\n"
      "graphs of 1, 2, 4, 8 and 16 rows. Runs it twice, without a monitor and observed, hooks "
      "switched meanwhile.");
  app.footer(
      "Exit codes: 0 all right, 1 a check failed or an error, 2 wrong usage, 77 there is no GPU.");
  app.add_option("--at", settings.at,
                 "STEP:SELECTION from that step on, e.g. 30:resid_pre:4-7 (repeatable)");
  app.add_flag("--check", settings.check,
               "Compare every row that arrives with the unmonitored run");
  app.add_option("--store", settings.store, "Keep what is captured in this store");
  app.add_option("--json", settings.json_file, "Write the figures to this file");
  app.add_option("--stamp", settings.stamp, "Hash of the sources, kept in that file");
  app.add_flag("!--no-timing", settings.timing, "Leave out the step times");
  app.add_option("--layers", size.layers, "Layers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--hidden", size.hidden, "Width, in steps of 64")
      ->check(CLI::Range(64, 16384))
      ->capture_default_str();
  app.add_option("--intermediate", size.intermediate, "Width of the MLP")
      ->check(CLI::Range(64, 65536))
      ->capture_default_str();
  app.add_option("--vocab", size.vocab, "Tokens")
      ->check(CLI::Range(64, 262144))
      ->capture_default_str();
  app.add_option("--requests", settings.mix.requests, "Requests")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", settings.mix.seed, "Of the request mix")->capture_default_str();
  app.add_option("--batch", settings.mix.max_batch, "Requests decoded at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--chunk", settings.mix.chunk, "Prompt tokens a prefill step")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (size.hidden % 64 != 0 || size.intermediate % 8 != 0 || size.vocab % 8 != 0) {
    fmt::print(stderr,
               "cuda_decode: --hidden must be a multiple of 64, --intermediate and --vocab of 8\n");
    return 2;
  }
  size.slots = settings.mix.max_batch;
  size.max_rows = std::max(settings.mix.chunk, 64);
  if (settings.at.empty()) {
    settings.at = {"20:" + some_layers(size.layers), "60:full", "110:none",
                   "140:final_logits,mlp_out"};
  }
  std::string command = std::filesystem::path(argv[0]).filename();
  for (int i = 1; i < argc; ++i) command += " " + std::string(argv[i]);

  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print(stderr, "cuda_decode: there is no GPU here\n");
    return kNoGpu;
  }
  try {
    return run(settings, command);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_decode: {}\n", error.what());
    return 1;
  }
}
