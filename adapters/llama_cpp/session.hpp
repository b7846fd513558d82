#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/hook_table.hpp"
#include "graphtap/monitor.hpp"
#include "graphtap/request.hpp"
#include "graphtap/selection.hpp"
#include "graphtap/status.hpp"

namespace graphtap::llama {

/// The weights that scripts/fetch_engine.sh fetched: $GRAPHTAP_MODEL if set, else the file in the
/// cache
/// ($GRAPHTAP_CACHE, $XDG_CACHE_HOME/graphtap or ~/.cache/graphtap). It need not exist.
[[nodiscard]] std::filesystem::path default_model_path();

/// How a model is loaded and run. Everything that could change a bit of the results is fixed here.
struct SessionOptions {
  std::filesystem::path model;  ///< a GGUF file
  std::filesystem::path map;  ///< further hooks (see maps/README.md); empty: only the built-in map
  /// 0: half the CPUs, 1 to 8. The engine's threads spin at each of a thousand barriers a step:
  /// where they share CPUs with anything else, as many as there are CPUs are slower than one.
  std::uint32_t threads = 0;
  std::uint32_t context_tokens = 2048;  ///< KV cells, shared by all sequences that run at once
  std::uint32_t batch_tokens = 128;     ///< most rows of one step; longer prompts come in chunks
  std::uint32_t max_sequences = 4;      ///< most requests at once; 1 offers attn_scores and pattern
  bool flash_attention = false;         ///< true hides attn_scores and pattern
  bool instrument = true;   ///< false: no evaluation callback at all; table() is then empty
  std::uint32_t poll = 10;  ///< how long the engine's threads spin between nodes, 0 to 100
  std::function<void(float)> on_load;  ///< progress of loading the weights, 0 to 1
};

/// A hook that the map knows and this model or these options do not offer.
struct UnmappedHook {
  std::string type;
  std::string reason;
};

/// What a person asks the model.
struct Prompt {
  std::string id;  ///< the request's id; need not be unique
  std::string text;
  bool chat = false;  ///< wrap the text as a user's turn with the model's chat template
  std::uint32_t max_new_tokens = 32;  ///< ≥ 1
  bool stop_at_end = true;            ///< false: go on after the model's end-of-text token
  std::vector<std::int32_t> tokens;   ///< used instead of `text` when not empty
};

enum class Finish : std::uint8_t { waiting, running, end_of_text, length, cancelled, failed };
[[nodiscard]] const char* to_string(Finish finish) noexcept;

/// One prompt and what became of it.
///
/// The last generated token is never fed back, so it has no rows: the tokens [0, tokens.size() - 1)
/// of a finished generation were computed.
struct Generation {
  std::uint64_t number = 0;  ///< of this session, from 0, in order of submission
  std::string id;
  Request request;                   ///< as the monitor knows it; null without one or while waiting
  std::vector<std::int32_t> tokens;  ///< the prompt's, then the response's
  std::size_t prompt_tokens = 0;
  std::string text;  ///< of the response
  Finish finish = Finish::waiting;
  std::uint64_t first_step = 0;  ///< the step that computed its first rows
  std::uint64_t last_step = 0;   ///< and its last
};

/// `rows` consecutive rows of a step: the tokens [first_token, first_token + rows) of a generation.
struct StepSpan {
  std::uint64_t generation = 0;
  std::int64_t first_token = 0;
  std::uint32_t rows = 0;
};

/// What one step did. Valid during the callback.
struct StepReport {
  std::uint64_t step = 0;           ///< equals DeliveredStep::step
  std::span<const StepSpan> spans;  ///< in row order
  std::uint32_t rows = 0;
  double milliseconds = 0;  ///< of the engine's decode call, capture included
  bool captured = false;    ///< some hook was enabled
  std::string mismatch;     ///< what the graph ran other than planned; then nothing was delivered
};

/// Called by step() and run(), in the caller's thread. They may submit, cancel and switch hooks;
/// what they throw leaves step() with the session as it is after that step.
struct SessionCallbacks {
  std::function<void(std::uint64_t step)> before_step;  ///< before the step is planned: switch here
  std::function<void(const StepReport&)> after_step;
  std::function<void(const Generation&, std::int32_t token, std::string_view piece)> on_token;
  std::function<void(const Generation&)> on_finish;
};

struct SessionStats {
  std::uint64_t steps = 0, rows = 0;
  std::uint64_t prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t mismatched_steps = 0;  ///< steps whose records were given up (GapReason::mismatch)
  std::uint64_t nodes_asked = 0;       ///< evaluation callbacks while some hook was enabled
  std::uint64_t nodes_read = 0;        ///< graph nodes the engine stopped at for us
  double milliseconds = 0;             ///< inside the engine's decode calls
};

/// Runs a llama.cpp model on the CPU, several prompts at once, with a Monitor looking on.
///
/// Every llama_decode call is one eager step: its rows are planned before it runs, and the token
/// ids and positions are compared with the graph's own inputs before anything is captured. Requests
/// join a running batch when there is room and leave it at the end of text or after max_new_tokens;
/// sampling is greedy. All rows are requested as outputs, so that no layer is pruned.
///
/// Row bases: final_logits has one row for each request in the step, its last token there (of a
/// prompt prefilled in chunks: the chunk's last token).
///
/// Thread-safety: none; one thread at a time. The Monitor may be switched from any thread
/// meanwhile.
class LlamaSession {
 public:
  /// Loads the model and learns its graph from one short run that nobody sees (B5).
  /// Errors: not_found (no such file), invalid_argument (options, a map file that does not parse),
  /// corrupt (not a model this engine can load; its own words follow), unsupported (no map for this
  /// architecture), exhausted (no memory for the context).
  [[nodiscard]] static Result<std::unique_ptr<LlamaSession>> open(SessionOptions options);
  ~LlamaSession();
  LlamaSession(const LlamaSession&) = delete;
  LlamaSession& operator=(const LlamaSession&) = delete;

  /// The hooks this model offers, in firing order. Build the Monitor from a copy.
  [[nodiscard]] const HookTable& table() const noexcept;
  [[nodiscard]] const std::vector<UnmappedHook>& unmapped() const noexcept;
  /// Selection::resolve, whose error also says why the model lacks a hook that the map knows.
  [[nodiscard]] Result<HookSet> resolve(const Selection& selection) const;

  /// From the next step on, steps are planned through `monitor`, which must outlive the last of
  /// them. Once per session. Errors: invalid_argument (a monitor over another table, no instrument
  /// option).
  Status attach(Monitor& monitor);

  /// Queues a prompt and returns its Generation::number. Errors: invalid_argument (nothing to
  /// compute, a token the model lacks, more tokens than the context holds).
  Result<std::uint64_t> submit(const Prompt& prompt);
  /// Takes a request out before the next step; unknown and finished ones are ignored.
  void cancel(std::uint64_t generation);

  /// One step. False: nothing is left to do, and no step was taken. Errors: exhausted, device_error
  /// (the engine's words); the requests of that step are then finished as `failed`.
  Result<bool> step(const SessionCallbacks& callbacks = {});
  /// Steps until nothing is left to do.
  Status run(const SessionCallbacks& callbacks = {});

  [[nodiscard]] const std::deque<Generation>& generations() const noexcept;
  [[nodiscard]] const SessionStats& stats() const noexcept;
  [[nodiscard]] std::uint64_t next_step() const noexcept;  ///< number of the step that comes next

  /// The engine's own outputs of the last step, for one of its rows; valid until the next step.
  [[nodiscard]] std::span<const float> logits(std::uint32_t row) const noexcept;
  [[nodiscard]] std::span<const float> embeddings(
      std::uint32_t row) const noexcept;  ///< final norm

  [[nodiscard]] Result<std::vector<std::int32_t>> tokenize(std::string_view text, bool chat) const;
  [[nodiscard]] std::string piece(std::int32_t token) const;
  [[nodiscard]] const std::string& description()
      const noexcept;  ///< "llama 135M Q4_1, 30 layers, …"

 private:
  class Impl;
  explicit LlamaSession(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graphtap::llama
