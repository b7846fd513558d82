// A session's steps: who is in the batch, what is planned, what runs, what is sampled.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "graphtap/host_device.hpp"
#include "llama_cpp/session_impl.hpp"

namespace graphtap::llama {
namespace {

std::int32_t most_likely(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

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
    generations_[number].finish = Finish::cancelled;
    gone.push_back(number);
    return true;
  });
  for (Active& active : active_) {
    if (!extras_[active.state.generation].cancelled) continue;
    finish(active, Finish::cancelled);
    gone.push_back(active.state.generation);
  }
  drop_finished();
  for (const std::uint64_t number : gone) {
    if (callbacks.on_finish) callbacks.on_finish(generations_[number]);
  }
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

void LlamaSession::Impl::finish(Active& active, Finish how) {
  Generation& generation = generations_[active.state.generation];
  generation.finish = how;
  engine_->forget(active.sequence);
  if (monitor_) monitor_->finish_request(generation.request);
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

std::vector<LlamaSession::Impl::Sampled> LlamaSession::Impl::sample(
    const std::vector<StepSpan>& spans) {
  std::vector<Sampled> made;
  std::uint32_t row = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    row += spans[i].rows;
    Active& active = active_[i];
    active.state.computed += spans[i].rows;
    if (active.state.computed < active.state.known) continue;  // more of the prompt is to come
    Generation& generation = generations_[active.state.generation];
    const Extra& extra = extras_[active.state.generation];
    const std::int32_t token = most_likely(engine_->logits(row - 1));
    made.push_back({generation.number, token, engine_->piece(token)});
    generation.tokens.push_back(token);
    ++active.state.known;
    ++stats_.generated_tokens;
    const bool ended = extra.stop_at_end && engine_->ends_text(token);
    if (!ended) generation.text += made.back().piece;
    if (ended) {
      finish(active, Finish::end_of_text);
    } else if (generation.tokens.size() - generation.prompt_tokens >= extra.max_new_tokens) {
      finish(active, Finish::length);
    }
  }
  drop_finished();
  return made;
}

void LlamaSession::Impl::fail_all(const SessionCallbacks& callbacks) {
  std::vector<std::uint64_t> gone;
  for (Active& active : active_) {
    finish(active, Finish::failed);
    gone.push_back(active.state.generation);
  }
  drop_finished();
  for (const std::uint64_t number : gone) {
    if (callbacks.on_finish) callbacks.on_finish(generations_[number]);
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
  if (active_.empty())
    return true;  // all were cancelled just now; the next call says whether more came
  std::vector<SequenceState> states;
  for (const Active& active : active_) states.push_back(active.state);
  const std::vector<StepSpan> spans = plan_rows(states, options_.batch_tokens);
  StepReport report;
  report.step = next_step_;
  report.spans = spans;
  if (Status status = decode(spans, report); !status.ok()) {
    fail_all(callbacks);
    return status;
  }
  const std::vector<Sampled> made = sample(spans);
  for (const Sampled& sampled : made) {
    const Generation& generation = generations_[sampled.generation];
    if (callbacks.on_token) callbacks.on_token(generation, sampled.token, sampled.piece);
    if (generation.finish != Finish::running && callbacks.on_finish)
      callbacks.on_finish(generation);
  }
  if (callbacks.after_step) callbacks.after_step(report);
  return true;
}

}  // namespace graphtap::llama
