// Which form of a producer to ship: each as a kernel of its own in the decode-shaped graph of decode_graph.cpp.
//
// All forms are derived from one capture: a template with four placeholder kernels a layer, of which a form's clone
// keeps as many as it needs, with the form's kernel and arguments put in their place. `removed` keeps none.
// "off" is the same exec with ticket 0 in the header.
//
// Plan on an H200: 4 row counts × 3 captures × 4 rounds × 42 variants × 21 steps of 0.75 to 1.1 ms: about 40 s.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common.hpp"
#include "model.hpp"
#include "variants.hpp"

namespace graphtap::bench {
namespace {

constexpr const char* kBase = "removed";

struct Plan {
  std::vector<int> rows{1, 8, 64, 256};
  int captures = 3, rounds = 4, steps = 20;
};

template <class T, cudaError_t (*kFree)(void*)>
struct Freed {
  void operator()(T* memory) const { (void)kFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, Freed<std::byte, cudaFree>>;
using PinnedMemory = std::unique_ptr<std::byte, Freed<std::byte, cudaFreeHost>>;

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

/// Header, frame and sources of one row count; the header is ON with everything, or OFF.
class Memory {
 public:
  Memory(int layers, int rows)
      : slots_(static_cast<std::uint32_t>(layers * kMaxSources)),
        rows_(static_cast<std::uint32_t>(rows)),
        payload_(rows_ * kRowBytes),
        image_bytes_(wire::header_bytes(slots_, 0)),
        header_(device_memory(std::max<std::size_t>(image_bytes_, 1024))),
        frame_(device_memory(wire::census_bytes(slots_) + slots_ * wire::record_bytes(payload_))),
        sources_(device_memory(kMaxSources * payload_)),
        image_(pinned_memory(std::max<std::size_t>(image_bytes_, 1024))) {
    for (std::uint32_t slot = 0; slot < slots_; ++slot) {
      const wire::SlotPlan plan = slot_plan(slot);
      std::memcpy(image_.get() + wire::slots_offset() + slot * sizeof(plan), &plan, sizeof(plan));
    }
  }
  void write(bool on) {
    const wire::StepHeader head = step_header(on);
    std::memcpy(image_.get(), &head, sizeof(head));
    check(cudaMemcpy(header_.get(), image_.get(), image_bytes_, cudaMemcpyHostToDevice), "write the header");
  }
  [[nodiscard]] FormArgs args(int layer, int first_source) const {
    FormArgs args;
    args.header = header();
    for (int i = first_source; i < kMaxSources; ++i) {
      args.source[i - first_source] =
          reinterpret_cast<const uint4*>(sources_.get() + static_cast<std::size_t>(i) * payload_);
    }
    args.units = static_cast<std::uint32_t>(payload_ / 16);
    args.row_units = static_cast<std::uint32_t>(kRowBytes / 16);
    args.slot = static_cast<std::uint32_t>(layer * kMaxSources + first_source);
    args.header_slots = slots_;
    args.value_header = step_header(true);
    args.value_slot = slot_plan(args.slot);
    return args;
  }
  [[nodiscard]] wire::StepHeader* header() const { return reinterpret_cast<wire::StepHeader*>(header_.get()); }
  [[nodiscard]] const std::byte* image() const { return image_.get(); }
  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  /// Fails unless every record of the first source has its head: a form that wrote nothing was not measured.
  void check_fired(const Form& form, int layers) const {
    for (int layer = 0; layer < layers; ++layer) {
      wire::RecordHead head{};
      const std::uint32_t slot = static_cast<std::uint32_t>(layer * kMaxSources);
      std::byte* const record = frame_.get() + std::uint64_t{slot_plan(slot).offset16} * 16;
      check(cudaMemcpy(&head, record, sizeof(head), cudaMemcpyDeviceToHost), "read a head");
      if (head.magic != wire::kMagic || head.hook != slot || head.bytes != payload_) {
        fail(fmt::format("{}: layer {} was not captured", form.name, layer));
      }
    }
  }
  void clear_frame() const {
    check(cudaMemset(frame_.get(), 0, wire::census_bytes(slots_) + slots_ * wire::record_bytes(payload_)), "clear");
  }

 private:
  [[nodiscard]] wire::SlotPlan slot_plan(std::uint32_t slot) const {
    wire::SlotPlan plan{};
    plan.offset16 = static_cast<std::uint32_t>(
        (wire::census_bytes(slots_) + slot * wire::record_bytes(payload_)) / wire::kAlign);
    plan.rows = rows_;
    plan.list = wire::kAllRows;
    plan.capacity16 = static_cast<std::uint32_t>(payload_ / wire::kAlign);
    return plan;
  }
  [[nodiscard]] wire::StepHeader step_header(bool on) const {
    return {on ? 1u : 0u, reinterpret_cast<std::uint64_t>(frame_.get()), wire::kMagic, slots_, 0};
  }

  std::uint32_t slots_, rows_;
  std::uint64_t payload_;
  std::size_t image_bytes_;
  DeviceMemory header_, frame_, sources_;
  PinnedMemory image_;
};

// ---- graphs ----------------------------------------------------------------------------------------

struct Template {
  cudaGraph_t graph = nullptr;
  std::vector<std::vector<cudaGraphNode_t>> places;  // by layer
};

Template capture_template(const DecodeModel& model, cudaStream_t stream) {
  Template result;
  result.graph = model.capture(stream, [&](int) {
    auto& places = result.places.emplace_back();
    for (int i = 0; i < kMaxSources; ++i) {
      launch_placeholder(stream);
      cudaStreamCaptureStatus status{};
      const cudaGraphNode_t* tail = nullptr;
      std::size_t count = 0;
      check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &tail, nullptr, &count), "capture info");
      if (count != 1) fail("the capture is not a chain");
      places.push_back(*tail);
    }
  });
  return result;
}

// From a chain: its neighbours become each other's.
void remove_from_chain(cudaGraph_t graph, cudaGraphNode_t node) {
  cudaGraphNode_t before = nullptr, after = nullptr;
  std::size_t count = 1;
  check(cudaGraphNodeGetDependencies(node, &before, nullptr, &count), "dependencies");
  const bool has_before = count == 1;
  count = 1;
  check(cudaGraphNodeGetDependentNodes(node, &after, nullptr, &count), "dependent nodes");
  if (has_before && count == 1) check(cudaGraphAddDependencies(graph, &before, &after, nullptr, 1), "add an edge");
  check(cudaGraphDestroyNode(node), "destroy a node");
}

/// A clone with `form` in the places of every layer (null: with none), instantiated.
cudaGraphExec_t derive(const Template& from, const Form* form, const Memory& memory) {
  cudaGraph_t clone = nullptr;
  check(cudaGraphClone(&clone, from.graph), "clone");
  for (std::size_t layer = 0; layer < from.places.size(); ++layer) {
    for (unsigned place = 0; place < kMaxSources; ++place) {
      cudaGraphNode_t node = nullptr;
      check(cudaGraphNodeFindInClone(&node, from.places[layer][place], clone), "find in the clone");
      if (!form || place >= form->nodes) {
        remove_from_chain(clone, node);
        continue;
      }
      FormArgs args = memory.args(static_cast<int>(layer), static_cast<int>(place));
      void* pointers[] = {&args};
      const unsigned blocks = form->block_units == 0 ? 1 : (args.units + form->block_units - 1) / form->block_units;
      cudaKernelNodeParams params{};
      params.func = const_cast<void*>(form->kernel);
      params.gridDim = dim3(blocks, form->sources);
      params.blockDim = dim3(form->threads);
      params.kernelParams = pointers;
      check(cudaGraphKernelNodeSetParams(node, &params), "set a kernel");
    }
  }
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, clone, 0), "instantiate");
  check(cudaGraphDestroy(clone), "destroy a clone");
  return exec;
}

// ---- measuring -------------------------------------------------------------------------------------

struct Variant {
  std::string name;
  int hooks = 1;
  bool on = true;
  std::function<void()> step;
};

using Table = std::map<std::string, Samples>;

/// What a step's own header costs, over the removed graph.
void add_header_steps(std::vector<Variant>& variants, cudaGraphExec_t exec, const Memory& memory,
                      cudaStream_t stream) {
  const auto add = [&](const std::string& name, auto before, auto after) {
    variants.push_back({name, 1, false, [=] {
                          before();
                          check(cudaGraphLaunch(exec, stream), "launch");
                          after();
                        }});
  };
  const auto nothing = [] {};
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{1024}}) {
    const std::byte* image = memory.image();
    void* header = memory.header();
    add(fmt::format("step_upload_memcpy_{}", bytes),
        [=] { check(cudaMemcpyAsync(header, image, bytes, cudaMemcpyHostToDevice, stream), "upload"); }, nothing);
    add(fmt::format("step_upload_kernel_{}", bytes), [=] { upload_by_kernel(header, image, bytes, stream); }, nothing);
  }
  wire::StepHeader* const header = memory.header();
  const std::uint32_t slots = memory.slots();
  const auto memset_ticket = [=] {
    check(cudaMemsetAsync(&header->ticket, 0, sizeof(header->ticket), stream), "close");
  };
  const auto close = [=] { close_by_kernel(header, slots, stream); };
  const std::byte* image = memory.image();
  add("step_close_memset", nothing, memset_ticket);
  add("step_close_kernel", nothing, close);
  add("step_upload_kernel_1024_close_kernel", [=] { upload_by_kernel(header, image, 1024, stream); }, close);
  add("step_upload_memcpy_1024_close_kernel",
      [=] { check(cudaMemcpyAsync(header, image, 1024, cudaMemcpyHostToDevice, stream), "upload"); }, close);
}

void measure_capture(const DecodeModel& model, Memory& memory, const Plan& plan, bool header_steps,
                     const OwnStream& stream, BatchTimer& timer, std::mt19937& random, Table& samples,
                     std::map<std::string, int>& hooks_of) {
  const int layers = model.shape().layers;
  const Template from = capture_template(model, stream.get());
  std::vector<cudaGraphExec_t> execs;
  std::vector<Variant> variants;
  const auto add = [&](const std::string& name, int hooks, bool on, cudaGraphExec_t exec) {
    variants.push_back({name, hooks, on, [exec, s = stream.get()] { check(cudaGraphLaunch(exec, s), "launch"); }});
  };
  execs.push_back(derive(from, nullptr, memory));
  add(kBase, layers, false, execs.back());
  if (header_steps) add_header_steps(variants, execs.back(), memory, stream.get());
  for (const Form& form : forms()) {
    execs.push_back(derive(from, &form, memory));
    const int hooks = layers * static_cast<int>(form.sources * form.nodes);
    const std::string name = form.name;
    const bool is_empty = name.starts_with("empty");
    add(name, hooks, true, execs.back());
    if (is_empty) continue;
    if (!form.by_value) add(name + "_off", hooks, false, execs.back());
    memory.clear_frame();
    memory.write(true);
    variants[variants.size() - 1].step();
    stream.synchronize();
    memory.check_fired(form, layers);
  }
  for (const Variant& variant : variants) hooks_of[variant.name] = variant.hooks;
  for (int round = 0; round < plan.rounds; ++round) {
    std::shuffle(variants.begin(), variants.end(), random);
    for (const Variant& variant : variants) {
      memory.write(variant.on);
      samples[variant.name].push_back(timer.time(stream.get(), plan.steps, variant.step));
    }
  }
  for (const cudaGraphExec_t exec : execs) check(cudaGraphExecDestroy(exec), "destroy an exec");
  check(cudaGraphDestroy(from.graph), "destroy a graph");
}

void body(Report& report, const Settings& settings) {
  Plan plan;
  ModelShape shape;
  if (settings.quick) {
    plan = {{1, 64}, 1, 2, 3};
    shape.kernel_bytes = 256u << 10;
  }
  const DecodeModel model(shape);
  const OwnStream stream;
  BatchTimer timer;
  (void)timer.time(stream.get(), settings.quick ? 10 : 600, [&] { model.run(stream.get()); });  // clocks go up
  std::mt19937 random(settings.seed);
  report.extra("graph") = {{"layers", shape.layers},
                           {"kernels_a_layer", shape.kernels},
                           {"bytes_a_kernel", shape.kernel_bytes},
                           {"row_bytes", kRowBytes}};
  for (const int rows : plan.rows) {
    const Stopwatch watch;
    Memory memory(shape.layers, rows);
    Table samples;
    std::map<std::string, int> hooks_of;
    for (int capture = 0; capture < plan.captures; ++capture) {
      measure_capture(model, memory, plan, rows == plan.rows.front(), stream, timer, random, samples, hooks_of);
    }
    for (const auto& [name, values] : samples) {
      auto& row = report.add_variant(rows, name, kBase, hooks_of.at(name), values, samples.at(kBase));
      row["captures"] = plan.captures;
      row["rounds"] = plan.rounds;
      row["steps_a_sample"] = plan.steps;
    }
    say(fmt::format("{} rows: {:.1f} s", rows, watch.us() / 1e6));
  }
}

}  // namespace
}  // namespace graphtap::bench

int main(int argc, char** argv) {
  using namespace graphtap::bench;
  return run(argc, argv, "producer_variants", "Forms of the producer, in a decode-shaped CUDA graph", body);
}
