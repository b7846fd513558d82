#include <algorithm>
#include <cstring>

#include "model.hpp"

namespace example {
namespace {

using Half = __nv_bfloat16;
constexpr int kThreads = 256;
constexpr int kHead = 64;
constexpr std::size_t kWorkspace = 32u << 20;

__global__ void fill_random(Half* out, std::size_t count, std::uint64_t seed, float scale) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t bits =
      mixed(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(seed + (i >> 32)));
  out[i] = __float2bfloat16(scale * (static_cast<float>(bits >> 40) / 8388608.0f - 1.0f));
}

__device__ float block_sum(float value) {
  __shared__ float parts[kThreads / 32];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  __syncthreads();  // the last call's reads are done
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += parts[i];
  return sum;
}

__global__ void embed(const Row* rows, const Half* tokens, const Half* positions, Half* x,
                      int hidden) {
  const Row row = rows[blockIdx.x];
  for (int i = threadIdx.x; i < hidden; i += kThreads) {
    x[std::size_t{blockIdx.x} * hidden + i] =
        __float2bfloat16(__bfloat162float(tokens[std::size_t(row.token) * hidden + i]) +
                         __bfloat162float(positions[std::size_t(row.position) * hidden + i]));
  }
}

__global__ void rms_norm(const Half* x, Half* out, int hidden) {
  x += std::size_t{blockIdx.x} * hidden;
  out += std::size_t{blockIdx.x} * hidden;
  float squares = 0;
  for (int i = threadIdx.x; i < hidden; i += kThreads)
    squares += __bfloat162float(x[i]) * __bfloat162float(x[i]);
  const float scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + 1e-5f);
  for (int i = threadIdx.x; i < hidden; i += kThreads)
    out[i] = __float2bfloat16(__bfloat162float(x[i]) * scale);
}

// Puts the keys and values of this pass into the cache, before anybody attends to them.
__global__ void store_cache(const Row* rows, const Half* qkv, Half* keys, Half* values, int hidden,
                            int max_tokens) {
  const Row row = rows[blockIdx.x];
  const Half* from = qkv + std::size_t{blockIdx.x} * 3 * hidden;
  const std::size_t to = (std::size_t(row.slot) * max_tokens + row.position) * hidden;
  for (int i = threadIdx.x; i < hidden; i += kThreads) {
    keys[to + i] = from[hidden + i];
    values[to + i] = from[2 * hidden + i];
  }
}

// One block a row and head: a row attends to its own request's tokens up to its own position.
__global__ void attend(const Row* rows, const Half* qkv, const Half* keys, const Half* values,
                       Half* out, int hidden, int max_tokens) {
  extern __shared__ float scores[];  // max_tokens
  const Row row = rows[blockIdx.x];
  const int first = static_cast<int>(blockIdx.y) * kHead;
  const int count = row.position + 1;
  const Half* query = qkv + std::size_t{blockIdx.x} * 3 * hidden + first;
  const std::size_t cache = std::size_t(row.slot) * max_tokens * hidden + first;
  for (int t = threadIdx.x; t < count; t += kHead) {
    float score = 0;
    for (int i = 0; i < kHead; ++i) {
      score +=
          __bfloat162float(query[i]) * __bfloat162float(keys[cache + std::size_t(t) * hidden + i]);
    }
    scores[t] = score * 0.125f;
  }
  __syncthreads();
  float highest = scores[0], total = 0, sum = 0;
  for (int t = 1; t < count; ++t) highest = fmaxf(highest, scores[t]);
  for (int t = 0; t < count; ++t) {
    const float weight = __expf(scores[t] - highest);
    total += weight;
    sum += weight * __bfloat162float(values[cache + std::size_t(t) * hidden + threadIdx.x]);
  }
  out[std::size_t{blockIdx.x} * hidden + first + threadIdx.x] = __float2bfloat16(sum / total);
}

__global__ void add(Half* x, const Half* y, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) x[i] = __float2bfloat16(__bfloat162float(x[i]) + __bfloat162float(y[i]));
}

__global__ void silu_times(Half* gate, const Half* up, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float g = __bfloat162float(gate[i]);
  gate[i] = __float2bfloat16(g / (1.0f + __expf(-g)) * __bfloat162float(up[i]));
}

// The lowest of the most likely tokens, whatever order threads come in.
__global__ void choose(const Half* logits, int* chosen, int vocab) {
  __shared__ unsigned long long best;
  if (threadIdx.x == 0) best = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    const std::uint32_t bits =
        __float_as_uint(__bfloat162float(logits[std::size_t{blockIdx.x} * vocab + i]));
    const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    mine = max(mine, static_cast<unsigned long long>(ordered) << 32 |
                         (0xffffffffu - static_cast<unsigned>(i)));
  }
  atomicMax(&best, mine);
  __syncthreads();
  if (threadIdx.x == 0)
    chosen[blockIdx.x] = static_cast<int>(0xffffffffu - static_cast<unsigned>(best));
}

__global__ void sum_rows(const std::uint32_t* data, std::uint64_t* sums, int words) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < words; i += kThreads) {
    mine += mixed(static_cast<std::uint32_t>(i), data[std::size_t{blockIdx.x} * words + i]);
  }
  atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

unsigned blocks(std::size_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}
unsigned grid(int rows) { return static_cast<unsigned>(rows); }

}  // namespace

void checksum_rows(const Tensor& tensor, std::uint64_t* sums, cudaStream_t stream) {
  sum_rows<<<grid(tensor.rows), kThreads, 0, stream>>>(
      reinterpret_cast<const std::uint32_t*>(tensor.data), sums, tensor.width / 2);
  check(cudaGetLastError(), "checksums");
}

std::uint64_t checksum(std::span<const std::byte> row) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 4 <= row.size(); i += 4) {
    std::uint32_t word;
    std::memcpy(&word, row.data() + i, 4);
    sum += mixed(static_cast<std::uint32_t>(i / 4), word);
  }
  return sum;
}

template <class T>
Model::Memory<T> Model::allocate(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "allocate");
  check(cudaMemset(memory, 0, count * sizeof(T)), "clear");
  return Memory<T>(static_cast<T*>(memory));
}

Model::Memory<Half> Model::weights(std::size_t count, float scale) {
  auto memory = allocate<Half>(count);
  fill_random<<<blocks(count), kThreads>>>(memory.get(), count, next_seed_++, scale);
  check(cudaGetLastError(), "fill weights");
  return memory;
}

Model::Model(const ModelSize& size) : size_(size) {
  const auto hidden = static_cast<std::size_t>(size.hidden),
             inner = static_cast<std::size_t>(size.intermediate);
  const auto vocab = static_cast<std::size_t>(size.vocab),
             rows = static_cast<std::size_t>(size.max_rows);
  const auto tokens = static_cast<std::size_t>(size.max_tokens);
  const float scale = 1.7f / sqrtf(static_cast<float>(size.hidden));
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
  check(cublasCreate(&cublas_), "cublasCreate");
  check(cublasSetStream(cublas_, stream_), "cublasSetStream");
  workspace_ = allocate<std::byte>(
      kWorkspace);  // of our own: what is captured must not depend on cuBLAS's pool
  check(cublasSetWorkspace(cublas_, workspace_.get(), kWorkspace), "cublasSetWorkspace");
  embeddings_ = weights(vocab * hidden, 1.0f);
  positions_ = weights(tokens * hidden, 0.5f);
  head_ = weights(vocab * hidden, scale);
  for (int i = 0; i < size.layers; ++i) {
    Layer layer;
    layer.qkv = weights(3 * hidden * hidden, scale);
    layer.out = weights(hidden * hidden, scale);
    layer.up = weights(inner * hidden, scale);
    layer.gate = weights(inner * hidden, scale);
    layer.down = weights(hidden * inner, scale);
    layers_.push_back(std::move(layer));
  }
  // Rows of padding have slots of their own, behind those of requests.
  const std::size_t cache =
      static_cast<std::size_t>(size.layers) * (size.slots + rows) * tokens * hidden;
  keys_ = allocate<Half>(cache);
  values_ = allocate<Half>(cache);
  x_ = allocate<Half>(rows * hidden);
  norm_ = allocate<Half>(rows * hidden);
  qkv_ = allocate<Half>(rows * 3 * hidden);
  attention_ = allocate<Half>(rows * hidden);
  projected_ = allocate<Half>(rows * hidden);
  up_ = allocate<Half>(rows * inner);
  gate_ = allocate<Half>(rows * inner);
  logits_ = allocate<Half>(rows * vocab);
  rows_ = allocate<Row>(rows);
  chosen_ = allocate<int>(rows);
  check(cudaMallocHost(&pinned_rows_, rows * sizeof(Row)), "allocate pinned memory");
  check(cudaMallocHost(&pinned_chosen_, rows * sizeof(int)), "allocate pinned memory");
  host_embeddings_.resize(vocab * hidden);
  host_positions_.resize(tokens * hidden);
  check(
      cudaMemcpy(host_embeddings_.data(), embeddings_.get(), vocab * hidden * 2, cudaMemcpyDefault),
      "copy");
  check(
      cudaMemcpy(host_positions_.data(), positions_.get(), tokens * hidden * 2, cudaMemcpyDefault),
      "copy");
  check(cudaDeviceSynchronize(), "make the model");
}

Model::~Model() {
  (void)cudaStreamSynchronize(stream_);
  (void)cudaFreeHost(pinned_rows_);
  (void)cudaFreeHost(pinned_chosen_);
  (void)cublasDestroy(cublas_);
  (void)cudaStreamDestroy(stream_);
}

void Model::set_rows(std::span<const Row> rows, int padded) {
  if (padded > size_.max_rows || rows.size() > static_cast<std::size_t>(padded))
    throw std::invalid_argument("rows");
  std::copy(rows.begin(), rows.end(), pinned_rows_);
  for (int i = static_cast<int>(rows.size()); i < padded; ++i)
    pinned_rows_[i] = {size_.slots + i, 0, 0};
  check(cudaMemcpyAsync(rows_.get(), pinned_rows_, static_cast<std::size_t>(padded) * sizeof(Row),
                        cudaMemcpyDefault, stream_),
        "upload rows");
}

// out[rows, out_width] = in[rows, in_width] · weight[out_width, in_width]ᵀ, in cuBLAS's column
// order.
void Model::gemm(const Half* weight, const Half* in, Half* out, int rows, int in_width,
                 int out_width) {
  const float one = 1.0f, zero = 0.0f;
  check(cublasGemmEx(cublas_, CUBLAS_OP_T, CUBLAS_OP_N, out_width, rows, in_width, &one, weight,
                     CUDA_R_16BF, in_width, in, CUDA_R_16BF, in_width, &zero, out, CUDA_R_16BF,
                     out_width, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

void Model::forward(int rows, bool every_row, const Observer& observer) {
  const int hidden = size_.hidden, inner = size_.intermediate;
  const auto row_count = static_cast<std::size_t>(rows);
  const std::size_t layer_cache =
      static_cast<std::size_t>(size_.slots + size_.max_rows) * size_.max_tokens * hidden;
  const dim3 heads(grid(rows), static_cast<unsigned>(hidden / kHead));
  embed<<<grid(rows), kThreads, 0, stream_>>>(rows_.get(), embeddings_.get(), positions_.get(),
                                              x_.get(), hidden);
  for (int i = 0; i < size_.layers; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    Half* keys = keys_.get() + static_cast<std::size_t>(i) * layer_cache;
    Half* values = values_.get() + static_cast<std::size_t>(i) * layer_cache;
    observer({Site::Kind::resid_pre, i}, {x_.get(), rows, hidden});
    rms_norm<<<grid(rows), kThreads, 0, stream_>>>(x_.get(), norm_.get(), hidden);
    gemm(layer.qkv.get(), norm_.get(), qkv_.get(), rows, hidden, 3 * hidden);
    store_cache<<<grid(rows), kThreads, 0, stream_>>>(rows_.get(), qkv_.get(), keys, values, hidden,
                                                      size_.max_tokens);
    attend<<<heads, kHead, static_cast<std::size_t>(size_.max_tokens) * sizeof(float), stream_>>>(
        rows_.get(), qkv_.get(), keys, values, attention_.get(), hidden, size_.max_tokens);
    gemm(layer.out.get(), attention_.get(), projected_.get(), rows, hidden, hidden);
    add<<<blocks(row_count * hidden), kThreads, 0, stream_>>>(x_.get(), projected_.get(),
                                                              row_count * hidden);
    rms_norm<<<grid(rows), kThreads, 0, stream_>>>(x_.get(), norm_.get(), hidden);
    gemm(layer.up.get(), norm_.get(), up_.get(), rows, hidden, inner);
    gemm(layer.gate.get(), norm_.get(), gate_.get(), rows, hidden, inner);
    silu_times<<<blocks(row_count * inner), kThreads, 0, stream_>>>(gate_.get(), up_.get(),
                                                                    row_count * inner);
    gemm(layer.down.get(), gate_.get(), projected_.get(), rows, inner, hidden);
    observer({Site::Kind::mlp_out, i}, {projected_.get(), rows, hidden});
    add<<<blocks(row_count * hidden), kThreads, 0, stream_>>>(x_.get(), projected_.get(),
                                                              row_count * hidden);
  }
  const int wanted = every_row ? rows : 1;
  const Half* last = x_.get() + static_cast<std::size_t>(rows - wanted) * hidden;
  rms_norm<<<grid(wanted), kThreads, 0, stream_>>>(last, norm_.get(), hidden);
  gemm(head_.get(), norm_.get(), logits_.get(), wanted, hidden, size_.vocab);
  observer({Site::Kind::final_logits, -1}, {logits_.get(), wanted, size_.vocab});
  choose<<<grid(wanted), kThreads, 0, stream_>>>(logits_.get(), chosen_.get(), size_.vocab);
  check(cudaGetLastError(), "launch the pass");
}

std::vector<int> Model::next_tokens(int count) {
  check(cudaMemcpyAsync(pinned_chosen_, chosen_.get(),
                        static_cast<std::size_t>(count) * sizeof(int), cudaMemcpyDefault, stream_),
        "download tokens");
  check(cudaStreamSynchronize(stream_), "wait for the pass");
  return {pinned_chosen_, pinned_chosen_ + count};
}

std::vector<Half> Model::embedding(int token, int position) const {
  const auto hidden = static_cast<std::size_t>(size_.hidden);
  std::vector<Half> row(hidden);
  for (std::size_t i = 0; i < hidden; ++i) {
    row[i] = __float2bfloat16(
        __bfloat162float(host_embeddings_[static_cast<std::size_t>(token) * hidden + i]) +
        __bfloat162float(host_positions_[static_cast<std::size_t>(position) * hidden + i]));
  }
  return row;
}

}  // namespace example
