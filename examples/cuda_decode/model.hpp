#pragma once
// A decoder as an inference engine holds it: weights, a cache of keys and values, one forward pass
// for a batch of rows. Random weights in bf16. It knows nothing of graphtap but where its hooks
// are: it says what lies there, and whoever runs it decides what is done with that.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}
inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasGetStatusName(status));
}

struct ModelSize {
  int layers = 12;
  int hidden = 1024;  ///< a multiple of 64, the width of a head
  int intermediate = 2816;
  int vocab = 8192;
  int max_rows = 64;  ///< of one forward pass
  int slots = 16;     ///< requests that can be in the cache
  int max_tokens = 192;
};

/// One row of a forward pass: a token at its position in the request that has this slot of the
/// cache.
struct Row {
  int slot = 0;
  int token = 0;
  int position = 0;
};

/// A place in the model, and what lies there when the pass comes by.
struct Site {
  enum class Kind : std::uint8_t { resid_pre, mlp_out, final_logits };
  Kind kind = Kind::resid_pre;
  int layer = -1;
};
struct Tensor {
  const __nv_bfloat16* data = nullptr;
  int rows = 0;
  int width = 0;
};
/// Called in the order of the pass, on its stream; may add work of its own to it.
using Observer = std::function<void(const Site&, const Tensor&)>;

/// 64 bits that say what a row is: a sum over its 4-byte words, each mixed with its place, so that
/// threads may share it.
__host__ __device__ inline std::uint64_t mixed(std::uint32_t index, std::uint32_t word) {
  std::uint64_t x = (static_cast<std::uint64_t>(index) << 32 | word) + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
/// sums[row] = the checksum of each row of `tensor`.
void checksum_rows(const Tensor& tensor, std::uint64_t* sums, cudaStream_t stream);
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> row);

class Model {
 public:
  explicit Model(const ModelSize& size);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const ModelSize& size() const noexcept { return size_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

  /// Says what the next pass computes: `rows`, then padding up to `padded`, which writes to places
  /// of its own.
  void set_rows(std::span<const Row> rows, int padded);
  /// One pass over as many rows as set_rows() said. `every_row`: logits of each row (decode), else
  /// of the last one. May be captured: what set_rows() says is read when it runs.
  void forward(int rows, bool every_row, const Observer& observer);
  /// The most likely token of the first `count` logits rows. Waits for the pass.
  [[nodiscard]] std::vector<int> next_tokens(int count);

  /// What resid_pre of layer 0 must be: computed on the host from the tables.
  [[nodiscard]] std::vector<__nv_bfloat16> embedding(int token, int position) const;

 private:
  struct Free {
    void operator()(void* memory) const noexcept { (void)cudaFree(memory); }
  };
  template <class T>
  using Memory = std::unique_ptr<T[], Free>;
  using Half = __nv_bfloat16;
  struct Layer {
    Memory<Half> qkv, out, up, gate, down;
  };
  template <class T>
  static Memory<T> allocate(std::size_t count);
  Memory<Half> weights(std::size_t count, float scale);
  void gemm(const Half* weight, const Half* in, Half* out, int rows, int in_width, int out_width);

  ModelSize size_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  std::uint64_t next_seed_ = 1;
  Memory<std::byte> workspace_;
  Memory<Half> embeddings_, positions_, head_;
  std::vector<Layer> layers_;
  Memory<Half> keys_, values_;  // [layer][slot][token][hidden]
  Memory<Half> x_, norm_, qkv_, attention_, projected_, up_, gate_, logits_;
  Memory<Row> rows_;
  Memory<int> chosen_;
  Row* pinned_rows_ = nullptr;
  int* pinned_chosen_ = nullptr;
  std::vector<Half> host_embeddings_, host_positions_;
};

}  // namespace example
