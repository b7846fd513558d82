#include "device/cuda/producer_launch.hpp"

#include <algorithm>
#include <cstring>

#include "device/cuda/producers.cuh"

namespace graphtap::cuda {
namespace {

constexpr std::uint32_t kMostChunkRows = 65535;  // gridDim.y

template <class Args>
using Kernel = void (*)(Args);

// Up to here one load a thread: more blocks, each done sooner.
constexpr std::uint64_t kOneLoadBytes = 512u << 10;
constexpr std::uint64_t kMostFlatUnits = 1u << 30;  // its arithmetic is 32 bits wide

template <bool kGraph, bool kSpeculate, bool kSum>
Kernel<FlatArgs> flat_kernel(bool two_loads) {
  return two_loads ? flat_producer<kGraph, kSpeculate, kSum, 2>
                   : flat_producer<kGraph, kSpeculate, kSum, 1>;
}

Kernel<FlatArgs> flat_kernel(bool graph, bool speculate, bool sum, bool two_loads) {
  if (!graph)
    return sum ? flat_kernel<false, false, true>(two_loads)
               : flat_kernel<false, false, false>(two_loads);
  if (speculate)
    return sum ? flat_kernel<true, true, true>(two_loads)
               : flat_kernel<true, true, false>(two_loads);
  return sum ? flat_kernel<true, false, true>(two_loads)
             : flat_kernel<true, false, false>(two_loads);
}

template <bool kGraph, bool kSum>
Kernel<StridedArgs> strided_kernel(std::uint64_t granule) {
  switch (granule) {
    case 16:
      return strided_producer<kGraph, kSum, 16>;
    case 8:
      return strided_producer<kGraph, kSum, 8>;
    case 4:
      return strided_producer<kGraph, kSum, 4>;
    case 2:
      return strided_producer<kGraph, kSum, 2>;
    default:
      return strided_producer<kGraph, kSum, 1>;
  }
}

Kernel<StridedArgs> strided_kernel(bool graph, bool sum, std::uint64_t granule) {
  if (graph)
    return sum ? strided_kernel<true, true>(granule) : strided_kernel<true, false>(granule);
  return sum ? strided_kernel<false, true>(granule) : strided_kernel<false, false>(granule);
}

template <class Args>
cudaError_t launch(Kernel<Args> kernel, dim3 grid, int threads, Args args, cudaStream_t stream) {
  void* parameters[] = {&args};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                          dim3(static_cast<unsigned>(threads)), parameters, 0, stream);
}

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
std::uint64_t lowest_bit(std::uint64_t value) { return value & (~value + 1); }

// The widest access that every granule of the source allows: 1, 2, 4, 8 or 16 bytes.
std::uint64_t granule_of(const Source& source) {
  std::uint64_t bits = 16 | address(source.data) | source.part_bytes;
  if (source.parts > 1) bits |= static_cast<std::uint64_t>(source.part_stride);
  if (source.rows > 1) bits |= static_cast<std::uint64_t>(source.row_stride);
  if (source.addend != nullptr) {
    bits |= address(source.addend);
    if (source.rows > 1) bits |= static_cast<std::uint64_t>(source.addend_row_stride);
  }
  return lowest_bit(bits);
}

ProducerTag tag_of(const ProducerCall& call) { return {call.id, call.header}; }
InlinePlan plan_of(const ProducerCall& call) {
  if (call.header != nullptr) return {};
  return {call.ticket, call.frame, call.magic, call.plan, call.list};
}

unsigned blocks_for(std::uint64_t work, std::uint64_t per_block, const LaunchShape& shape) {
  const std::uint64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(blocks, 1, std::max(shape.most_blocks, 1u)));
}

// An eager producer knows how many rows it is to copy; one in a graph must be ready for all.
std::uint64_t most_rows(const ProducerCall& call) {
  if (call.header != nullptr) return call.source.rows;
  return call.list != nullptr ? call.plan.rows : std::min(call.source.rows, call.plan.rows);
}

bool lies_flat(const Source& source, std::uint64_t granule) {
  const auto row = static_cast<std::int64_t>(source.row_bytes());
  const bool parts_touch =
      source.parts == 1 || source.part_stride == static_cast<std::int64_t>(source.part_bytes);
  const bool rows_touch = source.rows <= 1 || source.row_stride == row;
  const bool addend_too =
      source.addend == nullptr || source.rows <= 1 || source.addend_row_stride == row;
  return parts_touch && rows_touch && addend_too && granule == 16;
}

}  // namespace

cudaError_t launch_producer(const ProducerCall& call, const LaunchShape& shape,
                            cudaStream_t stream) {
  const Source& source = call.source;
  const bool graph = call.header != nullptr;
  const bool sum = source.addend != nullptr;
  if (source.chunks > 0) {
    ChunkedArgs args;
    args.tag = tag_of(call);
    args.data = static_cast<const std::byte*>(source.data);
    args.chunk_bytes = source.chunk_bytes;
    args.chunk_stride = source.chunk_stride;
    args.row_bytes = source.row_bytes();
    args.chunks = source.chunks;
    args.slot_is_mapped = !graph || shape.slot_is_mapped;
    args.plan = plan_of(call);
    const std::uint32_t down = std::min(source.chunks, kMostChunkRows);
    LaunchShape across = shape;
    across.most_blocks = std::max(1u, shape.most_blocks / down);
    const dim3 grid(blocks_for(source.chunk_stride, kStridedThreads * 16, across), down);
    return launch<ChunkedArgs>(graph ? chunked_producer<true> : chunked_producer<false>, grid,
                               kStridedThreads, args, stream);
  }

  const std::uint64_t granule =
      sum && size_of(call.dtype) == 1 ? 1 : granule_of(source);  // see sums.cuh
  const std::uint64_t bytes = most_rows(call) * source.row_bytes();
  const bool mapped = !graph || shape.slot_is_mapped;
  const std::uint64_t units = source.rows * (source.row_bytes() / 16);
  if (mapped && lies_flat(source, granule) && units < kMostFlatUnits) {
    FlatArgs args;
    args.tag = tag_of(call);
    args.data = source.data;
    args.addend = source.addend;
    args.units_per_row = static_cast<std::uint32_t>(source.row_bytes() / 16);
    args.rows = source.rows;
    args.units = static_cast<std::uint32_t>(units);
    args.dtype = call.dtype;
    args.plan = plan_of(call);
    const bool two_loads = bytes > kOneLoadBytes;
    const std::uint64_t block = std::uint64_t{kFlatThreads} * 16 * (two_loads ? 2 : 1);
    const std::uint64_t read = sum ? 2 * bytes : bytes;
    const bool speculate = graph && read <= shape.speculative_bytes;
    return launch(flat_kernel(graph, speculate, sum, two_loads),
                  dim3(blocks_for(bytes, block, shape)), kFlatThreads, args, stream);
  }

  StridedArgs args;
  args.tag = tag_of(call);
  args.data = static_cast<const std::byte*>(source.data);
  args.addend = static_cast<const std::byte*>(source.addend);
  args.row_stride = source.row_stride;
  args.addend_row_stride = source.addend_row_stride;
  args.part_stride = source.part_stride;
  args.parts = source.parts;
  args.rows = source.rows;
  args.dtype = call.dtype;
  args.slot_is_mapped = mapped;
  args.plan = plan_of(call);
  const std::uint64_t element = sum ? size_of(call.dtype) : 1;
  args.aligned = granule >= element;  // else each element is put together from its bytes
  const std::uint64_t unit = std::max(granule, element);
  if (source.part_bytes / unit > 0xffffffffu) return cudaErrorInvalidValue;
  args.granules_per_part = static_cast<std::uint32_t>(source.part_bytes / unit);
  return launch(strided_kernel(graph, sum, unit),
                dim3(blocks_for(bytes / unit, kStridedThreads * 2, shape)), kStridedThreads, args,
                stream);
}

std::span<const void* const> producer_kernels() noexcept {
#define GT_SYMBOL(...) reinterpret_cast<const void*>(&__VA_ARGS__)
#define GT_FLAT(graph, speculate, sum)                \
  GT_SYMBOL(flat_producer<graph, speculate, sum, 1>), \
      GT_SYMBOL(flat_producer<graph, speculate, sum, 2>)
#define GT_STRIDED(graph, sum)                                                                \
  GT_SYMBOL(strided_producer<graph, sum, 1>), GT_SYMBOL(strided_producer<graph, sum, 2>),     \
      GT_SYMBOL(strided_producer<graph, sum, 4>), GT_SYMBOL(strided_producer<graph, sum, 8>), \
      GT_SYMBOL(strided_producer<graph, sum, 16>)
  static const void* const kernels[] = {
      GT_FLAT(true, true, false),        GT_FLAT(true, true, true),
      GT_FLAT(true, false, false),       GT_FLAT(true, false, true),
      GT_FLAT(false, false, false),      GT_FLAT(false, false, true),
      GT_STRIDED(true, false),           GT_STRIDED(true, true),
      GT_STRIDED(false, false),          GT_STRIDED(false, true),
      GT_SYMBOL(chunked_producer<true>), GT_SYMBOL(chunked_producer<false>),
  };
#undef GT_STRIDED
#undef GT_FLAT
#undef GT_SYMBOL
  return kernels;
}

}  // namespace graphtap::cuda
