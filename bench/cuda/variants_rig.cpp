#include "variants_rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap::bench {
namespace {

constexpr std::size_t kLeastHeader = 1024;  // what the largest upload that is measured writes

DeviceMemory device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "allocate");
  DeviceMemory owner(static_cast<std::byte*>(memory));
  check(cudaMemset(memory, 0, bytes), "clear");
  return owner;
}

PinnedMemory pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "allocate pinned");
  std::memset(memory, 0, bytes);
  return PinnedMemory(static_cast<std::byte*>(memory));
}

// The captured graph is a chain, so that a node has one neighbour on either side, or none.
cudaGraphNode_t before(cudaGraphNode_t node) {
  cudaGraphNode_t neighbour = nullptr;
  std::size_t count = 1;
  check(cudaGraphNodeGetDependencies(node, &neighbour, nullptr, &count), "dependencies");
  return count == 0 ? nullptr : neighbour;
}

cudaGraphNode_t behind(cudaGraphNode_t node) {
  cudaGraphNode_t neighbour = nullptr;
  std::size_t count = 1;
  check(cudaGraphNodeGetDependentNodes(node, &neighbour, nullptr, &count), "dependent nodes");
  return count == 0 ? nullptr : neighbour;
}

void remove_from_chain(cudaGraph_t graph, cudaGraphNode_t node) {
  cudaGraphNode_t from = before(node), to = behind(node);
  check(cudaGraphDestroyNode(node), "destroy a node");
  if (from && to) check(cudaGraphAddDependencies(graph, &from, &to, nullptr, 1), "add an edge");
}

void put_form(cudaGraphNode_t node, const Form& form, FormArgs args) {
  void* pointers[] = {&args};
  const unsigned blocks =
      form.block_units == 0 ? 1 : (args.units + form.block_units - 1) / form.block_units;
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(form.kernel);
  params.gridDim = dim3(blocks, form.sources);
  params.blockDim = dim3(form.threads);
  params.kernelParams = pointers;
  check(cudaGraphKernelNodeSetParams(node, &params), "set a kernel");
}

void make_programmatic(cudaGraph_t graph, cudaGraphNode_t node) {
  cudaGraphNode_t from = before(node);
  if (!from) return;  // the first node of the graph
  cudaGraphEdgeData edge{};
  check(cudaGraphRemoveDependencies(graph, &from, &node, &edge, 1), "remove an edge");
  edge.type = cudaGraphDependencyTypeProgrammatic;
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  check(cudaGraphAddDependencies(graph, &from, &node, &edge, 1), "add a programmatic edge");
}

}  // namespace

// ---- memory

FormMemory::FormMemory(int layers, int rows)
    : slots_(static_cast<std::uint32_t>(layers * kMaxSources)),
      rows_(static_cast<std::uint32_t>(rows)),
      payload_(rows_ * kRowBytes),
      image_bytes_(wire::header_bytes(slots_, slots_)),  // and a count for each slot
      frame_bytes_(wire::census_bytes(slots_) + slots_ * wire::record_bytes(payload_)),
      header_(device_memory(std::max(image_bytes_, kLeastHeader))),
      frame_(device_memory(frame_bytes_)),
      sources_(device_memory(kMaxSources * payload_)),
      image_(pinned_memory(std::max(image_bytes_, kLeastHeader))) {
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const wire::SlotPlan plan = slot_plan(slot);
    std::memcpy(image_.get() + wire::slots_offset() + slot * sizeof(plan), &plan, sizeof(plan));
  }
}

void FormMemory::write(bool on) {
  const wire::StepHeader head = step_header(on);
  std::memcpy(image_.get(), &head, sizeof(head));
  check(cudaMemcpy(header_.get(), image_.get(), image_bytes_, cudaMemcpyHostToDevice),
        "write the header");
}

FormArgs FormMemory::args(int layer, int first_source) const {
  FormArgs args;
  args.header = header();
  for (int i = first_source; i < kMaxSources; ++i) {
    const std::byte* source = sources_.get() + static_cast<std::size_t>(i) * payload_;
    args.source[i - first_source] = reinterpret_cast<const uint4*>(source);
  }
  args.units = static_cast<std::uint32_t>(payload_ / 16);
  args.row_units = static_cast<std::uint32_t>(kRowBytes / 16);
  args.slots = slots_;
  args.slot = static_cast<std::uint32_t>(layer * kMaxSources + first_source);
  args.value_header = step_header(true);
  args.value_slot = slot_plan(args.slot);
  return args;
}

void FormMemory::clear_frame() const { check(cudaMemset(frame_.get(), 0, frame_bytes_), "clear"); }

void FormMemory::check_fired(const Form& form, int layers) const {
  for (int layer = 0; layer < layers; ++layer) {
    wire::RecordHead head{};
    const auto slot = static_cast<std::uint32_t>(layer * kMaxSources);
    const std::byte* record = frame_.get() + std::uint64_t{slot_plan(slot).offset16} * wire::kAlign;
    check(cudaMemcpy(&head, record, sizeof(head), cudaMemcpyDeviceToHost), "read a head");
    if (head.magic != wire::kMagic || head.hook != slot || head.bytes != payload_) {
      fail(fmt::format("{}: layer {} was not captured", form.name, layer));
    }
  }
}

wire::SlotPlan FormMemory::slot_plan(std::uint32_t slot) const {
  wire::SlotPlan plan{};
  const std::uint64_t offset = wire::census_bytes(slots_) + slot * wire::record_bytes(payload_);
  plan.offset16 = static_cast<std::uint32_t>(offset / wire::kAlign);
  plan.rows = rows_;
  plan.list = wire::kAllRows;
  plan.capacity16 = static_cast<std::uint32_t>(payload_ / wire::kAlign);
  return plan;
}

wire::StepHeader FormMemory::step_header(bool on) const {
  return {on ? 1u : 0u, reinterpret_cast<std::uint64_t>(frame_.get()), wire::kMagic, slots_, 0};
}

// ---- graphs

FormTemplate::FormTemplate(const DecodeModel& model, cudaStream_t stream) {
  graph_ = model.capture(stream, [&](int) {
    auto& places = places_.emplace_back();
    for (int i = 0; i < kMaxSources; ++i) {
      launch_empty_form(stream);
      cudaStreamCaptureStatus status{};
      const cudaGraphNode_t* tail = nullptr;
      std::size_t count = 0;
      check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &tail, nullptr, &count),
            "capture info");
      if (count != 1) fail("the capture is not a chain");
      places.push_back(*tail);
    }
  });
  last_ = places_.back().back();
  while (const cudaGraphNode_t next = behind(last_)) last_ = next;
}

cudaGraphExec_t FormTemplate::derive(const Form* form, const FormMemory& memory,
                                     Close close) const {
  cudaGraph_t clone = nullptr;
  check(cudaGraphClone(&clone, graph_), "clone");
  const auto in_clone = [&](cudaGraphNode_t original) {
    cudaGraphNode_t node = nullptr;
    check(cudaGraphNodeFindInClone(&node, original, clone), "find in the clone");
    return node;
  };
  std::vector<cudaGraphNode_t> kept;
  for (std::size_t layer = 0; layer < places_.size(); ++layer) {
    for (unsigned place = 0; place < kMaxSources; ++place) {
      const cudaGraphNode_t node = in_clone(places_[layer][place]);
      if (form && place < form->nodes) {
        put_form(node, *form, memory.args(static_cast<int>(layer), static_cast<int>(place)));
        kept.push_back(node);
      } else {
        remove_from_chain(clone, node);
      }
    }
  }
  if (form && form->programmatic) {
    for (const cudaGraphNode_t node : kept) make_programmatic(clone, node);
  }
  if (close == Close::by_kernel_node) {
    add_close_kernel_node(clone, in_clone(last_), memory.header());
  } else if (close == Close::by_memset_node) {
    cudaMemsetParams params{};
    params.dst = &memory.header()->ticket;
    params.elementSize = 4;
    params.width = sizeof(wire::StepHeader::ticket) / 4;
    params.height = 1;
    cudaGraphNode_t node = nullptr;
    const cudaGraphNode_t last = in_clone(last_);
    check(cudaGraphAddMemsetNode(&node, clone, &last, 1, &params), "add a memset node");
  }
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, clone, 0), "instantiate");
  check(cudaGraphDestroy(clone), "destroy a clone");
  return exec;
}

}  // namespace graphtap::bench
