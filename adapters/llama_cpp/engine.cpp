#include "llama_cpp/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <system_error>
#include <thread>

#include "llama_cpp/engine_log.hpp"

namespace graphtap::llama {
namespace {

Status refuse(Code code, std::string what) {
  const std::string words = engine_words();
  return {code, words.empty() ? what : fmt::format("{}: {}", what, words)};
}

bool on_load(float progress, void* function) noexcept {
  try {
    (*static_cast<const std::function<void(float)>*>(function))(progress);
  } catch (...) {  // a broken progress bar is no reason to stop loading
  }
  return true;
}

std::uint32_t thread_count(std::uint32_t wanted) {
  if (wanted != 0) return wanted;
  return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
}

llama_context_params context_params(const SessionOptions& options, std::uint32_t threads,
                                    GraphTap* tap) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.context_tokens;
  // One batch is one graph: the engine never splits it, and a unified cache keeps the rows' order.
  params.n_batch = options.batch_tokens;
  params.n_ubatch = options.batch_tokens;
  params.n_seq_max = options.max_sequences;
  params.kv_unified = true;
  params.n_threads = static_cast<std::int32_t>(threads);
  params.n_threads_batch = static_cast<std::int32_t>(threads);
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  // Every row is an output, else the last layer is pruned to the rows that are.
  params.embeddings = true;
  params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  params.offload_kqv = false;
  params.op_offload = false;
  params.no_perf = true;
  if (tap) {
    params.cb_eval = &GraphTap::callback;
    params.cb_eval_user_data = tap;
  }
  return params;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const SessionOptions& options, GraphTap* tap) {
  capture_engine_log();
  llama_backend_init();
  (void)engine_words();
  std::error_code error;
  if (!std::filesystem::is_regular_file(options.model, error)) {
    return Status(Code::not_found, fmt::format("model {}: no such file", options.model.string()));
  }
  std::unique_ptr<Engine> engine(new Engine);
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  std::function<void(float)> progress = options.on_load;
  if (progress) {
    model_params.progress_callback = on_load;
    model_params.progress_callback_user_data = &progress;
  }
  engine->model_.reset(llama_model_load_from_file(options.model.c_str(), model_params));
  if (!engine->model_) {
    return refuse(Code::corrupt,
                  fmt::format("model {}: the engine cannot load it (a GGUF file is needed)",
                              options.model.string()));
  }
  if (llama_model_has_encoder(engine->model_.get()) ||
      !llama_model_has_decoder(engine->model_.get())) {
    return Status(Code::unsupported,
                  fmt::format("model {}: only decoder models can be run", options.model.string()));
  }
  const std::uint32_t threads = thread_count(options.threads);
  engine->context_.reset(
      llama_init_from_model(engine->model_.get(), context_params(options, threads, tap)));
  if (!engine->context_) {
    return refuse(Code::exhausted, fmt::format("model {}: no context of {} tokens can be made",
                                               options.model.string(), options.context_tokens));
  }
  // The engine stops at every node that is read. Its own pool lives as long as one stop, ours
  // stays.
  ggml_threadpool_params pool = ggml_threadpool_params_default(static_cast<int>(threads));
  pool.poll = options.poll;
  engine->pool_.reset(ggml_threadpool_new(&pool));
  if (!engine->pool_) return refuse(Code::exhausted, "the engine's threads cannot be started");
  llama_attach_threadpool(engine->context_.get(), engine->pool_.get(), engine->pool_.get());
  engine->batch_ = llama_batch_init(static_cast<std::int32_t>(options.batch_tokens), 0, 1);
  engine->batch_tokens_ = options.batch_tokens;
  return engine;
}

Engine::~Engine() {
  if (context_) llama_detach_threadpool(context_.get());
  if (batch_tokens_ != 0) llama_batch_free(batch_);
}

std::string Engine::architecture() const {
  std::array<char, 128> text{};
  if (llama_model_meta_val_str(model_.get(), "general.architecture", text.data(), text.size()) <
      0) {
    return {};
  }
  return text.data();
}

std::string Engine::description() const {
  std::array<char, 128> name{};
  if (llama_model_meta_val_str(model_.get(), "general.name", name.data(), name.size()) < 0) {
    std::snprintf(name.data(), name.size(), "a model without a name");
  }
  return fmt::format(
      "{} ({}, {:.0f} M parameters, {:.0f} MB, {} layers, hidden size {}, vocabulary {})",
      name.data(), architecture(), static_cast<double>(llama_model_n_params(model_.get())) / 1e6,
      static_cast<double>(llama_model_size(model_.get())) / 1e6, layers(),
      llama_model_n_embd(model_.get()), vocabulary());
}

int Engine::layers() const { return llama_model_n_layer(model_.get()); }
std::int64_t Engine::heads() const { return llama_model_n_head(model_.get()); }
std::int32_t Engine::vocabulary() const {
  return llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
}
std::uint32_t Engine::context_tokens() const { return llama_n_ctx(context_.get()); }
bool Engine::ends_text(std::int32_t token) const {
  return llama_vocab_is_eog(llama_model_get_vocab(model_.get()), token);
}

std::string Engine::piece(std::int32_t token) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  std::string text(32, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int length =
        llama_token_to_piece(vocab, token, text.data(), static_cast<int>(text.size()), 0, false);
    if (length >= 0) {
      text.resize(static_cast<std::size_t>(length));
      return text;
    }
    text.resize(static_cast<std::size_t>(-length));
  }
  return {};
}

Result<std::string> Engine::as_chat(std::string_view text) const {
  const char* chat_template = llama_model_chat_template(model_.get(), nullptr);
  if (!chat_template) {
    return Status(Code::unsupported,
                  "the model has no chat template; give the prompt as plain text");
  }
  const std::string content(text);
  const llama_chat_message message{"user", content.c_str()};
  std::string formatted(content.size() + 1024, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int length = llama_chat_apply_template(chat_template, &message, 1, true, formatted.data(),
                                                 static_cast<int>(formatted.size()));
    if (length < 0) break;
    const bool fits = static_cast<std::size_t>(length) <= formatted.size();
    formatted.resize(static_cast<std::size_t>(length));
    if (fits) return formatted;
  }
  return Status(
      Code::unsupported,
      "the engine does not know the model's chat template; give the prompt as plain text");
}

Result<std::vector<std::int32_t>> Engine::tokenize(std::string_view text, bool chat) const {
  std::string formatted;
  if (chat) {
    auto wrapped = as_chat(text);
    if (!wrapped.ok()) return wrapped.status();
    formatted = std::move(wrapped).value();
    text = formatted;
  }
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
    return Status(Code::invalid_argument, "the prompt is longer than 1 GiB");
  }
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  std::vector<std::int32_t> tokens(text.size() + 8);
  const int count =
      llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                     static_cast<std::int32_t>(tokens.size()), true, chat);
  if (count < 0) return refuse(Code::invalid_argument, "the engine cannot tokenize the prompt");
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

Status Engine::decode(std::span<const Row> rows) {
  batch_.n_tokens = static_cast<std::int32_t>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    batch_.token[i] = rows[i].token;
    batch_.pos[i] = rows[i].position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = rows[i].sequence;
    batch_.logits[i] = 1;
  }
  decoded_rows_ = 0;
  (void)engine_words();
  const int result = llama_decode(context_.get(), batch_);
  if (result == 1) return refuse(Code::exhausted, "the engine's cache has no room for the batch");
  if (result != 0)
    return refuse(Code::device_error, fmt::format("llama_decode failed ({})", result));
  llama_synchronize(context_.get());
  decoded_rows_ = static_cast<std::uint32_t>(rows.size());
  return {};
}

void Engine::forget(std::int32_t sequence) {
  llama_memory_seq_rm(llama_get_memory(context_.get()), sequence, -1, -1);
}

void Engine::forget_all() { llama_memory_clear(llama_get_memory(context_.get()), false); }

std::span<const float> Engine::logits(std::uint32_t row) const noexcept {
  if (row >= decoded_rows_) return {};
  const float* data = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(row));
  return {data, data ? static_cast<std::size_t>(vocabulary()) : 0};
}

std::span<const float> Engine::embeddings(std::uint32_t row) const noexcept {
  if (row >= decoded_rows_) return {};
  const float* data = llama_get_embeddings_ith(context_.get(), static_cast<std::int32_t>(row));
  return {data, data ? static_cast<std::size_t>(llama_model_n_embd(model_.get())) : 0};
}

}  // namespace graphtap::llama
