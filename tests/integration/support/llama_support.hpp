#pragma once
// What the tests of the llama.cpp adapter share: everything that was delivered, kept in memory, and
// the oracles that tell whether it carries the right labels.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/monitor.hpp"
#include "llama_cpp/session.hpp"

namespace graphtap::llama::test {

using Row = std::vector<std::byte>;
using Rows = std::map<std::int64_t, Row>;  // by token of the request

/// All that a sink was given, by the order in which the requests began (0, 1, …), hook and token.
struct Captured {
  std::map<std::size_t, std::map<std::string, Rows>> requests;
  std::map<std::size_t, std::map<std::string, std::map<std::int64_t, std::uint64_t>>> steps;
  std::map<std::size_t, std::map<std::string, std::map<std::int64_t, std::int64_t>>> columns;
  std::uint64_t duplicates = 0;
  std::vector<std::string> gaps;
  std::vector<std::string> finished;

  [[nodiscard]] const Rows& rows(std::size_t request, const std::string& hook) const;
  [[nodiscard]] std::size_t row_count() const;
};

/// One row as numbers. Empty if it is not there.
template <class T>
std::vector<T> values(const Captured& captured, std::size_t request, const std::string& hook,
                      std::int64_t token) {
  const Rows& rows = captured.rows(request, hook);
  const auto it = rows.find(token);
  if (it == rows.end()) return {};
  std::vector<T> numbers(it->second.size() / sizeof(T));
  std::memcpy(numbers.data(), it->second.data(), it->second.size());
  return numbers;
}

[[nodiscard]] std::string layer_hook(int layer, const std::string& type);

/// What the engine itself says of each row, kept while it runs.
struct EngineOutputs {
  std::map<std::pair<std::uint64_t, std::int64_t>, std::vector<float>> logits, embeddings;
  /// Rows of each step, to say what a schedule should have captured.
  std::vector<std::vector<StepSpan>> spans;
};

/// A session, a monitor and a sink that keeps everything.
class Watched {
 public:
  explicit Watched(SessionOptions options = {}, MonitorOptions monitor = {});

  LlamaSession& session() { return *session_; }
  Monitor& monitor() { return *monitor_; }
  EngineOutputs& outputs() { return outputs_; }
  SessionCallbacks callbacks;  ///< run() keeps the engine's outputs besides

  void submit(const std::vector<Prompt>& prompts);
  void run();  ///< to the end, flushed; records a test failure if something went wrong
  void flush();
  [[nodiscard]] Captured captured() const;

 private:
  std::unique_ptr<LlamaSession> session_;
  mutable std::mutex mutex_;
  Captured captured_;
  std::map<std::uint64_t, std::size_t> order_;  // serial → order of arrival
  EngineOutputs outputs_;
  std::unique_ptr<Monitor> monitor_;  // goes first: its threads call the sink
};

[[nodiscard]] SessionOptions small_options();
[[nodiscard]] Prompt ask(const std::string& id, const std::string& text, std::uint32_t new_tokens);
[[nodiscard]] std::vector<Prompt> three_prompts(std::uint32_t new_tokens);

/// The norms of the test model: weights by tensor name and epsilon, read from the GGUF file.
struct Norms {
  std::map<std::string, std::vector<float>> weights;
  float epsilon = 0;
  int layers = 0;
};
[[nodiscard]] const Norms& norms();

/// Each disagreement between what was captured and what the model's arithmetic says, in words.
/// `checked` counts the comparisons made, so that a test can see that there were some.
struct Verdict {
  std::vector<std::string> wrong;
  std::uint64_t checked = 0;
};
[[nodiscard]] Verdict check_residual_sums(const Captured& captured);
[[nodiscard]] Verdict check_norms(const Captured& captured);
[[nodiscard]] Verdict check_token_ids(const Captured& captured,
                                      const std::deque<Generation>& truth);
/// final_ln against the engine's embeddings, bit for bit.
[[nodiscard]] Verdict check_embeddings(const Captured& captured, const EngineOutputs& truth);
/// final_logits against those of another run, bit for bit.
[[nodiscard]] Verdict check_logits(const Captured& captured, const EngineOutputs& truth);
/// Every row that `part` has is in `whole`, with the same bits.
[[nodiscard]] Verdict check_same_rows(const Captured& part, const Captured& whole);

}  // namespace graphtap::llama::test
