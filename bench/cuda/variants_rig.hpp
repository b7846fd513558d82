#pragma once
// Memory of the wire format and graphs for forms of the producer, without graphtap: see
// variants.cpp.
#include <memory>
#include <vector>

#include "common.hpp"
#include "model.hpp"
#include "variants.hpp"

namespace graphtap::bench {

template <class T, cudaError_t (*kFree)(void*)>
struct Freed {
  void operator()(T* memory) const { (void)kFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, Freed<std::byte, cudaFree>>;
using PinnedMemory = std::unique_ptr<std::byte, Freed<std::byte, cudaFreeHost>>;

/// Header, frame and sources of one row count; the header is ON with everything, or OFF.
class FormMemory {
 public:
  FormMemory(int layers, int rows);
  void write(bool on);
  /// Of a node of `layer` whose first source is the layer's `first_source`-th.
  [[nodiscard]] FormArgs args(int layer, int first_source) const;
  [[nodiscard]] wire::StepHeader* header() const {
    return reinterpret_cast<wire::StepHeader*>(header_.get());
  }
  [[nodiscard]] const std::byte* image() const { return image_.get(); }
  /// The firing counts at the start of the frame.
  [[nodiscard]] std::byte* census() const { return frame_.get(); }
  [[nodiscard]] std::size_t census_bytes() const { return wire::census_bytes(slots_); }
  void clear_frame() const;
  /// Fails unless the first record of every layer is there: a form that wrote nothing was not
  /// measured.
  void check_fired(const Form& form, int layers) const;

 private:
  [[nodiscard]] wire::SlotPlan slot_plan(std::uint32_t slot) const;
  [[nodiscard]] wire::StepHeader step_header(bool on) const;

  std::uint32_t slots_, rows_;
  std::uint64_t payload_;
  std::size_t image_bytes_, frame_bytes_;
  DeviceMemory header_, frame_, sources_;
  PinnedMemory image_;
};

/// The model with kMaxSources empty kernels before each layer.
class FormTemplate {
 public:
  FormTemplate(const DecodeModel& model, cudaStream_t stream);
  ~FormTemplate() { (void)cudaGraphDestroy(graph_); }
  FormTemplate(const FormTemplate&) = delete;
  FormTemplate& operator=(const FormTemplate&) = delete;

  enum class Close { outside, by_kernel_node, by_memset_node };
  /// A clone with `form` in the places of every layer (null: with none), instantiated; the caller
  /// destroys it.
  [[nodiscard]] cudaGraphExec_t derive(const Form* form, const FormMemory& memory,
                                       Close close = Close::outside) const;

 private:
  cudaGraph_t graph_ = nullptr;
  std::vector<std::vector<cudaGraphNode_t>> places_;  // by layer
  cudaGraphNode_t last_ = nullptr;
};

}  // namespace graphtap::bench
