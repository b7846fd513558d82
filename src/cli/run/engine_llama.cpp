#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/interrupt.hpp"
#include "cli/run/engine.hpp"
#include "cli/run/engine_llama_hooks.hpp"
#include "cli/run/run_result.hpp"
#include "cli/transcript.hpp"
#include "cli/values.hpp"
#include "cli/watched_sink.hpp"
#include "graphtap/control.hpp"
#include "graphtap/host_device.hpp"
#include "graphtap/store_reader.hpp"
#include "graphtap/store_sink.hpp"
#include "llama_cpp/session.hpp"

namespace graphtap::cli {
namespace {

constexpr std::chrono::seconds kDeadline{30};  // to deliver what is in flight at the end
using Clock = std::chrono::steady_clock;

/// One `graphtap run`.
class LlamaRun {
 public:
  LlamaRun(const RunOptions& options, Console& console)
      : options_(options), console_(console), progress_(console, !options.json && !options.quiet) {}

  Exit run();

 private:
  void load();
  void submit();
  void start();
  void generate();
  void show_progress(std::uint64_t step);
  void finish();
  void note_request(const llama::Generation& generation);
  void write_texts();
  void print();
  [[nodiscard]] Exit verdict() const;

  const RunOptions& options_;
  Console& console_;
  ProgressLine progress_;
  std::unique_ptr<llama::LlamaSession> session_;
  std::unique_ptr<Schedule> schedule_;
  std::shared_ptr<WatchedSink> store_;
  std::shared_ptr<TotalsSink> totals_;
  std::unique_ptr<Monitor> monitor_;        // goes before the session, which it does not need
  std::unique_ptr<ControlServer> control_;  // and this before the monitor
  Clock::time_point started_;
  RunResult result_;
};

void LlamaRun::load() {
  llama::SessionOptions session;
  session.model = options_.model.value_or(llama::default_model_path());
  session.map = options_.map;
  session.threads = options_.threads;
  session.context_tokens = options_.context;
  session.batch_tokens = options_.batch;
  session.max_sequences = options_.sequences;
  session.on_load = [this](float share) {
    progress_.show(fmt::format("loading the model: {:.0f}%", 100 * share));
  };
  auto opened = llama::LlamaSession::open(session);
  if (!opened.ok()) {
    const bool fetched = !options_.model && opened.status().code() == Code::not_found;
    throw Error(opened.status().code(),
                opened.status().message() +
                    (fetched ? "; scripts/fetch_engine.sh fetches it, --model names another" : ""));
  }
  session_ = std::move(opened).value();
  result_.model = session_->description();
  result_.hooks = session_->table().size();
}

void LlamaRun::submit() {
  for (const RunPrompt& prompt : options_.prompts) {
    llama::Prompt wanted;
    wanted.id = prompt.id;
    wanted.text = prompt.text;
    wanted.chat = options_.chat;
    wanted.max_new_tokens = options_.max_tokens;
    wanted.stop_at_end = !options_.ignore_end;
    if (const auto number = session_->submit(wanted); !number.ok()) throw Error(number.status());
  }
}

void LlamaRun::start() {
  const HookTable& table = session_->table();
  std::vector<std::shared_ptr<Sink>> sinks;
  totals_ = std::make_shared<TotalsSink>(table);
  sinks.push_back(totals_);
  if (options_.store) {
    store_ = std::make_shared<WatchedSink>(
        open_store_sink(*options_.store, table, options_.store_options).value_or_throw());
    sinks.push_back(store_);
    result_.store = options_.store->string();
  }
  MonitorOptions monitor;
  monitor.selection = schedule_->switches().front().selection.text();
  monitor.ring_bytes = options_.ring_bytes;
  monitor.policy = options_.policy;
  monitor.eager = options_.eager;
  monitor.retry = WatchedSink::retry();
  monitor_ =
      std::make_unique<Monitor>(make_host_device(), table, std::move(monitor), std::move(sinks));
  if (const Status status = session_->attach(*monitor_); !status.ok()) throw Error(status);
  if (!options_.control.empty()) {
    const char* token = std::getenv("GRAPHTAP_TOKEN");
    control_ = ControlServer::start(*monitor_, {options_.control, token != nullptr ? token : ""})
                   .value_or_throw();
  }
}

void LlamaRun::generate() {
  llama::SessionCallbacks callbacks;
  callbacks.before_step = [this](std::uint64_t step) {
    // Step 0's set is the monitor's own; every later switch is this one call.
    if (const Switch* entry = schedule_->at(step); entry && step > 0) {
      (void)monitor_->enable(
          entry->selection.text());  // cannot fail without graphs: it was resolved before
    }
  };
  callbacks.after_step = [this](const llama::StepReport& report) { show_progress(report.step); };
  started_ = Clock::now();
  for (bool ended = false;;) {
    const bool interrupted = InterruptGuard::asked();
    if ((interrupted || (store_ && store_->broken())) && !ended) {
      ended = true;
      result_.interrupted = interrupted;
      for (const llama::Generation& generation : session_->generations()) {
        session_->cancel(generation.number);
      }
    }
    const Result<bool> more = session_->step(callbacks);
    if (!more.ok()) {
      result_.engine = more.status();
      break;
    }
    if (!more.value()) break;
  }
  result_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  progress_.clear();
}

void LlamaRun::show_progress(std::uint64_t step) {
  const llama::SessionStats& stats = session_->stats();
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::size_t running = 0, waiting = 0;
  for (const llama::Generation& generation : session_->generations()) {
    running += generation.finish == llama::Finish::running ? 1 : 0;
    waiting += generation.finish == llama::Finish::waiting ? 1 : 0;
  }
  progress_.show(fmt::format(
      "step {}: {} running, {} waiting, {:.0f} tokens/s, {} captured, set: {}", step, running,
      waiting, static_cast<double>(stats.generated_tokens) / std::max(seconds, 1e-3),
      human_bytes(totals_->bytes()),
      one_line(in_words(schedule_->switches()[schedule_->phase(step)].selection), 40)));
}

void LlamaRun::note_request(const llama::Generation& generation) {
  RunRequest request;
  request.id = generation.id;
  request.prompt = options_.prompts[generation.number].text;
  request.response = generation.text;
  request.serial = generation.request ? generation.request->serial : 0;
  request.prompt_tokens = generation.prompt_tokens;
  request.response_tokens = generation.tokens.size() - generation.prompt_tokens;
  request.first_step = generation.first_step;
  request.last_step = generation.last_step;
  request.finish = llama::to_string(generation.finish);
  result_.requests.push_back(std::move(request));
}

void LlamaRun::finish() {
  const llama::SessionStats& stats = session_->stats();
  result_.steps = stats.steps;
  result_.generated = stats.generated_tokens;
  result_.mismatched = stats.mismatched_steps;
  for (const llama::Generation& generation : session_->generations()) note_request(generation);
  progress_.show("delivering what was captured", true);
  control_.reset();
  result_.closed = close_monitor(*monitor_, store_.get(), kDeadline);
  progress_.clear();
  result_.stats = monitor_->stats();
  result_.totals = group_totals(totals_->totals());
  if (store_) result_.stored = store_->lost(result_.stats);
  if (options_.store) write_texts();
}

// The number of the run in its store, and the text of its tokens beside it.
void LlamaRun::write_texts() {
  const auto reader = StoreReader::open(*options_.store);
  if (!reader.ok() || reader.value()->runs().empty()) {
    if (!reader.ok()) warn(console_, reader.status().message());
    return;
  }
  const RunInfo& run = *reader.value()->runs().back();
  result_.run_number = run.number;
  if (!options_.transcript) return;
  Transcript transcript;
  transcript.model = session_->description();
  for (const llama::Generation& generation : session_->generations()) {
    if (!generation.request) continue;
    RequestText& text = transcript.requests[generation.request->serial];
    text.id = generation.id;
    text.prompt_tokens = generation.prompt_tokens;
    text.tokens = generation.tokens;
    text.finish = llama::to_string(generation.finish);
    for (const std::int32_t token : generation.tokens)
      text.pieces.push_back(session_->piece(token));
  }
  if (const Status status = write_transcript(*options_.store, run.id, transcript); !status.ok()) {
    warn(console_, status.message());
  }
}

void LlamaRun::print() {
  if (options_.json) {
    console_.out << run_json(result_, *schedule_).dump(2) << '\n';
  } else {
    console_.out << run_text(result_, *schedule_, options_.quiet);
  }
  for (const Switch* late : schedule_->unreached(result_.steps)) {
    warn(console_, fmt::format("--at {}: was never reached, the run had {}", late->step,
                               counted(result_.steps, "step")));
  }
  if (options_.eager == EagerPolicy::all && schedule_->switches().size() > 1) {
    warn(console_, "--eager all captures every hook in every step, whatever --hooks and --at say");
  }
  const Counts& total = result_.stats.total;
  if (total.missing() + total.shed() > 0) {
    warn(console_,
         fmt::format("{} missing, {} shed: they are in the store as gaps (graphtap verify "
                     "--explain)",
                     counted(total.missing(), "record"), counted(total.shed(), "record")));
  }
}

Exit LlamaRun::verdict() const {
  for (const auto& [status, what] : {std::pair{&result_.engine, "the engine stopped"},
                                     std::pair{&result_.stored, "the store lost records"},
                                     std::pair{&result_.closed, "not everything was delivered"}}) {
    if (status->ok()) continue;
    console_.err << "graphtap: " << what << ": " << status->message() << '\n';
    return exit_for(status->code());
  }
  return result_.interrupted ? Exit::interrupted : Exit::ok;
}

Exit LlamaRun::run() {
  const InterruptGuard guard;
  load();
  progress_.clear();
  if (InterruptGuard::asked()) return Exit::interrupted;
  if (options_.list_hooks) return list_hooks(*session_, options_.json, console_);
  schedule_ = std::make_unique<Schedule>(
      options_.hooks, options_.at, session_->table(),
      [this](const Selection& selection) { return session_->resolve(selection); });
  check_ring(options_, session_->table(), *schedule_);
  submit();
  start();
  if (!options_.json && !options_.quiet) {
    console_.out << fmt::format("{}; {}, {} at once; {}\n", session_->description(),
                                counted(options_.prompts.size(), "prompt"),
                                std::min<std::size_t>(options_.sequences, options_.prompts.size()),
                                counted(session_->table().size(), "hook"))
                 << std::flush;
  }
  generate();
  finish();
  print();
  return verdict();
}

}  // namespace

Exit run_engine(const RunOptions& options, Console& console) {
  return LlamaRun(options, console).run();
}

}  // namespace graphtap::cli
