#pragma once
#include <cstdint>
#include <optional>

#include "graphtap/source.hpp"

struct ggml_tensor;

namespace graphtap::llama {

/// The tensor's data if the host can read it, else null.
[[nodiscard]] const void* host_data(const ggml_tensor& tensor) noexcept;

/// Describes a tensor's rows by its own strides. `columns` ≥ 0: only the first so many entries of
/// dimension 0 belong to a row. Nothing if a row is more than one series of equal runs, if there
/// are fewer columns than asked for, or if the data is not in host memory.
[[nodiscard]] std::optional<Source> row_source(const ggml_tensor& tensor, int rows_dimension,
                                               std::int64_t columns) noexcept;

}  // namespace graphtap::llama
