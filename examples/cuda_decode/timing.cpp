#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "graphtap/cuda_device.hpp"
#include "runners.hpp"

namespace example {
namespace {

constexpr int kRounds = 9;
constexpr int kSteps = 100;

class Events {
 public:
  Events() {
    check(cudaEventCreate(&begin), "create an event");
    check(cudaEventCreate(&end), "create an event");
  }
  ~Events() {
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  cudaEvent_t begin = nullptr, end = nullptr;
};

}  // namespace

double Timing::median() const {
  if (us.empty()) return 0;
  auto sorted = us;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<Timing> time_steps(Model& model, int rows, const std::string& some) {
  graphtap::MonitorOptions options;
  options.selection = "none";
  graphtap::Monitor monitor(graphtap::make_cuda_device().value_or_throw(), make_table(model.size()),
                            options, {graphtap::make_null_sink()});
  const auto lane = monitor.make_lane();
  const DecodeGraphs bare(model, rows, [](const Site&, const Tensor&) {});
  const DecodeGraphs hooked(
      model, rows,
      [&](const Site& site, const Tensor& tensor) {
        lane->produce(hook_of(site, model.size().layers), source_of(tensor), stream_of(model));
      },
      lane.get());
  const auto& bare_graph = bare.for_rows(static_cast<std::size_t>(rows));
  const auto& hooked_graph = hooked.for_rows(static_cast<std::size_t>(rows));

  std::vector<graphtap::Request> requests;
  std::vector<Row> inputs;
  for (int i = 0; i < rows; ++i) {
    requests.push_back(monitor.begin_request(request_name(i)));
    inputs.push_back({i, i, model.size().max_tokens / 2});
  }
  model.set_rows(inputs, rows);
  std::int64_t token = 0;
  const auto bare_step = [&] { check(cudaGraphLaunch(bare_graph.exec, model.stream()), "launch"); };
  const auto hooked_step = [&] {
    std::vector<graphtap::RowSpan> spans;
    for (const auto& request : requests) spans.push_back({request, token, 1});
    ++token;
    graphtap::StepShape shape;
    shape.kind = graphtap::StepKind::graph;
    shape.tokens = spans;
    graphtap::Step step = lane->begin(shape, stream_of(model));
    if (const auto status = step.launch(*hooked_graph.bound); !status.ok())
      throw graphtap::Error(status);
    step.end();
  };

  const Events events;
  const auto timed = [&](const auto& step) {
    check(cudaEventRecord(events.begin, model.stream()), "record");
    for (int i = 0; i < kSteps; ++i) step();
    check(cudaEventRecord(events.end, model.stream()), "record");
    check(cudaEventSynchronize(events.end), "wait");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events.begin, events.end), "elapsed");
    return static_cast<double>(ms) * 1000.0 / kSteps;
  };
  // Long enough for a set to settle and for its exec to be made.
  const auto warm = [&](const auto& step) {
    for (int i = 0; i < 32; ++i) step();
    check(cudaStreamSynchronize(model.stream()), "wait");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (int i = 0; i < 8; ++i) step();
    check(cudaStreamSynchronize(model.stream()), "wait");
  };

  std::vector<Timing> timings{{"never instrumented", {}}, {"none", {}}, {some, {}}, {"full", {}}};
  for (int round = 0; round < kRounds; ++round) {
    for (Timing& timing : timings) {
      if (&timing == &timings.front()) {
        warm(bare_step);
        timing.us.push_back(timed(bare_step));
        continue;
      }
      (void)monitor.enable(timing.what);
      warm(hooked_step);
      timing.us.push_back(timed(hooked_step));
    }
  }
  for (const auto& request : requests) monitor.finish_request(request);
  if (const auto status = monitor.close(); !status.ok()) throw graphtap::Error(status);
  return timings;
}

}  // namespace example
