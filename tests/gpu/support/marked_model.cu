#include "gpu/support/marked_model.cuh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace graphtap::gpu {

__global__ void set_step(std::uint64_t* where, std::uint64_t step) { *where = step; }

__global__ void fill(std::uint64_t* tensor, std::uint32_t rows, std::uint32_t hook,
                     const std::uint64_t* step, std::uint64_t spin_ns) {
  const std::uint64_t now = *step;
  for (std::uint32_t i = threadIdx.x; i < rows * kWords; i += blockDim.x) {
    tensor[i] = word_of(hook, now, i / kWords, i % kWords);
  }
  if (spin_ns == 0) return;
  std::uint64_t begin, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  } while (end - begin < spin_ns);
}

__global__ void count_wrong(const std::uint64_t* tensor, std::uint32_t rows, std::uint32_t hook,
                            const std::uint64_t* step, std::uint64_t* wrong) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const std::uint64_t now = *step;
  for (std::uint32_t i = threadIdx.x; i < rows * kWords; i += blockDim.x) {
    if (tensor[i] != word_of(hook, now, i / kWords, i % kWords))
      atomicAdd(reinterpret_cast<unsigned long long*>(wrong), 1ull);
  }
}

__global__ void trap() { asm volatile("trap;"); }

Status MarkSink::write(const DeliveredStep& step) {
  ++steps;
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  for (const Record& record : step.records) {
    bool good =
        record.payload.size() == record.rows * record.row_bytes && record.slices.size() == 1;
    for (std::uint32_t row = 0; good && row < record.rows; ++row) {
      const std::uint64_t number =
          static_cast<std::uint64_t>(record.slices[0].first_token) / record.rows;
      for (std::uint32_t word = 0; good && word < kWords; ++word) {
        std::uint64_t found;
        std::memcpy(&found, record.payload.data() + row * record.row_bytes + word * 8, 8);
        good = found == word_of(record.hook->id, number, row, word);
      }
    }
    if (good) {
      ++right;
      continue;
    }
    ++wrong;
    const std::lock_guard lock(mutex);
    if (first_wrong.empty())
      first_wrong = record.hook->name + " of step " + std::to_string(step.step);
  }
  const std::lock_guard lock(mutex);
  for (const Gap& gap : step.gaps) ++gaps[gap.reason];
  return {};
}

int times(int usual) {
  return std::getenv("GRAPHTAP_SANITIZER") != nullptr ? std::max(2, usual / 20) : usual;
}

MarkedModel::MarkedModel(const Shape& its_shape, MonitorOptions options) : shape(its_shape) {
  device = make_cuda_device().value_or_throw();
  HookTable table("marked");
  for (std::uint32_t hook = 0; hook < shape.hooks; ++hook) {
    HookSpec spec;
    spec.type = "resid_pre";
    spec.layer = static_cast<int>(hook);
    spec.dtype = DType::i64;
    spec.row_shape = {kWords};
    (void)table.add(spec).value_or_throw();
  }
  monitor = std::make_unique<Monitor>(device, std::move(table), options,
                                      std::vector<std::shared_ptr<Sink>>{sink});
  lane = monitor->make_lane();
  for (int i = 0; i < 3; ++i) {
    cudaStream_t stream{};
    GT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams.push_back(stream);
  }
  GT_CUDA(cudaMalloc(&step_number, sizeof(std::uint64_t)));
  GT_CUDA(cudaMemset(step_number, 0, sizeof(std::uint64_t)));
  for (std::uint32_t hook = 0; hook < shape.hooks; ++hook) {
    std::uint64_t* tensor = nullptr;
    GT_CUDA(cudaMalloc(&tensor, shape.rows * kWords * 8));
    GT_CUDA(cudaMemset(tensor, 0xee, shape.rows * kWords * 8));
    tensors.push_back(tensor);
  }
  GT_CUDA(cudaDeviceSynchronize());
  request = monitor->begin_request("marked");
}

MarkedModel::~MarkedModel() {
  lane.reset();
  monitor.reset();
  (void)cudaDeviceSynchronize();
  for (std::uint64_t* tensor : tensors) (void)cudaFree(tensor);
  (void)cudaFree(step_number);
  for (cudaStream_t stream : streams) (void)cudaStreamDestroy(stream);
}

void MarkedModel::layer(HookId hook, cudaStream_t stream) {
  fill<<<1, 128, 0, stream>>>(tensors[hook], shape.rows, hook, step_number, shape.spin_ns);
  GT_CUDA(cudaGetLastError());
  Source source;
  source.data = tensors[hook];
  source.rows = shape.rows;
  source.part_bytes = kWords * 8;
  source.row_stride = kWords * 8;
  lane->produce(hook, source, Stream{bits(stream)});
}

ModelGraph MarkedModel::capture(const std::vector<HookId>& hooks, Body body,
                                cudaStreamCaptureMode mode) {
  ModelGraph graph;
  graph.hooks = hooks;
  cudaStream_t stream{};
  GT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  GT_CUDA(cudaStreamBeginCapture(stream, mode));
  for (const HookId hook : hooks) {
    if (body) {
      body(hook, stream);
    } else {
      layer(hook, stream);
    }
  }
  GT_CUDA(cudaStreamEndCapture(stream, &graph.graph));
  GT_CUDA(cudaStreamDestroy(stream));
  return graph;
}

void MarkedModel::bind(ModelGraph& graph, const std::string& name, BindOptions options) {
  GT_CUDA(cudaGraphInstantiate(&graph.exec, graph.graph, options.instantiate_flags));
  options.name = name;
  graph.bound = lane->bind(Graph{bits(graph.graph)}, Exec{bits(graph.exec)}, options);
}

void MarkedModel::step(ModelGraph& graph, cudaStream_t stream) {
  const std::uint64_t number = next_step++;
  const std::vector<RowSpan> spans{
      {request, static_cast<std::int64_t>(number * shape.rows), shape.rows}};
  StepShape step_shape;
  step_shape.kind = StepKind::graph;
  step_shape.tokens = spans;
  Step step = lane->begin(step_shape, Stream{bits(stream)});
  set_step<<<1, 1, 0, stream>>>(step_number, number);
  GT_CUDA(cudaGetLastError());
  for (const HookId hook : graph.hooks) expected += step.captures(hook) ? 1 : 0;
  if (graph.bound) {
    const Status launched = step.launch(*graph.bound);
    ASSERT_TRUE(launched.ok()) << launched.message();
  } else {
    GT_CUDA(cudaGraphLaunch(graph.exec, stream));
  }
  step.end();
}

void MarkedModel::raw_launch(ModelGraph& graph, cudaStream_t stream) {
  GT_CUDA(cudaGraphLaunch(graph.exec, stream));
}

HookSet MarkedModel::random_set(std::uint64_t& random) const {
  std::vector<HookId> ids;
  const std::uint64_t density = next_random(random) % 4;  // none, some, most, all
  for (HookId hook = 0; hook < shape.hooks; ++hook) {
    if (next_random(random) % 3 < density) ids.push_back(hook);
  }
  return HookSet::of(shape.hooks, ids);
}

std::vector<HookId> MarkedModel::all_hooks() const {
  std::vector<HookId> hooks;
  for (HookId hook = 0; hook < shape.hooks; ++hook) hooks.push_back(hook);
  return hooks;
}

void MarkedModel::expect_all_right() {
  const Status flushed = monitor->flush(std::chrono::seconds(60));
  EXPECT_TRUE(flushed.ok()) << flushed.message();
  EXPECT_EQ(sink->wrong, 0u) << sink->first_wrong;
  EXPECT_EQ(sink->right, expected);
  const Stats stats = monitor->stats();
  EXPECT_EQ(stats.total.planned,
            stats.total.delivered + stats.total.missing() + stats.total.shed());
  EXPECT_EQ(stats.device_errors, 0u) << stats.last_device_error;
  EXPECT_EQ(stats.ring_used, 0u);
}

}  // namespace graphtap::gpu
