#include "device/host/producer.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/small_float.hpp"

namespace graphtap {
namespace {

const std::byte* at(const void* base, std::int64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

// What is really there, in all chunks; stops counting where nothing more could be written anyway.
std::uint64_t chunk_total(const Source& source) {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < source.chunks; ++i) {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(source.chunk_bytes[i], 0));
    total +=
        std::min({count, source.chunk_stride, std::numeric_limits<std::uint64_t>::max() - total});
  }
  return total;
}

void copy_chunks(const Source& source, std::byte* to, std::uint64_t bytes) {
  for (std::uint32_t i = 0; i < source.chunks && bytes > 0; ++i) {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(source.chunk_bytes[i], 0));
    const std::uint64_t length = std::min({count, source.chunk_stride, bytes});
    if (length > 0)
      std::memcpy(to, at(source.data, static_cast<std::int64_t>(i * source.chunk_stride)), length);
    to += length;
    bytes -= length;
  }
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void add_small(std::byte* to, const std::byte* a, const std::byte* b, std::size_t size,
               small_float::Format format) {
  const auto read = [size](const std::byte* from) {
    return size == 1 ? std::uint32_t{load<std::uint8_t>(from)}
                     : std::uint32_t{load<std::uint16_t>(from)};
  };
  const float sum = small_float::decode(read(a), format) + small_float::decode(read(b), format);
  const std::uint32_t code = small_float::encode(sum, format);
  const auto narrow = static_cast<std::uint16_t>(code);
  const auto byte = static_cast<std::uint8_t>(code);
  std::memcpy(to, size == 1 ? static_cast<const void*>(&byte) : &narrow, size);
}

void add_element(std::byte* to, const std::byte* a, const std::byte* b, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return add_small(to, a, b, 2, small_float::kF16);
    case DType::bf16:
      return add_small(to, a, b, 2, small_float::kBf16);
    case DType::f8_e4m3:
      return add_small(to, a, b, 1, small_float::kE4m3);
    case DType::f8_e5m2:
      return add_small(to, a, b, 1, small_float::kE5m2);
    case DType::f64: {
      double sum = load<double>(a) + load<double>(b);
      if (std::isnan(sum)) sum = std::bit_cast<double>(0x7fffffffffffffffu);
      std::memcpy(to, &sum, sizeof(sum));
      return;
    }
    default: {
      float sum = load<float>(a) + load<float>(b);
      if (std::isnan(sum)) sum = std::bit_cast<float>(0x7fffffffu);
      std::memcpy(to, &sum, sizeof(sum));
      return;
    }
  }
}

void copy_row(const ProducerCall& call, std::uint64_t row, std::byte* to) {
  const Source& source = call.source;
  const auto index = static_cast<std::int64_t>(row);
  for (std::uint32_t part = 0; part < source.parts; ++part, to += source.part_bytes) {
    const std::int64_t within = static_cast<std::int64_t>(part) * source.part_stride;
    const std::byte* from = at(source.data, index * source.row_stride + within);
    if (!source.addend) {
      std::memcpy(to, from, source.part_bytes);
      continue;
    }
    const std::byte* other = at(source.addend, index * source.addend_row_stride + within);
    const std::size_t size = size_of(call.dtype);
    for (std::uint64_t i = 0; i < source.part_bytes; i += size) {
      add_element(to + i, from + i, other + i, call.dtype);
    }
  }
}

struct Plan {
  std::uint64_t ticket = 0;
  std::byte* frame = nullptr;
  std::uint64_t magic = 0;
  wire::SlotPlan slot{};
  const std::uint32_t* list = nullptr;
  bool bad_list = false;
};

Plan plan_in_header(const ProducerCall& call) {
  const wire::StepHeader* header = call.header;
  Plan plan;
  if (call.id.slot >= header->slots) return plan;
  const auto* base = reinterpret_cast<const std::byte*>(header);
  plan.ticket = header->ticket;
  plan.frame = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(header->frame));
  plan.magic = header->magic;
  plan.slot =
      load<wire::SlotPlan>(base + wire::slots_offset() + call.id.slot * sizeof(wire::SlotPlan));
  if (plan.slot.list != wire::kAllRows) {
    const std::uint64_t end = std::uint64_t{plan.slot.list} + plan.slot.rows;
    plan.bad_list = end > header->list_entries;
    plan.list = reinterpret_cast<const std::uint32_t*>(base + wire::lists_offset(header->slots)) +
                plan.slot.list;
  }
  return plan;
}

// Rows that fit, of those the plan asks for and the source has.
std::uint64_t rows_to_copy(const Source& source, const Plan& plan, std::uint64_t capacity) {
  std::uint64_t rows = plan.slot.rows;
  if (!plan.list) {
    rows = std::min<std::uint64_t>(rows, source.rows);
  } else if (plan.bad_list || (rows > 0 && plan.list[rows - 1] >= source.rows)) {
    return 0;
  }
  return source.row_bytes() > 0 ? std::min(rows, capacity / source.row_bytes()) : rows;
}

}  // namespace

ProducerJob read_plan(const ProducerCall& call) noexcept {
  const Source& source = call.source;
  Plan plan{call.ticket, call.frame, call.magic, call.plan, call.list, false};
  if (call.header) plan = plan_in_header(call);
  ProducerJob job;
  job.on = plan.ticket != 0 && plan.slot.offset16 != 0;
#if defined(GRAPHTAP_BUG_producer_ignores_off)
  job.on = plan.frame != nullptr;
#endif
  if (!job.on) return job;

  std::uint64_t capacity = std::uint64_t{plan.slot.capacity16} * wire::kAlign;
#if defined(GRAPHTAP_BUG_producer_no_clamp)
  capacity = std::numeric_limits<std::uint64_t>::max();
#endif
  job.record = plan.frame + std::uint64_t{plan.slot.offset16} * wire::kAlign;
  if (call.header) job.census = reinterpret_cast<std::uint32_t*>(plan.frame) + call.id.slot;
  job.head = {plan.magic, plan.ticket, call.id.hook, call.id.ordinal, plan.slot.rows, 0};
#if defined(GRAPHTAP_BUG_head_first_ticket_stale)
  job.head.ticket -= 1;
#endif
  if (source.chunks > 0) {
    const std::uint64_t row = std::max<std::uint64_t>(source.row_bytes(), 1);
    const std::uint64_t total = chunk_total(source);
    job.head.bytes = total <= capacity ? total : capacity - capacity % row;
  } else {
    const std::uint64_t rows = rows_to_copy(source, plan, capacity);
    job.head.rows = static_cast<std::uint32_t>(rows);
    job.head.bytes = rows * source.row_bytes();
    job.list = plan.list;
  }
  return job;
}

void write_record(const ProducerCall& call, const ProducerJob& job) noexcept {
#if !defined(GRAPHTAP_BUG_census_not_counted)
  if (call.header) {
    // Producers of parallel branches count in one frame; each has its own slot unless a plan is
    // wrong.
    std::atomic_ref<std::uint32_t>(*job.census).fetch_add(1, std::memory_order_relaxed);
  }
#endif
  std::byte* to = job.record + sizeof(wire::RecordHead);
  if (call.source.chunks > 0) {
    copy_chunks(call.source, to, job.head.bytes);
  } else {
    for (std::uint32_t i = 0; i < job.head.rows; ++i, to += call.source.row_bytes()) {
      copy_row(call, job.list ? job.list[i] : i, to);
    }
  }
  std::memcpy(job.record, &job.head, sizeof(job.head));
}

void run_producer(const ProducerCall& call) noexcept {
  const ProducerJob job = read_plan(call);
  if (job.on) write_record(call, job);
}

void run_close_step([[maybe_unused]] wire::StepHeader* header) noexcept {
#if !defined(GRAPHTAP_BUG_header_not_cleared)
  header->ticket = 0;
#endif
}

}  // namespace graphtap
