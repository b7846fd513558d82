#pragma once
// The producer kernels: copy the rows that the plan asks for into the step's frame. They need
// nothing but these headers; what they must do, byte for byte, is written in
// device/host/producer.hpp. Nothing outside the planned range is written, whatever counts, lists
// and plans say.
#include <type_traits>

#include "device/cuda/plan_on_device.cuh"
#include "device/cuda/sums.cuh"

namespace graphtap::cuda {

inline constexpr int kFlatThreads =
    128;  // measured: larger blocks start later, smaller ones copy no faster
inline constexpr int kStridedThreads = 256;

__device__ __forceinline__ uint4 add_units(DType dtype, uint4 a, uint4 b) {
  const Granule<16> sum =
      add(dtype, Granule<16>{{a.x, a.y, a.z, a.w}}, Granule<16>{{b.x, b.y, b.z, b.w}});
  return make_uint4(sum.words[0], sum.words[1], sum.words[2], sum.words[3]);
}

/// Of flat rows, what is not planned every day: a row list, or more rows than fit. Out of line, so
/// that the common case is short.
template <bool kGraph, bool kSum>
__device__ __noinline__ void flat_by_list(const FlatArgs& args) {
  const auto* source = static_cast<const uint4*>(args.data);
  const auto* addend = static_cast<const uint4*>(args.addend);
  // Read again rather than handed over: what is handed over by address makes every thread keep it
  // in memory.
  const RawPlan raw = load_plan<kGraph>(args.tag, args.plan, true);
  const Plan plan = understand<kGraph>(raw, args.tag, args.plan);
  const std::uint32_t rows = rows_to_copy(plan, args.rows, std::uint64_t{args.units_per_row} * 16);
  const std::uint64_t units =
      std::uint64_t{rows} * args.units_per_row;  // a list may name a row twice
  auto* to = reinterpret_cast<uint4*>(record_of(raw) + sizeof(wire::RecordHead));
  const std::uint64_t threads = std::uint64_t{gridDim.x} * kFlatThreads;
  for (std::uint64_t unit = std::uint64_t{blockIdx.x} * kFlatThreads + threadIdx.x; unit < units;
       unit += threads) {
    const std::uint64_t row = unit / args.units_per_row;
    const std::uint64_t from = (plan.list != nullptr ? plan.list[row] : row) * args.units_per_row +
                               unit % args.units_per_row;
    to[unit] = kSum ? add_units(args.dtype, source[from], addend[from]) : source[from];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) sign<kGraph>(raw, args.tag, rows, units * 16);
}

/// Rows that lie one behind the other. kSpeculate: the source is read while the plan is still on
/// its way, as far as the grid reaches at once; worth one memory latency when the hook is on,
/// thrown away when it is off. What every block of every hook runs is kept short: its instructions
/// cost as much as its memory accesses.
template <bool kGraph, bool kSpeculate, bool kSum, int kLoads>
__global__ void __launch_bounds__(kFlatThreads)
    flat_producer(const __grid_constant__ FlatArgs args) {
  const auto* source = static_cast<const uint4*>(args.data);
  const auto* addend = static_cast<const uint4*>(args.addend);
  const std::uint32_t first = blockIdx.x * (kFlatThreads * kLoads) + threadIdx.x;
  uint4 value[kLoads], other[kLoads];
  const auto load = [&](std::uint32_t tile, std::uint32_t units) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::uint32_t unit = tile + kFlatThreads * i;
      if (unit >= units) continue;
      value[i] = load_now(source + unit);
      if constexpr (kSum) other[i] = load_now(addend + unit);
    }
  };
  if constexpr (kSpeculate) load(first, args.units);
  const RawPlan raw = load_plan<kGraph>(args.tag, args.plan, true);
  if (!is_on<kGraph>(raw, args.tag)) return;
  const std::uint32_t rows = min(raw.slot.y, args.rows);
  const std::uint32_t units = rows * args.units_per_row;
  const bool listed = kGraph ? raw.slot.z != wire::kAllRows : args.plan.list != nullptr;
  if (listed || units > raw.slot.w) {
    flat_by_list<kGraph, kSum>(args);
    return;
  }
  auto* to = reinterpret_cast<uint4*>(record_of(raw) + sizeof(wire::RecordHead));
  const auto store = [&](std::uint32_t tile) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::uint32_t unit = tile + kFlatThreads * i;
      if (unit < units) to[unit] = kSum ? add_units(args.dtype, value[i], other[i]) : value[i];
    }
  };
  std::uint32_t tile = first;
  if constexpr (!kSpeculate) load(tile, units);
  store(tile);
  for (tile += gridDim.x * (kFlatThreads * kLoads); tile < units;
       tile += gridDim.x * (kFlatThreads * kLoads)) {
    load(tile, units);
    store(tile);
  }
  if (first == 0) sign<kGraph>(raw, args.tag, rows, std::uint64_t{units} * 16);
}

/// Not aligned: an element of a sum at an odd address, put together from its bytes.
template <int N>
__device__ __forceinline__ Granule<N> load_granule(const std::byte* from, bool aligned) {
  if (N == 16 || aligned) return *reinterpret_cast<const Granule<N>*>(from);
  Granule<N> granule;
  constexpr int kWordBytes = sizeof(granule.words[0]);
#pragma unroll
  for (int i = 0; i < N / kWordBytes; ++i) {
    std::uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < kWordBytes; ++k)
      word |= static_cast<std::uint32_t>(from[i * kWordBytes + k]) << (8 * k);
    granule.words[i] = static_cast<std::remove_reference_t<decltype(granule.words[0])>>(word);
  }
  return granule;
}

/// Rows of parts with any strides, in granules of N bytes.
template <bool kGraph, bool kSum, int N>
__global__ void __launch_bounds__(kStridedThreads)
    strided_producer(const __grid_constant__ StridedArgs args) {
  const RawPlan raw = load_plan<kGraph>(args.tag, args.plan, args.slot_is_mapped);
  if (!is_on<kGraph>(raw, args.tag)) return;
  const Plan plan = understand<kGraph>(raw, args.tag, args.plan);
  const std::uint64_t row_granules = std::uint64_t{args.granules_per_part} * args.parts;
  const std::uint32_t rows = rows_to_copy(plan, args.rows, row_granules * N);
  const std::uint64_t granules = rows * row_granules;
  auto* to = reinterpret_cast<Granule<N>*>(record_of(raw) + sizeof(wire::RecordHead));
  const std::uint64_t threads = std::uint64_t{gridDim.x} * kStridedThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kStridedThreads + threadIdx.x; i < granules;
       i += threads) {
    std::uint64_t row;
    std::uint32_t part, within;
    if (granules <= 0xffffffffu) {  // 64-bit divisions cost several times as much
      const auto small = static_cast<std::uint32_t>(i);
      const auto per_row = static_cast<std::uint32_t>(row_granules);
      row = small / per_row;
      const std::uint32_t rest = small % per_row;
      part = rest / args.granules_per_part;
      within = rest % args.granules_per_part;
    } else {
      row = i / row_granules;
      const std::uint64_t rest = i % row_granules;
      part = static_cast<std::uint32_t>(rest / args.granules_per_part);
      within = static_cast<std::uint32_t>(rest % args.granules_per_part);
    }
    if (plan.list != nullptr) row = plan.list[row];
    const auto index = static_cast<std::int64_t>(row);
    const std::int64_t in_row =
        static_cast<std::int64_t>(part) * args.part_stride + std::int64_t{within} * N;
    const Granule<N> value =
        load_granule<N>(args.data + index * args.row_stride + in_row, args.aligned);
    if constexpr (kSum) {
      const std::byte* other = args.addend + index * args.addend_row_stride + in_row;
      to[i] = add(args.dtype, value, load_granule<N>(other, args.aligned));
    } else {
      to[i] = value;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) sign<kGraph>(raw, args.tag, rows, granules * N);
}

/// Whatever the addresses allow; all threads of a block together.
template <int N>
__device__ __forceinline__ void copy_granules(std::byte* to, const std::byte* from,
                                              std::uint64_t bytes, std::uint64_t thread,
                                              std::uint64_t threads) {
  auto* wide_to = reinterpret_cast<Granule<N>*>(to);
  const auto* wide_from = reinterpret_cast<const Granule<N>*>(from);
  const std::uint64_t count = bytes / N;
  for (std::uint64_t i = thread; i < count; i += threads) wide_to[i] = wide_from[i];
  for (std::uint64_t i = count * N + thread; i < bytes; i += threads) to[i] = from[i];
}

__device__ __forceinline__ std::uint64_t real_bytes(const ChunkedArgs& args, std::uint32_t chunk) {
  const std::int64_t count = args.chunk_bytes[chunk];
  return count <= 0 ? 0 : min(static_cast<std::uint64_t>(count), args.chunk_stride);
}

/// The sum over the block, in every thread.
__device__ __forceinline__ std::uint64_t block_sum(std::uint64_t value, std::uint64_t* shared) {
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  std::uint64_t sum = 0;
  for (int warp = 0; warp < kStridedThreads / 32; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}

/// blockIdx.y walks over the chunks, blockIdx.x over the bytes of one.
template <bool kGraph>
__global__ void __launch_bounds__(kStridedThreads)
    chunked_producer(const __grid_constant__ ChunkedArgs args) {
  __shared__ std::uint64_t shared[kStridedThreads / 32];
  const RawPlan raw = load_plan<kGraph>(args.tag, args.plan, args.slot_is_mapped);
  if (!is_on<kGraph>(raw, args.tag)) return;
  std::uint64_t mine = 0;
  for (std::uint32_t i = threadIdx.x; i < args.chunks; i += kStridedThreads)
    mine += real_bytes(args, i);
  const std::uint64_t total = block_sum(mine, shared);
  const std::uint64_t capacity = std::uint64_t{raw.slot.w} * wire::kAlign;
  const std::uint64_t row = max(args.row_bytes, std::uint64_t{1});
  const std::uint64_t bytes = total <= capacity ? total : capacity - capacity % row;
  std::byte* const to = record_of(raw) + sizeof(wire::RecordHead);

  for (std::uint32_t chunk = blockIdx.y; chunk < args.chunks; chunk += gridDim.y) {
    mine = 0;
    for (std::uint32_t i = threadIdx.x; i < chunk; i += kStridedThreads)
      mine += real_bytes(args, i);
    const std::uint64_t before = block_sum(mine, shared);
    if (before >= bytes) break;
    const std::uint64_t length = min(real_bytes(args, chunk), bytes - before);
    const std::byte* from = args.data + chunk * args.chunk_stride;
    const std::uint64_t thread = std::uint64_t{blockIdx.x} * kStridedThreads + threadIdx.x;
    const std::uint64_t threads = std::uint64_t{gridDim.x} * kStridedThreads;
    const auto odd = (reinterpret_cast<std::uintptr_t>(from) | before) & 15;
    if (odd == 0) {
      copy_granules<16>(to + before, from, length, thread, threads);
    } else if (odd % 4 == 0) {
      copy_granules<4>(to + before, from, length, thread, threads);
    } else {
      copy_granules<1>(to + before, from, length, thread, threads);
    }
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    // Read again: kept over the copy it does not fit into the registers.
    const RawPlan again = load_plan<kGraph>(args.tag, args.plan, args.slot_is_mapped);
    sign<kGraph>(again, args.tag, again.slot.y, bytes);
  }
}

}  // namespace graphtap::cuda
