#pragma once
// Two ways to compute the steps of a request mix: without graphtap, keeping a checksum of every row
// at every hook; and with it, switching hooks while the graphs replay, where a sink holds what
// arrives against those checksums.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtap/monitor.hpp"
#include "model.hpp"
#include "serving.hpp"

namespace example {

/// Numbers of the hooks, in the order of the pass: resid_pre and mlp_out of each layer, then
/// final_logits.
[[nodiscard]] graphtap::HookId hook_of(const Site& site, int layers);
[[nodiscard]] graphtap::HookTable make_table(const ModelSize& size);
[[nodiscard]] graphtap::Source source_of(const Tensor& tensor);
[[nodiscard]] graphtap::Stream stream_of(const Model& model);

/// Decode steps captured with cudaStreamBeginCapture, one graph for each of the sizes 1, 2, 4, 8
/// and so on.
class DecodeGraphs {
 public:
  struct One {
    int rows = 0;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    std::shared_ptr<graphtap::BoundGraph> bound;
  };
  DecodeGraphs(Model& model, int max_batch, const Observer& observer,
               graphtap::Lane* lane = nullptr);
  ~DecodeGraphs();
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;
  [[nodiscard]] const One& for_rows(std::size_t rows) const;  ///< the smallest that holds so many

 private:
  std::vector<One> graphs_;
};

/// The model as it is without a monitor.
class ReferenceRunner : public Runner {
 public:
  ReferenceRunner(Model& model, const std::vector<PlannedRequest>& mix, const MixOptions& options);
  ~ReferenceRunner() override;
  void begun(int, int) override {}
  void finished(int) override {}
  std::vector<int> step(const Batch& batch) override;

  /// The checksum of that row; 0 if it was never computed.
  [[nodiscard]] std::uint64_t sum(graphtap::HookId hook, int request, std::int64_t token) const;

 private:
  std::size_t place(std::size_t hook, int request, int token) const;
  Model& model_;
  std::size_t hooks_, max_rows_;
  std::uint64_t* device_sums_ = nullptr;  // [hook][row] of the step that ran last
  std::vector<std::uint64_t> step_sums_;
  std::vector<std::uint64_t> sums_;  // [hook][request][token]
  std::unique_ptr<DecodeGraphs> graphs_;
  Observer observer_;
  std::size_t requests_;
};

/// Compares every row that arrives with the reference, and counts.
class RowChecker {
 public:
  RowChecker(const Model& model, const ReferenceRunner& reference,
             const std::vector<std::vector<int>>& tokens);
  [[nodiscard]] std::shared_ptr<graphtap::Sink> sink();
  /// What was found wrong, after the monitor was flushed: at most a few lines.
  [[nodiscard]] std::vector<std::string> problems() const;
  [[nodiscard]] std::vector<std::uint64_t> rows()
      const;  ///< by hook, each arrived once and was right

 private:
  void slice(const graphtap::CallbackSlice& slice);
  void problem(std::string text);
  const Model& model_;
  const ReferenceRunner& reference_;
  const std::vector<std::vector<int>>& tokens_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int> requests_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::vector<bool>> seen_;  // [hook][request × max_tokens + token]
  std::vector<std::string> problems_;
  std::uint64_t problem_count_ = 0;
};
[[nodiscard]] std::string request_name(int request);

/// The model observed: what an engine has to do for that.
class MonitoredRunner : public Runner {
 public:
  using Schedule =
      std::map<std::uint64_t, graphtap::HookSet>;  ///< what is enabled from that step on
  MonitoredRunner(Model& model, graphtap::Monitor& monitor, const MixOptions& options,
                  Schedule schedule);
  void begun(int request, int prompt_tokens) override;
  void finished(int request) override;
  std::vector<int> step(const Batch& batch) override;

  [[nodiscard]] const std::vector<std::uint64_t>& expected_rows() const noexcept {
    return expected_;
  }  ///< by hook
  [[nodiscard]] const std::vector<std::string>& errors() const noexcept { return errors_; }

 private:
  Model& model_;
  graphtap::Monitor& monitor_;
  Schedule schedule_;
  std::shared_ptr<graphtap::Lane> lane_;
  Observer observer_;
  std::unique_ptr<DecodeGraphs> graphs_;
  std::unordered_map<int, graphtap::Request> requests_;
  graphtap::HookSet enabled_;
  std::uint64_t step_ = 0;
  std::vector<std::uint64_t> expected_;
  std::vector<std::string> errors_;
};

}  // namespace example
