#pragma once
// Steps that own what a DeliveredStep borrows, and the tables they are of.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "graphtap/delivery.hpp"
#include "graphtap/hook_table.hpp"
#include "graphtap/request.hpp"

namespace graphtap::store_test {

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t end) { return random() % end; }

/// Bytes that say which they are: no two calls with other seeds give the same.
inline std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  Random random(seed);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) word = random();
    bytes[i] = static_cast<std::byte>(word >> (i % 8 * 8));
  }
  return bytes;
}

inline Request make_request(std::uint64_t serial, std::string id, std::int64_t prompt_tokens = 0) {
  return std::make_shared<const RequestInfo>(RequestInfo{serial, std::move(id), prompt_tokens});
}

struct OwnedRecord {
  HookId hook = 0;
  std::uint16_t ordinal = 0;
  std::uint32_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::byte> payload;
  std::vector<Slice> slices;
};

struct OwnedGap {
  HookId hook = 0;
  std::uint16_t ordinal = 0;
  GapReason reason = GapReason::not_fired;
  std::vector<Slice> slices;
};

struct OwnedStep {
  std::uint64_t ticket = 0;
  std::uint64_t step = 0;
  std::uint32_t lane = 0;
  std::uint32_t part = 0;
  StepKind kind = StepKind::graph;
  Ranks ranks;
  std::uint64_t set_version = 0;
  std::int64_t end_unix_ns = 0;
  HookSet wanted;
  std::vector<OwnedRecord> records;
  std::vector<OwnedGap> gaps;

  /// Borrows from this.
  [[nodiscard]] DeliveredStep delivered(const HookTable& table) const {
    DeliveredStep out;
    out.table = &table;
    out.ticket = ticket;
    out.step = step;
    out.lane = lane;
    out.part = part;
    out.kind = kind;
    out.ranks = ranks;
    out.set_version = set_version;
    out.end_unix_ns = end_unix_ns;
    out.wanted = wanted;
    for (const OwnedRecord& r : records) {
      const Hook& hook = table[r.hook];
      out.records.push_back(
          {&hook, r.ordinal, r.rows, hook.row_bytes(r.columns), r.columns, r.payload, r.slices});
    }
    for (const OwnedGap& g : gaps)
      out.gaps.push_back({&table[g.hook], g.ordinal, g.reason, g.slices});
    return out;
  }
};

/// resid_pre of `layers` layers with rows of `width` bf16, and final_logits (one row a request) at
/// the end.
inline HookTable small_table(int layers = 3, std::int64_t width = 8) {
  HookTable table("tiny");
  for (int layer = 0; layer < layers; ++layer) {
    static_cast<void>(table.add({"resid_pre", layer, DType::bf16, {width}, 1, 1}).value_or_throw());
  }
  static_cast<void>(table.add({"final_logits", -1, DType::f32, {5}, 1, 1}).value_or_throw());
  return table;
}

inline std::uint32_t rows_of(const std::vector<Slice>& slices) {
  std::uint32_t rows = 0;
  for (const Slice& slice : slices) rows += slice.rows;
  return rows;
}

/// A record whose slices cover its rows, with a payload that only this seed has.
inline OwnedRecord make_record(const HookTable& table, HookId hook, std::vector<Slice> slices,
                               std::uint64_t seed, std::int64_t columns = 0) {
  OwnedRecord record;
  record.hook = hook;
  record.rows = rows_of(slices);
  record.columns = columns;
  record.payload = bytes_of(seed, record.rows * table[hook].row_bytes(columns));
  record.slices = std::move(slices);
  return record;
}

/// A step of lane 0 in which the given hooks hold one slice: tokens [first, first + rows) of
/// `request`.
inline OwnedStep make_step(const HookTable& table, std::uint64_t ticket, const Request& request,
                           std::int64_t first, std::uint32_t rows, std::vector<HookId> hooks) {
  OwnedStep step;
  step.ticket = ticket;
  step.step = ticket;
  step.end_unix_ns = static_cast<std::int64_t>(1'700'000'000'000'000'000 + ticket);
  step.wanted = HookSet::of(table.size(), hooks);
  for (HookId hook : hooks) {
    step.records.push_back(make_record(table, hook, {{request, first, 0, rows, RowFlags::none}},
                                       ticket * 1000 + hook));
  }
  return step;
}

}  // namespace graphtap::store_test
