#include "llama_cpp/tensor_source.hpp"

#include <ggml-backend.h>
#include <ggml.h>

namespace graphtap::llama {

const void* host_data(const ggml_tensor& tensor) noexcept {
  const ggml_tensor* owner = tensor.view_src ? tensor.view_src : &tensor;
  if (!owner->buffer || !ggml_backend_buffer_is_host(owner->buffer)) return nullptr;
  return tensor.data;
}

std::optional<Source> row_source(const ggml_tensor& tensor, int rows_dimension,
                                 std::int64_t columns) noexcept {
  const void* data = host_data(tensor);
  if (!data || ggml_is_quantized(tensor.type)) return std::nullopt;
  const std::uint64_t element = ggml_type_size(tensor.type);
  Source source;
  source.data = data;
  source.rows = static_cast<std::uint32_t>(tensor.ne[rows_dimension]);
  source.row_stride = static_cast<std::int64_t>(tensor.nb[rows_dimension]);
  std::uint64_t run = element;
  bool strided = false;
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    std::int64_t entries = tensor.ne[d];
    if (d == 0 && columns >= 0) {
      if (columns > entries || rows_dimension == 0) return std::nullopt;
      entries = columns;
    }
    if (d == rows_dimension || entries == 1) continue;
    if (!strided && tensor.nb[d] == run) {
      run *= static_cast<std::uint64_t>(entries);
      continue;
    }
    if (strided) return std::nullopt;
    strided = true;
    source.parts = static_cast<std::uint32_t>(entries);
    source.part_stride = static_cast<std::int64_t>(tensor.nb[d]);
  }
  source.part_bytes = run;
  return source;
}

}  // namespace graphtap::llama
