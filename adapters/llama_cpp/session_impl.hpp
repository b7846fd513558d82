#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "llama_cpp/batch_plan.hpp"
#include "llama_cpp/bindings.hpp"
#include "llama_cpp/engine.hpp"
#include "llama_cpp/graph_tap.hpp"
#include "llama_cpp/session.hpp"

namespace graphtap::llama {

/// The working half of a session. The caller's functions are called only where everything kept here
/// is consistent, since they may throw, submit and cancel.
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

  /// A token that a step made for a generation.
  struct Sampled {
    std::uint64_t generation = 0;
    std::int32_t token = 0;
    std::string piece;
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
  void finish(Active& active, Finish how);
  void drop_finished();
  [[nodiscard]] std::vector<Engine::Row> batch_rows(const std::vector<StepSpan>& spans) const;
  [[nodiscard]] std::vector<RowSpan> planned_rows(const std::vector<StepSpan>& spans) const;
  [[nodiscard]] Planned expect(const std::vector<RowSpan>& planned) const;
  Status decode(const std::vector<StepSpan>& spans, StepReport& report);
  std::vector<Sampled> sample(const std::vector<StepSpan>& spans);
  void fail_all(const SessionCallbacks& callbacks);

  Monitor* monitor_ = nullptr;
  std::shared_ptr<Lane> lane_;
  bool columns_ = false;  // some installed hook has key columns
  std::vector<Extra> extras_;
  std::deque<std::uint64_t> waiting_;
  std::vector<Active> active_;  // in the order of their rows
};

}  // namespace graphtap::llama
