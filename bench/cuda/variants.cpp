// Which form of a producer to ship: each as a kernel of its own in the decode-shaped graph of
// decode_graph.cpp.
//
// All forms are derived from one capture: a template with four empty kernels a layer, of
// which a form's clone keeps as many as it needs, with the form's kernel and arguments put in their
// place. `removed` keeps none.
// "_off" is the same exec with ticket 0 in the header. "step_…" are what a step's own header costs,
// over the removed graph and at one row only; those that close without uploading find the header
// OFF from the second step on.
//
// Plan on an H200: 4 row counts × 3 captures × 4 rounds × about 60 variants × 16 steps of 0.75
// to 1.1 ms: 45 s.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "variants_rig.hpp"

namespace graphtap::bench {
namespace {

constexpr const char* kBase = "removed";

struct Plan {
  std::vector<int> rows{1, 8, 64, 256};
  int captures = 3, rounds = 4, steps = 15;
};

// ---- measuring

struct Variant {
  std::string name;
  int hooks = 1;
  bool on = true;
  std::function<void()> step;
};

using Table = std::map<std::string, Samples>;

/// What a step's own header costs, over the removed graph.
void add_header_steps(std::vector<Variant>& variants, std::vector<cudaGraphExec_t>& execs,
                      const FormTemplate& from, const FormMemory& memory, cudaStream_t stream) {
  using Close = FormTemplate::Close;
  using Action = std::function<void()>;
  const cudaGraphExec_t plain = execs.front();
  const auto add = [&](const std::string& name, const Action& first, const Action& last,
                       cudaGraphExec_t exec) {
    variants.push_back({"step_" + name, 1, true, [=] {
                          if (first) first();
                          check(cudaGraphLaunch(exec, stream), "launch");
                          if (last) last();
                        }});
  };
  const std::byte* const image = memory.image();
  wire::StepHeader* const header = memory.header();
  const auto by_memcpy = [=](std::size_t bytes) -> Action {
    return [=] {
      check(cudaMemcpyAsync(header, image, bytes, cudaMemcpyHostToDevice, stream), "upload");
    };
  };
  const auto by_kernel = [=](std::size_t bytes) -> Action {
    return [=] { upload_by_kernel(header, image, bytes, stream); };
  };
  const Action close_memset = [=] {
    check(cudaMemsetAsync(&header->ticket, 0, sizeof(header->ticket), stream), "close");
  };
  const Action close_kernel = [=] { close_by_kernel(header, stream); };
  const Action zero = [=, census = memory.census(), bytes = memory.census_bytes()] {
    check(cudaMemsetAsync(census, 0, bytes, stream), "zero the census");
  };
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{1024}}) {
    add(fmt::format("upload_memcpy_{}", bytes), by_memcpy(bytes), {}, plain);
    add(fmt::format("upload_kernel_{}", bytes), by_kernel(bytes), {}, plain);
  }
  add("close_memset", {}, close_memset, plain);
  add("close_kernel", {}, close_kernel, plain);
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{1024}}) {
    const Action upload = by_memcpy(bytes);
    const Action both = [=] {
      zero();
      upload();
    };
    add(fmt::format("zero_upload_memcpy_{}_close_memset", bytes), both, close_memset, plain);
    add(fmt::format("upload_memcpy_{}_close_memset", bytes), upload, close_memset, plain);
  }
  add("zero", zero, {}, plain);
  add("upload_memcpy_1024_close_kernel", by_memcpy(1024), close_kernel, plain);
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{1024}}) {
    add(fmt::format("upload_kernel_{}_close_kernel", bytes), by_kernel(bytes), close_kernel, plain);
    add(fmt::format("upload_kernel_{}_close_memset", bytes), by_kernel(bytes), close_memset, plain);
  }
  for (const auto& [name, close] : {std::pair{"close_kernel_node", Close::by_kernel_node},
                                    std::pair{"close_memset_node", Close::by_memset_node}}) {
    execs.push_back(from.derive(nullptr, memory, close));
    add(name, {}, {}, execs.back());
    add(fmt::format("upload_memcpy_1024_{}", name), by_memcpy(1024), {}, execs.back());
    add(fmt::format("upload_kernel_1024_{}", name), by_kernel(1024), {}, execs.back());
  }
}

void measure_capture(const DecodeModel& model, FormMemory& memory, const Plan& plan,
                     bool header_steps, const OwnStream& stream, BatchTimer& timer,
                     std::mt19937& random, Table& samples, std::map<std::string, int>& hooks_of) {
  const int layers = model.shape().layers;
  const FormTemplate from(model, stream.get());
  std::vector<cudaGraphExec_t> execs;
  std::vector<Variant> variants;
  const auto add = [&](const std::string& name, int hooks, bool on) {
    const auto replay = [exec = execs.back(), to = stream.get()] {
      check(cudaGraphLaunch(exec, to), "launch");
    };
    variants.push_back({name, hooks, on, replay});
  };
  execs.push_back(from.derive(nullptr, memory));
  add(kBase, layers, false);
  if (header_steps) add_header_steps(variants, execs, from, memory, stream.get());
  for (const Form& form : forms()) {
    execs.push_back(from.derive(&form, memory));
    const int hooks = layers * static_cast<int>(form.sources * form.nodes);
    const std::string name = form.name;
    add(name, hooks, true);
    if (name.starts_with("empty")) continue;
    memory.clear_frame();
    memory.write(true);
    variants.back().step();
    stream.synchronize();
    memory.check_fired(form, layers);
    if (!form.by_value) add(name + "_off", hooks, false);
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
  (void)timer.time(stream.get(), settings.quick ? 10 : 600,
                   [&] { model.run(stream.get()); });  // clocks go up
  std::mt19937 random(settings.seed);
  report.extra("graph") = {{"layers", shape.layers},
                           {"kernels_a_layer", shape.kernels},
                           {"bytes_a_kernel", shape.kernel_bytes},
                           {"row_bytes", kRowBytes}};
  for (const int rows : plan.rows) {
    const Stopwatch watch;
    FormMemory memory(shape.layers, rows);
    Table samples;
    std::map<std::string, int> hooks_of;
    for (int capture = 0; capture < plan.captures; ++capture) {
      measure_capture(model, memory, plan, rows == plan.rows.front(), stream, timer, random,
                      samples, hooks_of);
    }
    for (const auto& [name, values] : samples) {
      auto& row =
          report.add_variant(rows, name, kBase, hooks_of.at(name), values, samples.at(kBase));
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
  return run(argc, argv, "producer_variants",
             "Forms of the producer, in a decode-shaped CUDA graph", body);
}
