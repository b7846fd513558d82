#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ggml-cpu.h>
#include <llama.h>

#include "graphtap/status.hpp"
#include "llama_cpp/graph_tap.hpp"
#include "llama_cpp/session.hpp"

namespace graphtap::llama {

/// A loaded model and its context: what llama.cpp's C interface offers, with owners and errors as
/// values. Thread-safety: none.
class Engine {
 public:
  /// `tap` becomes the evaluation callback if it is not null; it must outlive the engine.
  static Result<std::unique_ptr<Engine>> open(const SessionOptions& options, GraphTap* tap);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] std::string architecture() const;
  [[nodiscard]] std::string description() const;
  [[nodiscard]] int layers() const;
  [[nodiscard]] std::int64_t heads() const;
  [[nodiscard]] std::int32_t vocabulary() const;
  [[nodiscard]] std::uint32_t context_tokens() const;
  [[nodiscard]] bool ends_text(std::int32_t token) const;
  [[nodiscard]] std::string piece(std::int32_t token) const;
  [[nodiscard]] Result<std::vector<std::int32_t>> tokenize(std::string_view text, bool chat) const;

  /// One row of a batch.
  struct Row {
    std::int32_t token = 0;
    std::int32_t position = 0;
    std::int32_t sequence = 0;
  };
  /// Runs one batch; all its rows become outputs. Errors: exhausted (no room in the cache),
  /// device_error.
  Status decode(std::span<const Row> rows);
  void forget(std::int32_t sequence);  ///< frees its cells
  void forget_all();                   ///< the next token goes to the first cell again

  [[nodiscard]] std::span<const float> logits(std::uint32_t row) const noexcept;
  [[nodiscard]] std::span<const float> embeddings(std::uint32_t row) const noexcept;

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
    void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
  };
  Engine() = default;
  [[nodiscard]] Result<std::string> as_chat(std::string_view text) const;

  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<ggml_threadpool, Free> pool_;
  std::unique_ptr<llama_context, Free> context_;  // first to go
  llama_batch batch_{};
  std::uint32_t batch_tokens_ = 0;
  std::uint32_t decoded_rows_ = 0;
};

}  // namespace graphtap::llama
