#include "integration/support/llama_support.hpp"

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>

#include <cmath>

#include "graphtap/host_device.hpp"

namespace graphtap::llama::test {
namespace {

void add(Verdict& verdict, bool right, const std::string& what) {
  ++verdict.checked;
  if (!right) verdict.wrong.push_back(what);
}

std::string place(std::size_t request, std::int64_t token, int layer) {
  return fmt::format("request {} token {} layer {}", request, token, layer);
}

std::vector<float> sum(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> result(a.size());
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) result[i] = a[i] + b[i];
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool is_norm(const std::vector<float>& out, const std::vector<float>& in,
             const std::string& weight) {
  const auto it = norms().weights.find(weight);
  if (it == norms().weights.end() || in.empty() || out.size() != in.size()) return false;
  double squares = 0;
  for (const float x : in) squares += static_cast<double>(x) * x;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(in.size()) + norms().epsilon);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double expected = in[i] * scale * it->second[i];
    worst = std::max(worst, std::abs(expected - static_cast<double>(out[i])));
    largest = std::max(largest, std::abs(expected));
  }
  return worst <= 1e-5 * largest;
}

Verdict check_bits(
    const Captured& captured, const std::string& hook,
    const std::map<std::pair<std::uint64_t, std::int64_t>, std::vector<float>>& truth) {
  Verdict verdict;
  for (const auto& [request, hooks] : captured.requests) {
    for (const auto& [token, row] : captured.rows(request, hook)) {
      const auto it = truth.find({request, token});
      const auto mine = values<float>(captured, request, hook, token);
      add(verdict, it != truth.end() && same_bits(mine, it->second), place(request, token, -1));
    }
  }
  return verdict;
}

}  // namespace

const Rows& Captured::rows(std::size_t request, const std::string& hook) const {
  static const Rows kNone;
  const auto it = requests.find(request);
  if (it == requests.end()) return kNone;
  const auto found = it->second.find(hook);
  return found == it->second.end() ? kNone : found->second;
}

std::size_t Captured::row_count() const {
  std::size_t count = 0;
  for (const auto& [request, hooks] : requests) {
    for (const auto& [hook, rows] : hooks) count += rows.size();
  }
  return count;
}

std::string layer_hook(int layer, const std::string& type) {
  return fmt::format("blocks.{}.{}", layer, type);
}

Watched::Watched(SessionOptions options, MonitorOptions monitor) {
  if (options.model.empty()) options = small_options();
  if (monitor.ring_bytes == MonitorOptions{}.ring_bytes) monitor.ring_bytes = 64ull << 20;
  session_ = LlamaSession::open(std::move(options)).value_or_throw();
  Callbacks sink;
  sink.on_slice = [this](const CallbackSlice& slice) {
    const std::lock_guard lock(mutex_);
    const std::size_t request = order_.at(slice.slice.request->serial);
    const std::string& hook = slice.record.hook->name;
    for (std::uint32_t i = 0; i < slice.slice.rows; ++i) {
      const std::int64_t token = slice.slice.first_token + i;
      const auto data = slice.data.subspan(i * slice.record.row_bytes, slice.record.row_bytes);
      if (!captured_.requests[request][hook].emplace(token, Row(data.begin(), data.end())).second) {
        ++captured_.duplicates;
      }
      captured_.steps[request][hook][token] = slice.step.step;
      captured_.columns[request][hook][token] = slice.record.columns;
    }
  };
  sink.on_gap = [this](const DeliveredStep& step, const Gap& gap) {
    const std::lock_guard lock(mutex_);
    captured_.gaps.push_back(
        fmt::format("step {} {}: {}", step.step, gap.hook->name, to_string(gap.reason)));
  };
  sink.on_event = [this](const RequestEvent& event) {
    const std::lock_guard lock(mutex_);
    if (event.kind == RequestEvent::Kind::begun) {
      order_.emplace(event.request->serial, order_.size());
    } else if (event.kind == RequestEvent::Kind::finished) {
      captured_.finished.push_back(event.request->id);
    }
  };
  monitor_ = std::make_unique<Monitor>(
      make_host_device(), session_->table(), std::move(monitor),
      std::vector<std::shared_ptr<Sink>>{make_callback_sink("keep", std::move(sink))});
  const Status status = session_->attach(*monitor_);
  if (!status.ok()) throw Error(status);
}

void Watched::submit(const std::vector<Prompt>& prompts) {
  for (const Prompt& prompt : prompts) {
    const auto number = session_->submit(prompt);
    ASSERT_TRUE(number.ok()) << number.status().message();
  }
}

void Watched::run() {
  SessionCallbacks wrapped = callbacks;
  wrapped.after_step = [this](const StepReport& report) {
    outputs_.spans.emplace_back(report.spans.begin(), report.spans.end());
    std::uint32_t row = 0;
    for (const StepSpan& span : report.spans) {
      for (std::uint32_t i = 0; i < span.rows; ++i, ++row) {
        const std::pair key(span.generation, span.first_token + i);
        const auto logits = session_->logits(row);
        const auto embeddings = session_->embeddings(row);
        outputs_.logits[key].assign(logits.begin(), logits.end());
        outputs_.embeddings[key].assign(embeddings.begin(), embeddings.end());
      }
    }
    if (callbacks.after_step) callbacks.after_step(report);
  };
  const Status status = session_->run(wrapped);
  EXPECT_TRUE(status.ok()) << status.message();
  flush();
}

void Watched::flush() {
  const Status status = monitor_->flush(std::chrono::seconds(60));
  EXPECT_TRUE(status.ok()) << status.message();
}

Captured Watched::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

SessionOptions small_options() {
  SessionOptions options;
  options.model = default_model_path();
  options.threads =
      1;  // the engine's threads spin at barriers: two of them crawl on a busy machine
  options.context_tokens = 512;
  options.batch_tokens = 32;
  options.max_sequences = 3;
  return options;
}

Prompt ask(const std::string& id, const std::string& text, std::uint32_t new_tokens) {
  Prompt prompt;
  prompt.id = id;
  prompt.text = text;
  prompt.max_new_tokens = new_tokens;
  prompt.stop_at_end = false;
  return prompt;
}

std::vector<Prompt> three_prompts(std::uint32_t new_tokens) {
  return {ask("fox", "The quick brown fox jumps over the lazy dog, and then it", new_tokens),
          ask("capital", "The capital of France is", new_tokens + 3),
          ask("prime", "A prime number is a natural number that", new_tokens + 5)};
}

const Norms& norms() {
  static const Norms kNorms = [] {
    Norms read;
    ggml_context* tensors = nullptr;
    gguf_context* file = gguf_init_from_file(default_model_path().c_str(), {false, &tensors});
    if (!file)
      throw Error(Code::not_found, "the test model is missing; run scripts/fetch_engine.sh");
    read.epsilon =
        gguf_get_val_f32(file, gguf_find_key(file, "llama.attention.layer_norm_rms_epsilon"));
    read.layers =
        static_cast<int>(gguf_get_val_u32(file, gguf_find_key(file, "llama.block_count")));
    for (ggml_tensor* t = ggml_get_first_tensor(tensors); t; t = ggml_get_next_tensor(tensors, t)) {
      const std::string name = t->name;
      if (t->type != GGML_TYPE_F32 || name.find("norm.weight") == std::string::npos) continue;
      const auto* data = static_cast<const float*>(t->data);
      read.weights[name].assign(data, data + t->ne[0]);
    }
    gguf_free(file);
    ggml_free(tensors);
    return read;
  }();
  return kNorms;
}

Verdict check_residual_sums(const Captured& captured) {
  Verdict verdict;
  for (const auto& [request, hooks] : captured.requests) {
    for (const auto& [token, row] : captured.rows(request, "embed")) {
      const auto get = [&, r = request, t = token](const std::string& hook) {
        return values<float>(captured, r, hook, t);
      };
      add(verdict, same_bits(get("embed"), get(layer_hook(0, "resid_pre"))),
          place(request, token, 0) + ": embed is not what enters the first layer");
      for (int layer = 0; layer < norms().layers; ++layer) {
        const std::string where = place(request, token, layer);
        const auto mid = get(layer_hook(layer, "resid_mid"));
        add(verdict,
            same_bits(sum(get(layer_hook(layer, "resid_pre")), get(layer_hook(layer, "attn_out"))),
                      mid),
            where + ": resid_pre + attn_out is not resid_mid");
        const auto next = layer + 1 < norms().layers ? layer_hook(layer + 1, "resid_pre")
                                                     : std::string("resid_final");
        add(verdict, same_bits(sum(mid, get(layer_hook(layer, "mlp_out"))), get(next)),
            where + ": resid_mid + mlp_out is not what enters the next layer");
      }
    }
  }
  return verdict;
}

Verdict check_norms(const Captured& captured) {
  Verdict verdict;
  for (const auto& [request, hooks] : captured.requests) {
    for (const auto& [token, row] : captured.rows(request, "resid_final")) {
      const auto get = [&, r = request, t = token](const std::string& hook) {
        return values<float>(captured, r, hook, t);
      };
      for (int layer = 0; layer < norms().layers; ++layer) {
        const std::string where = place(request, token, layer);
        add(verdict,
            is_norm(get(layer_hook(layer, "ln1")), get(layer_hook(layer, "resid_pre")),
                    fmt::format("blk.{}.attn_norm.weight", layer)),
            where + ": ln1 is not the norm of resid_pre");
        add(verdict,
            is_norm(get(layer_hook(layer, "ln2")), get(layer_hook(layer, "resid_mid")),
                    fmt::format("blk.{}.ffn_norm.weight", layer)),
            where + ": ln2 is not the norm of resid_mid");
      }
      add(verdict, is_norm(get("final_ln"), get("resid_final"), "output_norm.weight"),
          place(request, token, -1) + ": final_ln is not the norm of resid_final");
    }
  }
  return verdict;
}

Verdict check_token_ids(const Captured& captured, const std::deque<Generation>& truth) {
  Verdict verdict;
  for (const Generation& generation : truth) {
    const Rows& rows = captured.rows(generation.number, "token_ids");
    const std::size_t computed = generation.tokens.size() - 1;  // the last one is never fed back
    add(verdict, rows.size() == computed,
        fmt::format("request {} has {} token ids, {} were computed", generation.number, rows.size(),
                    computed));
    for (std::size_t i = 0; i < computed; ++i) {
      const auto token = static_cast<std::int64_t>(i);
      const auto id = values<std::int32_t>(captured, generation.number, "token_ids", token);
      add(verdict, id.size() == 1 && id[0] == generation.tokens[i],
          place(generation.number, token, -1) + ": the token id is not the request's own");
    }
  }
  return verdict;
}

Verdict check_embeddings(const Captured& captured, const EngineOutputs& truth) {
  return check_bits(captured, "final_ln", truth.embeddings);
}

Verdict check_logits(const Captured& captured, const EngineOutputs& truth) {
  return check_bits(captured, "final_logits", truth.logits);
}

Verdict check_same_rows(const Captured& part, const Captured& whole) {
  Verdict verdict;
  for (const auto& [request, hooks] : part.requests) {
    for (const auto& [hook, rows] : hooks) {
      const Rows& reference = whole.rows(request, hook);
      for (const auto& [token, row] : rows) {
        const auto it = reference.find(token);
        add(verdict, it != reference.end() && it->second == row,
            fmt::format("request {} token {} {}", request, token, hook));
      }
    }
  }
  return verdict;
}

}  // namespace graphtap::llama::test
