#include "variants.hpp"

#include "check.hpp"

namespace graphtap::bench {
namespace {

// Volatile: such loads stay in program order and are not sunk below the branch that may make them
// useless.
__device__ __forceinline__ uint4 load_now(const void* from) {
  uint4 value;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(__cvta_generic_to_global(from)));
  return value;
}

/// The 48 bytes of a header that a producer reads, before anything looks at them.
struct RawPlan {
  uint4 first, second, slot;
};

__device__ __forceinline__ RawPlan load_plan(const FormArgs& args, std::uint32_t source) {
  const auto* base = reinterpret_cast<const std::byte*>(args.header);
  return {load_now(base), load_now(base + 16),
          load_now(base + wire::slots_offset() + (args.slot + source) * sizeof(wire::SlotPlan))};
}

struct Plan {
  bool on;
  std::uint64_t ticket, magic;
  std::byte *frame, *record;
  std::uint32_t units, rows;
};

__device__ __forceinline__ std::uint64_t join(unsigned low, unsigned high) {
  return static_cast<std::uint64_t>(high) << 32 | low;
}

__device__ __forceinline__ Plan understand(const RawPlan& raw, const FormArgs& args,
                                           std::uint32_t source) {
  Plan plan;
  plan.ticket = join(raw.first.x, raw.first.y);
  plan.magic = join(raw.second.x, raw.second.y);
  const std::uint32_t slots = raw.second.z;
  plan.on = plan.ticket != 0 && raw.slot.x != 0 && args.slot + source < slots;
  plan.frame = reinterpret_cast<std::byte*>(join(raw.first.z, raw.first.w));
  plan.record = plan.frame + std::uint64_t{raw.slot.x} * 16;
  plan.units = min(min(raw.slot.y * args.row_units, raw.slot.w), args.units);
  plan.rows = plan.units / args.row_units;
  return plan;
}

__device__ __forceinline__ RawPlan raw_of(const FormArgs& args) {
  RawPlan raw;
  static_assert(sizeof(raw) == sizeof(args.value_header) + sizeof(args.value_slot));
  memcpy(&raw.first, &args.value_header, sizeof(args.value_header));
  memcpy(&raw.slot, &args.value_slot, sizeof(args.value_slot));
  return raw;
}

/// early: counted in the header, behind its slots, before the plan is known and whether or not it
/// is ON; whoever is not the first says so in the frame.
enum class Census { atomic, reduction, early, none };

/// The record's head and the slot's firing count.
template <Census kCensus = Census::atomic>
__device__ __forceinline__ void sign(const Plan& plan, const FormArgs& args, std::uint32_t source,
                                     [[maybe_unused]] unsigned earlier = 0) {
  const std::uint32_t slot = args.slot + source;
  auto* count = reinterpret_cast<unsigned*>(plan.frame) + slot;
  if constexpr (kCensus == Census::early) {
    // Nothing zeroes the counts between replays here: a number that none of them reaches.
    if (earlier > 1u << 30) *count = static_cast<unsigned>(plan.ticket ^ plan.magic);
  }
  if constexpr (kCensus == Census::atomic) {
    atomicAdd(count, 1u);
  } else if constexpr (kCensus == Census::reduction) {
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(__cvta_generic_to_global(count)) : "memory");
  }
  const wire::RecordHead head{plan.magic, plan.ticket, static_cast<std::uint16_t>(slot),
                              0,          plan.rows,   std::uint64_t{plan.units} * 16};
  *reinterpret_cast<wire::RecordHead*>(plan.record) = head;
}

__global__ void empty_form(const __grid_constant__ FormArgs) {}

/// Waits for the kernel before a programmatic edge to end, its writes included. Every block has to,
/// OFF or not: what comes behind it has no other edge to that kernel.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__global__ void empty_programmatic_form(const __grid_constant__ FormArgs) {
  wait_for_predecessor();
}

enum class Reads { header_first, speculative, argument, programmatic };
/// How rows are written: plainly, or as data that is not read again soon.
enum class Stores { plain, streaming };

/// blockIdx.y is the source, so that one node can serve all hooks of a layer.
template <int kThreads, int kLoads, Reads kReads, Census kCensus = Census::atomic,
          Stores kStores = Stores::plain>
__global__ void __launch_bounds__(kThreads) copy_form(const __grid_constant__ FormArgs args) {
  const std::uint32_t source = blockIdx.y;
  const uint4* from = args.source[source];
  const std::uint32_t first = blockIdx.x * (kThreads * kLoads) + threadIdx.x;
  uint4 value[kLoads];
  const auto load = [&](std::uint32_t units) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (const std::uint32_t unit = first + i * kThreads; unit < units)
        value[i] = load_now(from + unit);
    }
  };
  [[maybe_unused]] unsigned earlier = 0;
  if constexpr (kCensus == Census::early) {
    auto* counts = reinterpret_cast<std::byte*>(args.header) + wire::lists_offset(args.slots);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      earlier = atomicAdd(reinterpret_cast<unsigned*>(counts) + args.slot + source, 1u);
    }
  }
  RawPlan raw;
  if constexpr (kReads == Reads::argument) {
    raw = raw_of(args);
  } else {
    raw = load_plan(args, source);
  }
  if constexpr (kReads == Reads::speculative) load(args.units);
  // The header was written before the kernel before this one began: it may be read while that one
  // still runs.
  if constexpr (kReads == Reads::programmatic) wait_for_predecessor();
  const Plan plan = understand(raw, args, source);
  if (!plan.on) return;
  if constexpr (kReads != Reads::speculative) load(plan.units);
  auto* to = reinterpret_cast<uint4*>(plan.record + sizeof(wire::RecordHead));
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const std::uint32_t unit = first + i * kThreads;
    if (unit >= plan.units) continue;
    if constexpr (kStores == Stores::streaming) {
      __stcs(to + unit, value[i]);
    } else {
      to[unit] = value[i];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) sign<kCensus>(plan, args, source, earlier);
}

/// One bulk copy in, one out, by one thread: no registers hold the data.
template <int kChunkBytes, bool kSpeculate>
__global__ void __launch_bounds__(32) bulk_form(const __grid_constant__ FormArgs args) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) unsigned char buffer[kChunkBytes];
  __shared__ alignas(8) std::uint64_t arrival;
  if (threadIdx.x != 0) return;
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  const auto barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrival));
  const std::uint32_t first = blockIdx.x * (kChunkBytes / 16);
  const auto bytes_of = [&](std::uint32_t units) {
    return first < units ? min(units - first, std::uint32_t{kChunkBytes / 16}) * 16 : 0u;
  };
  const auto load = [&](std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared),
        "l"(__cvta_generic_to_global(args.source[0] + first)), "r"(bytes), "r"(barrier)
        : "memory");
  };
  const auto await = [&] {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, "
          "0, p;\n}"
          : "=r"(done)
          : "r"(barrier)
          : "memory");
    }
  };
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const std::uint32_t early = kSpeculate ? bytes_of(args.units) : 0;
  const RawPlan raw = load_plan(args, 0);
  if (early > 0) load(early);
  const Plan plan = understand(raw, args, 0);
  const std::uint32_t bytes = plan.on ? bytes_of(plan.units) : 0;
  if (!kSpeculate && bytes > 0) load(bytes);
  if (early > 0 || bytes > 0)
    await();  // also when OFF: shared memory must outlive the copy into it
  if (bytes > 0) {
    std::byte* const to = plan.record + sizeof(wire::RecordHead) + std::uint64_t{first} * 16;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(shared), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (blockIdx.x == 0) sign(plan, args, 0);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
#else
  __trap();  // needs sm_90
#endif
}

template <int kThreads, int kLoads, Reads kReads, Census kCensus = Census::atomic,
          Stores kStores = Stores::plain>
Form copy_of(const char* name, unsigned sources = 1, unsigned nodes = 1) {
  const auto* kernel =
      reinterpret_cast<const void*>(&copy_form<kThreads, kLoads, kReads, kCensus, kStores>);
  return {name,
          kernel,
          kThreads,
          kThreads * kLoads,
          sources,
          nodes,
          kReads == Reads::argument,
          kReads == Reads::programmatic};
}

template <int kChunkBytes, bool kSpeculate>
Form bulk_of(const char* name) {
  return {name, reinterpret_cast<const void*>(&bulk_form<kChunkBytes, kSpeculate>), 32,
          kChunkBytes / 16};
}

const Form kForms[] = {
    {"empty", reinterpret_cast<const void*>(&empty_form), 32, 0},
    {"empty_grid_512x1", reinterpret_cast<const void*>(&empty_form), 512, 512},
    copy_of<256, 1, Reads::header_first>("header_first_256x1"),
    copy_of<512, 1, Reads::header_first>("header_first_512x1"),
    copy_of<512, 2, Reads::header_first>("header_first_512x2"),
    copy_of<128, 1, Reads::speculative>("speculative_128x1"),
    copy_of<128, 2, Reads::speculative>("speculative_128x2"),
    copy_of<128, 4, Reads::speculative>("speculative_128x4"),
    copy_of<256, 1, Reads::speculative>("speculative_256x1"),
    copy_of<256, 2, Reads::speculative>("speculative_256x2"),
    copy_of<256, 4, Reads::speculative>("speculative_256x4"),
    copy_of<512, 1, Reads::speculative>("speculative_512x1"),
    copy_of<512, 2, Reads::speculative>("speculative_512x2"),
    copy_of<512, 4, Reads::speculative>("speculative_512x4"),
    copy_of<512, 1, Reads::speculative, Census::reduction>("speculative_512x1_red"),
    copy_of<512, 1, Reads::speculative, Census::none>("speculative_512x1_no_census"),
    copy_of<128, 1, Reads::speculative, Census::none>("speculative_128x1_no_census"),
    copy_of<128, 1, Reads::speculative, Census::early>("speculative_128x1_early"),
    copy_of<128, 1, Reads::speculative, Census::atomic, Stores::streaming>(
        "speculative_128x1_streaming"),
    copy_of<128, 2, Reads::speculative, Census::atomic, Stores::streaming>(
        "speculative_128x2_streaming"),
    {"empty_programmatic", reinterpret_cast<const void*>(&empty_programmatic_form), 32, 0, 1, 1,
     false, true},
    copy_of<128, 1, Reads::programmatic>("programmatic_128x1"),
    copy_of<128, 2, Reads::programmatic>("programmatic_128x2"),
    copy_of<256, 1, Reads::programmatic>("programmatic_256x1"),
    copy_of<256, 2, Reads::programmatic>("programmatic_256x2"),
    copy_of<512, 1, Reads::programmatic>("programmatic_512x1"),
    copy_of<512, 2, Reads::programmatic>("programmatic_512x2"),
    copy_of<512, 1, Reads::programmatic, Census::none>("programmatic_512x1_no_census"),
    bulk_of<8192, false>("bulk_8k"),
    bulk_of<16384, false>("bulk_16k"),
    bulk_of<32768, false>("bulk_32k"),
    bulk_of<8192, true>("bulk_8k_speculative"),
    bulk_of<16384, true>("bulk_16k_speculative"),
    copy_of<512, 1, Reads::argument>("argument_512x1"),
    copy_of<512, 1, Reads::speculative>("fused_2_sources", 2),
    copy_of<512, 1, Reads::speculative>("fused_4_sources", 4),
    copy_of<512, 1, Reads::speculative>("nodes_2_a_layer", 1, 2),
    copy_of<512, 1, Reads::speculative>("nodes_4_a_layer", 1, 4),
};

// ---- a step's header

template <std::size_t kBytes>
struct Image {
  uint4 units[kBytes / 16];
};

template <std::size_t kBytes>
__global__ void upload_kernel(uint4* header, const Image<kBytes> image) {
  header[threadIdx.x] = image.units[threadIdx.x];
}

template <std::size_t kBytes>
void upload(void* header, const void* image, cudaStream_t stream) {
  Image<kBytes> value;
  memcpy(&value, image, kBytes);
  upload_kernel<kBytes><<<1, kBytes / 16, 0, stream>>>(static_cast<uint4*>(header), value);
  check(cudaGetLastError(), "launch an upload");
}

__global__ void close_kernel(wire::StepHeader* header) { header->ticket = 0; }

}  // namespace

std::span<const Form> forms() { return kForms; }

void launch_empty_form(cudaStream_t stream) {
  empty_form<<<1, 32, 0, stream>>>(FormArgs{});
  check(cudaGetLastError(), "launch the empty form");
}

void upload_by_kernel(void* header, const void* image, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 512) return upload<512>(header, image, stream);
  if (bytes == 1024) return upload<1024>(header, image, stream);
  fail("an upload by kernel has 512 or 1024 bytes");
}

void close_by_kernel(wire::StepHeader* header, cudaStream_t stream) {
  close_kernel<<<1, 1, 0, stream>>>(header);
  check(cudaGetLastError(), "launch a close");
}

void add_close_kernel_node(cudaGraph_t graph, cudaGraphNode_t last, wire::StepHeader* header) {
  void* pointers[] = {&header};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(&close_kernel);
  params.gridDim = dim3(1);
  params.blockDim = dim3(1);
  params.kernelParams = pointers;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, &last, 1, &params), "add a close node");
}

}  // namespace graphtap::bench
