#include "llama_cpp/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "graphtap/host_device.hpp"
#include "llama_cpp/batch_plan.hpp"
#include "llama_cpp/bindings.hpp"
#include "llama_cpp/engine.hpp"
#include "llama_cpp/graph_tap.hpp"
#include "llama_cpp/hook_map.hpp"

namespace graphtap::llama {
namespace {

/// Rows of the run that shows the graph: a number no dimension of a row is likely to have.
constexpr std::uint32_t kProbeRows = 5;
constexpr std::uint32_t kMostSequences = 256;  // the engine's own limit

Status check_options(const SessionOptions& options) {
  const auto refuse = [](std::string why) {
    return Status(Code::invalid_argument, std::move(why));
  };
  if (options.max_sequences < 1 || options.max_sequences > kMostSequences) {
    return refuse(fmt::format("max_sequences is {}; it must be 1 to {}", options.max_sequences,
                              kMostSequences));
  }
  const std::uint32_t least = std::max(kProbeRows, options.max_sequences);
  if (options.batch_tokens < least) {
    return refuse(fmt::format("batch_tokens is {}; {} sequences need at least {}",
                              options.batch_tokens, options.max_sequences, least));
  }
  if (options.context_tokens < options.batch_tokens) {
    return refuse(fmt::format("context_tokens is {}; it must be at least batch_tokens, {}",
                              options.context_tokens, options.batch_tokens));
  }
  if (options.threads > 512)
    return refuse(fmt::format("threads is {}; at most 512", options.threads));
  if (options.poll > 100)
    return refuse(fmt::format("poll is {}; it must be 0 to 100", options.poll));
  return {};
}

Result<HookMap> choose_map(const SessionOptions& options, const std::string& architecture) {
  auto builtin = HookMap::builtin(architecture);
  if (options.map.empty()) {
    if (builtin) return std::move(*builtin);
    return Status(
        Code::unsupported,
        fmt::format("model {}: no hook map for the architecture \"{}\" is built in; give one "
                    "(see adapters/llama_cpp/maps/README.md)",
                    options.model.string(), architecture));
  }
  auto own = HookMap::load(options.map);
  if (!own.ok()) return own;
  const auto& fits = own.value().architectures;
  if (!fits.empty() && std::find(fits.begin(), fits.end(), architecture) == fits.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("hook map {} is for {}, the model is \"{}\"", options.map.string(),
                              fmt::join(fits, ", "), architecture));
  }
  if (!builtin) return own;
  builtin->extend(std::move(own).value());
  return std::move(*builtin);
}

std::string why_no_columns(const SessionOptions& options) {
  if (options.flash_attention) return "flash attention hides it; run without flash attention";
  if (options.max_sequences > 1) {
    return "its columns are cache cells of all sequences; run one sequence at a time "
           "(max_sequences 1)";
  }
  return {};
}

std::int32_t most_likely(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

std::filesystem::path default_model_path() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value =
        std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read before threads start
    return value ? value : "";
  };
  if (auto model = variable("GRAPHTAP_MODEL"); !model.empty()) return model;
  auto cache = variable("GRAPHTAP_CACHE");
  if (cache.empty()) {
    const auto base = variable("XDG_CACHE_HOME");
    cache = (base.empty() ? variable("HOME") / ".cache" : base) / "graphtap";
  }
  return cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

const char* to_string(Finish finish) noexcept {
  switch (finish) {
    case Finish::waiting:
      return "waiting";
    case Finish::running:
      return "running";
    case Finish::end_of_text:
      return "end_of_text";
    case Finish::length:
      return "length";
    case Finish::cancelled:
      return "cancelled";
    case Finish::failed:
      return "failed";
  }
  return "unknown";
}

class LlamaSession::Impl {
 public:
  explicit Impl(SessionOptions options) : options_(std::move(options)) {}

  Status open();
  Status attach(Monitor& monitor);
  Result<std::uint64_t> submit(const Prompt& prompt);
  void cancel(std::uint64_t generation);
  Result<bool> step(const SessionCallbacks& callbacks);

  SessionOptions options_;
  GraphTap tap_;
  std::unique_ptr<Engine> engine_;
  Bindings bindings_;
  std::deque<Generation> generations_;
  SessionStats stats_;
  std::string description_;
  std::uint64_t next_step_ = 0;

 private:
  /// What the session keeps of a request besides what the caller sees.
  struct Extra {
    std::uint32_t max_new_tokens = 0;
    bool stop_at_end = true;
    bool cancelled = false;
  };
  struct Active {
    SequenceState state;
    std::int32_t sequence = 0;
  };

  /// What a plan says of each row, in batch order.
  struct Planned {
    std::vector<std::int32_t> tokens, positions;
    std::vector<std::uint32_t> request_rows;  // the last row of each span
  };

  Status probe();
  [[nodiscard]] std::uint64_t cells_needed(std::uint64_t number) const;
  void sweep_cancelled(const SessionCallbacks& callbacks);
  void admit();
  void finish(Active& active, Finish how, const SessionCallbacks& callbacks);
  void drop_finished();
  [[nodiscard]] std::vector<Engine::Row> batch_rows(const std::vector<StepSpan>& spans) const;
  [[nodiscard]] std::vector<RowSpan> planned_rows(const std::vector<StepSpan>& spans) const;
  [[nodiscard]] Planned expect(const std::vector<RowSpan>& planned) const;
  Status decode(const std::vector<StepSpan>& spans, StepReport& report);
  void sample(const std::vector<StepSpan>& spans, const SessionCallbacks& callbacks);

  Monitor* monitor_ = nullptr;
  std::shared_ptr<Lane> lane_;
  bool columns_ = false;  // some installed hook has key columns
  std::vector<Extra> extras_;
  std::deque<std::uint64_t> waiting_;
  std::vector<Active> active_;  // in the order of their rows
};

Status LlamaSession::Impl::open() {
  if (Status status = check_options(options_); !status.ok()) return status;
  auto engine = Engine::open(options_, options_.instrument ? &tap_ : nullptr);
  if (!engine.ok()) return engine.status();
  engine_ = std::move(engine).value();
  description_ = engine_->description();
  return options_.instrument ? probe() : Status{};
}

Status LlamaSession::Impl::probe() {
  auto map = choose_map(options_, engine_->architecture());
  if (!map.ok()) return map.status();
  std::array<Engine::Row, kProbeRows> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].position = static_cast<std::int32_t>(i);
  tap_.record();
  const Status status = engine_->decode(rows);
  const std::vector<GraphNode> graph = tap_.recorded();
  engine_->forget_all();
  if (!status.ok()) return status;
  const ModelFacts facts{options_.model.stem().string(), engine_->layers(), engine_->heads(),
                         kProbeRows, why_no_columns(options_)};
  auto bindings = bind_map(map.value(), graph, facts);
  if (!bindings.ok()) return bindings.status();
  bindings_ = std::move(bindings).value();
  for (const Hook& hook : bindings_.table.hooks()) {
    const auto& shape = hook.row_shape;
    columns_ = columns_ || std::find(shape.begin(), shape.end(), kPerStepColumns) != shape.end();
  }
  tap_.bind(bindings_);
  return {};
}

Status LlamaSession::Impl::attach(Monitor& monitor) {
  if (!options_.instrument) {
    return {Code::invalid_argument, "the session was opened without instrumentation"};
  }
  if (monitor_) return {Code::invalid_argument, "the session has a monitor already"};
  const HookTable& theirs = monitor.table();
  const bool same =
      theirs.size() == bindings_.table.size() &&
      std::equal(theirs.hooks().begin(), theirs.hooks().end(), bindings_.table.hooks().begin(),
                 [](const Hook& a, const Hook& b) {
                   return a.name == b.name && a.row_shape == b.row_shape && a.dtype == b.dtype;
                 });
  if (!same) {
    return {Code::invalid_argument,
            fmt::format(
                "the monitor watches {} ({} hooks), not this session's table of {} ({} hooks)",
                theirs.model(), theirs.size(), bindings_.table.model(), bindings_.table.size())};
  }
  monitor_ = &monitor;
  lane_ = monitor.make_lane();
  return {};
}

Result<std::uint64_t> LlamaSession::Impl::submit(const Prompt& prompt) {
  const auto refuse = [&prompt](std::string why) {
    return Status(Code::invalid_argument, fmt::format("prompt \"{}\": {}", prompt.id, why));
  };
  std::vector<std::int32_t> tokens = prompt.tokens;
  if (tokens.empty()) {
    auto split = engine_->tokenize(prompt.text, prompt.chat);
    if (!split.ok()) return split.status();
    tokens = std::move(split).value();
  }
  if (tokens.empty()) return refuse("it has no tokens");
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= engine_->vocabulary()) {
      return refuse(
          fmt::format("token {} is not in the vocabulary of {}", token, engine_->vocabulary()));
    }
  }
  if (prompt.max_new_tokens < 1) return refuse("max_new_tokens must be at least 1");
  const std::uint64_t needed = tokens.size() + prompt.max_new_tokens - 1;
  if (needed > engine_->context_tokens()) {
    return refuse(fmt::format("{} prompt tokens and {} new ones do not fit a context of {}",
                              tokens.size(), prompt.max_new_tokens, engine_->context_tokens()));
  }
  Generation generation;
  generation.number = generations_.size();
  generation.id = prompt.id;
  generation.prompt_tokens = tokens.size();
  generation.tokens = std::move(tokens);
  extras_.push_back({prompt.max_new_tokens, prompt.stop_at_end, false});
  waiting_.push_back(generation.number);
  stats_.prompt_tokens += generation.prompt_tokens;
  generations_.push_back(std::move(generation));
  return generations_.back().number;
}

void LlamaSession::Impl::cancel(std::uint64_t generation) {
  if (generation < extras_.size()) extras_[generation].cancelled = true;
}

std::uint64_t LlamaSession::Impl::cells_needed(std::uint64_t number) const {
  return generations_[number].prompt_tokens + extras_[number].max_new_tokens - 1;
}

void LlamaSession::Impl::sweep_cancelled(const SessionCallbacks& callbacks) {
  std::vector<std::uint64_t> gone;
  std::erase_if(waiting_, [&](std::uint64_t number) {
    if (!extras_[number].cancelled) return false;
    gone.push_back(number);
    return true;
  });
  for (const std::uint64_t number : gone) {
    generations_[number].finish = Finish::cancelled;
    if (callbacks.on_finish) callbacks.on_finish(generations_[number]);
  }
  for (Active& active : active_) {
    if (extras_[active.state.generation].cancelled) finish(active, Finish::cancelled, callbacks);
  }
  drop_finished();
}

void LlamaSession::Impl::admit() {
  std::uint64_t reserved = 0;
  for (const Active& active : active_) reserved += cells_needed(active.state.generation);
  while (!waiting_.empty() && active_.size() < options_.max_sequences) {
    const std::uint64_t number = waiting_.front();
    if (reserved + cells_needed(number) > engine_->context_tokens()) return;
    waiting_.pop_front();
    reserved += cells_needed(number);
    Generation& generation = generations_[number];
    if (active_.empty()) engine_->forget_all();
    std::int32_t sequence = 0;
    const auto taken = [&](const Active& active) { return active.sequence == sequence; };
    while (std::any_of(active_.begin(), active_.end(), taken)) ++sequence;
    const auto known = static_cast<std::int64_t>(generation.tokens.size());
    active_.push_back({{number, 0, known}, sequence});
    generation.finish = Finish::running;
    generation.first_step = next_step_;
    if (monitor_) generation.request = monitor_->begin_request(generation.id, known);
  }
}

void LlamaSession::Impl::finish(Active& active, Finish how, const SessionCallbacks& callbacks) {
  Generation& generation = generations_[active.state.generation];
  if (generation.finish != Finish::running) return;
  generation.finish = how;
  engine_->forget(active.sequence);
  if (monitor_) monitor_->finish_request(generation.request);
  if (callbacks.on_finish) callbacks.on_finish(generation);
}

void LlamaSession::Impl::drop_finished() {
  std::erase_if(active_, [this](const Active& active) {
    return generations_[active.state.generation].finish != Finish::running;
  });
}

std::vector<Engine::Row> LlamaSession::Impl::batch_rows(const std::vector<StepSpan>& spans) const {
  std::vector<Engine::Row> rows;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::vector<std::int32_t>& tokens = generations_[spans[i].generation].tokens;
    for (std::uint32_t k = 0; k < spans[i].rows; ++k) {
      const std::int64_t token = spans[i].first_token + k;
      rows.push_back({tokens[static_cast<std::size_t>(token)], static_cast<std::int32_t>(token),
                      active_[i].sequence});
    }
  }
  return rows;
}

std::vector<RowSpan> LlamaSession::Impl::planned_rows(const std::vector<StepSpan>& spans) const {
  std::vector<RowSpan> planned;
  for (const StepSpan& span : spans) {
    planned.push_back(
        {generations_[span.generation].request, span.first_token, span.rows, RowFlags::none});
  }
#if defined(GRAPHTAP_BUG_llama_plan_permuted)
  std::reverse(planned.begin(), planned.end());
#endif
  return planned;
}

LlamaSession::Impl::Planned LlamaSession::Impl::expect(const std::vector<RowSpan>& planned) const {
  Planned expected;
  for (const RowSpan& span : planned) {
    const auto at = std::find_if(active_.begin(), active_.end(), [&](const Active& active) {
      return generations_[active.state.generation].request == span.request;
    });
    if (at == active_.end()) continue;  // fewer rows than run: the check says so
    const std::vector<std::int32_t>& tokens = generations_[at->state.generation].tokens;
    for (std::uint32_t k = 0; k < span.rows; ++k) {
      const std::int64_t token = span.first_token + k;
      expected.tokens.push_back(tokens[static_cast<std::size_t>(token)]);
      expected.positions.push_back(static_cast<std::int32_t>(token));
    }
    expected.request_rows.push_back(static_cast<std::uint32_t>(expected.tokens.size()) - 1);
  }
  return expected;
}

Status LlamaSession::Impl::decode(const std::vector<StepSpan>& spans, StepReport& report) {
  const std::vector<Engine::Row> rows = batch_rows(spans);
  report.rows = static_cast<std::uint32_t>(rows.size());
  for (const StepSpan& span : spans) generations_[span.generation].last_step = next_step_;

  Step step;
  Planned expected;
  const Stream stream = inline_stream();
  if (lane_) {
    const std::vector<RowSpan> planned = planned_rows(spans);
    StepShape shape;
    shape.kind = StepKind::eager;
    shape.tokens = planned;
    shape.columns = columns_ ? spans.back().first_token + spans.back().rows : 0;
    step = lane_->begin(shape, stream);
    report.captured = !step.empty();
    if (report.captured) {
      // From the plan, not from the batch: a plan that is not what runs is noticed, too.
      expected = expect(planned);
      tap_.arm({lane_.get(), &step, stream, expected.tokens, expected.positions,
                expected.request_rows, shape.columns});
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const Status status = engine_->decode(rows);
  report.milliseconds = milliseconds_since(start);
  if (report.captured) {
    const std::string difference = tap_.disarm();
    if (!status.ok()) {
      step.invalidate(GapReason::aborted);
    } else if (!difference.empty()) {
      step.invalidate(GapReason::mismatch);
      report.mismatch = difference;
      ++stats_.mismatched_steps;
    }
  }
  step.end();
  ++stats_.steps;
  ++next_step_;
  stats_.rows += report.rows;
  stats_.milliseconds += report.milliseconds;
  stats_.nodes_asked = tap_.nodes_asked();
  stats_.nodes_read = tap_.nodes_read();
  return status;
}

void LlamaSession::Impl::sample(const std::vector<StepSpan>& spans,
                                const SessionCallbacks& callbacks) {
  std::uint32_t row = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    row += spans[i].rows;
    Active& active = active_[i];
    active.state.computed += spans[i].rows;
    if (active.state.computed < active.state.known) continue;  // more of the prompt is to come
    Generation& generation = generations_[active.state.generation];
    const Extra& extra = extras_[active.state.generation];
    const std::int32_t token = most_likely(engine_->logits(row - 1));
    const std::string piece = engine_->piece(token);
    generation.tokens.push_back(token);
    ++active.state.known;
    ++stats_.generated_tokens;
    const bool ended = extra.stop_at_end && engine_->ends_text(token);
    if (!ended) generation.text += piece;
    if (callbacks.on_token) callbacks.on_token(generation, token, piece);
    const std::size_t made = generation.tokens.size() - generation.prompt_tokens;
    if (ended) {
      finish(active, Finish::end_of_text, callbacks);
    } else if (made >= extras_[active.state.generation].max_new_tokens) {
      finish(active, Finish::length, callbacks);
    }
  }
}

Result<bool> LlamaSession::Impl::step(const SessionCallbacks& callbacks) {
  sweep_cancelled(callbacks);
  if (active_.empty() && waiting_.empty()) return false;
  if (callbacks.before_step) {
    callbacks.before_step(next_step_);
    sweep_cancelled(callbacks);
  }
  admit();
  if (active_.empty()) return !waiting_.empty();
  std::vector<SequenceState> states;
  for (const Active& active : active_) states.push_back(active.state);
  const std::vector<StepSpan> spans = plan_rows(states, options_.batch_tokens);
  StepReport report;
  report.step = next_step_;
  report.spans = spans;
  if (Status status = decode(spans, report); !status.ok()) {
    for (Active& active : active_) finish(active, Finish::failed, callbacks);
    drop_finished();
    return status;
  }
  sample(spans, callbacks);
  if (callbacks.after_step) callbacks.after_step(report);
  drop_finished();
  return true;
}

LlamaSession::LlamaSession(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
LlamaSession::~LlamaSession() = default;

Result<std::unique_ptr<LlamaSession>> LlamaSession::open(SessionOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status status = impl->open(); !status.ok()) return status;
  return std::unique_ptr<LlamaSession>(new LlamaSession(std::move(impl)));
}

const HookTable& LlamaSession::table() const noexcept { return impl_->bindings_.table; }
const std::vector<UnmappedHook>& LlamaSession::unmapped() const noexcept {
  return impl_->bindings_.unmapped;
}

Result<HookSet> LlamaSession::resolve(const Selection& selection) const {
  auto set = selection.resolve(table());
  if (set.ok()) return set;
  std::string message = set.status().message();
  for (const auto& term : selection.terms()) {
    if (term.exclude) continue;
    for (const std::string& name : term.names) {
      const HookType* type = table().catalogue().find(name);
      for (const UnmappedHook& hook : unmapped()) {
        if (type && hook.type == type->name)
          message += fmt::format("; {}: {}", hook.type, hook.reason);
      }
    }
  }
  return Status(set.status().code(), message);
}

Status LlamaSession::attach(Monitor& monitor) { return impl_->attach(monitor); }
Result<std::uint64_t> LlamaSession::submit(const Prompt& prompt) { return impl_->submit(prompt); }
void LlamaSession::cancel(std::uint64_t generation) { impl_->cancel(generation); }
Result<bool> LlamaSession::step(const SessionCallbacks& callbacks) {
  return impl_->step(callbacks);
}

Status LlamaSession::run(const SessionCallbacks& callbacks) {
  for (;;) {
    auto more = impl_->step(callbacks);
    if (!more.ok()) return more.status();
    if (!more.value()) return {};
  }
}

const std::deque<Generation>& LlamaSession::generations() const noexcept {
  return impl_->generations_;
}
const SessionStats& LlamaSession::stats() const noexcept { return impl_->stats_; }
std::uint64_t LlamaSession::next_step() const noexcept { return impl_->next_step_; }
std::span<const float> LlamaSession::logits(std::uint32_t row) const noexcept {
  return impl_->engine_->logits(row);
}
std::span<const float> LlamaSession::embeddings(std::uint32_t row) const noexcept {
  return impl_->engine_->embeddings(row);
}
Result<std::vector<std::int32_t>> LlamaSession::tokenize(std::string_view text, bool chat) const {
  return impl_->engine_->tokenize(text, chat);
}
std::string LlamaSession::piece(std::int32_t token) const { return impl_->engine_->piece(token); }
const std::string& LlamaSession::description() const noexcept { return impl_->description_; }

}  // namespace graphtap::llama
