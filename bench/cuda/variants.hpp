#pragma once
// Forms that the body of a producer could take, as kernels of their own: same wire format,
// contiguous rows only.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/wire.hpp"

namespace graphtap::bench {

inline constexpr int kMaxSources = 4;  // of a layer

/// What every form is given, by value.
struct FormArgs {
  wire::StepHeader* header = nullptr;
  const uint4* source[kMaxSources] = {};
  std::uint32_t units = 0;          // 16-byte units of each source
  std::uint32_t row_units = 0;      // of a row
  std::uint32_t slot = 0;           // of source[0]; those of the others follow
  std::uint32_t slots = 0;          // of the header
  wire::StepHeader value_header{};  // for the form whose plan is a kernel argument
  wire::SlotPlan value_slot{};
};

struct Form {
  const char* name;
  const void* kernel;
  unsigned threads;
  std::uint32_t block_units;  // 16-byte units a block copies; 0: one block, whatever the bytes
  unsigned sources = 1;       // that one launch copies
  unsigned nodes = 1;         // a layer
  bool by_value = false;      // its plan is an argument, so that no header turns it OFF
  bool programmatic =
      false;  // starts while the kernel before it ends, and waits for that by itself
};
[[nodiscard]] std::span<const Form> forms();
/// The kernel that a template holds in place of each form.
void launch_empty_form(cudaStream_t stream);

/// Ways to write a step's header, and to close it.
void upload_by_kernel(void* header, const void* image, std::size_t bytes,
                      cudaStream_t stream);  // 512 or 1024
void close_by_kernel(wire::StepHeader* header, cudaStream_t stream);
/// The same as a node behind `last`.
void add_close_kernel_node(cudaGraph_t graph, cudaGraphNode_t last, wire::StepHeader* header);

}  // namespace graphtap::bench
