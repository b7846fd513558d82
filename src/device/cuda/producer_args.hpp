#pragma once
// What a producer kernel is given: one struct by value each. Host code (launch, inspection) and
// device code share it.
#include <cstddef>
#include <cstdint>

#include "device/producer_id.hpp"
#include "graphtap/dtype.hpp"
#include "plan/wire.hpp"

namespace graphtap::cuda {

/// The beginning of every argument struct: what a node says of itself when it is inspected.
struct ProducerTag {
  ProducerId id;
  wire::StepHeader* header = nullptr;  ///< null in the eager form
};

/// The plan of an eager producer, by value.
struct InlinePlan {
  std::uint64_t ticket = 0;
  std::byte* frame = nullptr;
  std::uint64_t magic = 0;
  wire::SlotPlan slot{};
  const std::uint32_t* list = nullptr;
};

/// Rows that lie one behind the other, in whole 16-byte units.
struct FlatArgs {
  ProducerTag tag;
  const void* data = nullptr;
  const void* addend = nullptr;
  std::uint32_t units_per_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t units = 0;  ///< of all rows
  DType dtype{};            ///< of sums
  InlinePlan plan;
};

/// Any other rows. A granule is what one access moves: 1 to 16 bytes, whatever the strides allow.
struct StridedArgs {
  ProducerTag tag;
  const std::byte* data = nullptr;
  const std::byte* addend = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t addend_row_stride = 0;
  std::int64_t part_stride = 0;
  std::uint32_t parts = 0;
  std::uint32_t granules_per_part = 0;
  std::uint32_t rows = 0;
  DType dtype{};
  bool aligned = true;         ///< false: elements of a sum lie at odd addresses
  bool slot_is_mapped = true;  ///< the header is known to be long enough for this slot
  InlinePlan plan;
};

/// Chunks of which the first chunk_bytes[i] bytes are real.
struct ChunkedArgs {
  ProducerTag tag;
  const std::byte* data = nullptr;
  const std::int64_t* chunk_bytes = nullptr;
  std::uint64_t chunk_stride = 0;
  std::uint64_t row_bytes = 0;
  std::uint32_t chunks = 0;
  bool slot_is_mapped = true;
  InlinePlan plan;
};

}  // namespace graphtap::cuda
