#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graphtap/monitor.hpp"
#include "llama_cpp/bindings.hpp"

struct ggml_tensor;

namespace graphtap::llama {

/// What a planned step expects of the graph that runs next.
struct Expectation {
  Lane* lane = nullptr;
  const Step* step = nullptr;
  Stream stream{};
  std::span<const std::int32_t> tokens;         ///< of each row
  std::span<const std::int32_t> positions;      ///< of each row
  std::span<const std::uint32_t> request_rows;  ///< rows of RowBasis::requests hooks, rising
  std::int64_t columns = 0;                     ///< keys of the step
};

/// The evaluation callback: reads the tensors of one context's graphs.
///
/// Three states. Off: every question is answered "no" at once. Recording: the graph is written
/// down, nothing is read. Armed: token ids and positions are compared with the plan, then the hooks
/// that the step captures are read, each while its node's data is valid. A verdict is kept for each
/// node by its index and checked by name and op, since the engine may build another graph at any
/// time and reuses addresses. Nothing is thrown into the engine and the answer after a node is
/// always "go on": refusing would leave later nodes silently uncomputed.
///
/// Thread-safety: none; the engine calls it in the thread that called llama_decode.
class GraphTap {
 public:
  /// ggml_backend_sched_eval_callback; `self` is a GraphTap.
  static bool callback(ggml_tensor* node, bool ask, void* self) noexcept;

  void record();
  [[nodiscard]] std::vector<GraphNode> recorded();  ///< and off again

  /// `bindings` must outlive the tap.
  void bind(const Bindings& bindings);
  /// `expectation` and what it points to must stay until disarm().
  void arm(const Expectation& expectation);
  /// Off again. Empty if the step ran as planned, else what was different.
  [[nodiscard]] std::string disarm();

  [[nodiscard]] std::uint64_t nodes_asked() const noexcept { return asked_; }
  [[nodiscard]] std::uint64_t nodes_read() const noexcept { return read_; }

 private:
  enum class State : std::uint8_t { off, recording, armed, failed };
  struct Verdict {
    std::string name;
    int op = 0;
    const NodeActions* actions = nullptr;  // null: nothing to do here
  };

  bool ask(ggml_tensor* node);
  void record_node(const ggml_tensor* node);
  const Verdict& verdict(const ggml_tensor* node);
  const Verdict& classify(const ggml_tensor* node);
  void run_checks(const ggml_tensor* node, const NodeActions& actions);
  void produce(const ggml_tensor* tensor, const Tap& tap);
  void fail(std::string why);

  State state_ = State::off;
  const Bindings* bindings_ = nullptr;
  Expectation expected_;
  std::vector<std::uint8_t> wanted_;                  // by HookId, for the armed step
  std::vector<Verdict> verdicts_;                     // by index in the graph
  std::unordered_map<std::string, int> occurrences_;  // of name and op among verdicts_
  std::size_t next_ = 0;                              // index of the node asked next
  const NodeActions* current_ = nullptr;              // of the node whose data comes next
  std::uint8_t passed_ = 0;                           // Check bits that held
  std::vector<std::byte> packed_;                     // rows gathered for one call
  std::vector<GraphNode> recording_;
  std::string failure_;
  std::uint64_t asked_ = 0, read_ = 0;
};

}  // namespace graphtap::llama
