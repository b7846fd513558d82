#pragma once
// A synthetic request mix and a scheduler with continuous batching. Everything follows from the
// seed, nothing from time, so that two runs of one mix compute the same rows in the same steps.
#include <cstdint>
#include <vector>

#include "model.hpp"

namespace example {

struct MixOptions {
  int requests = 40;
  std::uint64_t seed = 1;
  int max_batch = 16;  ///< requests decoded at once
  int chunk = 64;      ///< prompt tokens of one prefill step
};

struct PlannedRequest {
  int arrives = 0;  ///< in steps
  std::vector<int> prompt;
  int new_tokens = 0;
};
[[nodiscard]] std::vector<PlannedRequest> make_mix(const MixOptions& options,
                                                   const ModelSize& size);

/// Adjacent rows of one step that compute tokens [first, first + count) of a request.
struct Span {
  int request = 0;
  int first = 0;
  int count = 0;
};
struct Batch {
  bool decode = false;  ///< one token of each of several requests; else a chunk of one prompt
  std::vector<Span> spans;
  std::vector<Row> rows;
};

/// What computes the steps.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void begun(int request, int prompt_tokens) = 0;
  virtual void finished(int request) = 0;
  /// The token that follows the last one of each span.
  virtual std::vector<int> step(const Batch& batch) = 0;
};

struct Served {
  std::vector<std::vector<int>> tokens;  ///< of each request: its prompt and what was generated
  int steps = 0, decode_steps = 0;
  std::uint64_t rows = 0;
};
[[nodiscard]] Served serve(const std::vector<PlannedRequest>& mix, const MixOptions& options,
                           Runner& runner);

}  // namespace example
