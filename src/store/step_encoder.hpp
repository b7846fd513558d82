#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graphtap/delivery.hpp"
#include "graphtap/status.hpp"
#include "store/format.hpp"
#include "store/sections.hpp"

namespace graphtap::store {

/// Turns delivered steps and events into metas. Keeps its buffers, so that a steady stream of steps
/// allocates nothing. Spans are stored once for all records that share them.
class StepEncoder {
 public:
  /// Whether the segment has already named a request.
  using Knows = std::function<bool(std::uint64_t serial)>;

  explicit StepEncoder(const HookTable& table) : table_(&table) {}

  /// The step's meta; valid until the next call, as is payloads(). Errors: invalid_argument, naming
  /// what in the step contradicts itself or the hook table.
  [[nodiscard]] Result<std::span<const std::byte>> encode(const DeliveredStep& step,
                                                          const Knows& knows);
  /// What the records of that step borrow, in order.
  [[nodiscard]] std::span<const std::span<const std::byte>> payloads() const noexcept {
    return payloads_;
  }

  [[nodiscard]] Result<std::span<const std::byte>> encode(const RequestEvent& event,
                                                          const Knows& knows);

 private:
  struct KnownList {
    std::span<const Slice> source;  // of this step only: compared by address first
    std::uint32_t end_row = 0;
  };
  void clear();
  Status add_record(const Record& record);
  Status add_gap(const Gap& gap);
  std::uint32_t add_list(std::span<const Slice> slices);
  void name_request(const Request& request, const Knows& knows);
  void set_wanted(const HookSet& wanted);
  Result<std::span<const std::byte>> finish();

  const HookTable* table_;
  SectionWriter writer_;
  HookSet wanted_;  // of the words below: sets change rarely
  std::vector<std::uint64_t> wanted_words_;
  std::vector<RequestEntry> requests_;
  std::vector<std::byte> strings_;
  std::vector<KnownList> known_lists_;
  std::vector<SliceList> lists_;
  std::vector<SliceEntry> slices_;
  std::vector<RecordEntry> records_;
  std::vector<GapEntry> gaps_;
  std::vector<std::span<const std::byte>> payloads_;
  std::uint64_t payload_bytes_ = 0;
};

}  // namespace graphtap::store
