#include "runners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace example {

using graphtap::HookId;

HookId hook_of(const Site& site, int layers) {
  switch (site.kind) {
    case Site::Kind::resid_pre:
      return static_cast<HookId>(2 * site.layer);
    case Site::Kind::mlp_out:
      return static_cast<HookId>(2 * site.layer + 1);
    case Site::Kind::final_logits:
      break;
  }
  return static_cast<HookId>(2 * layers);
}

graphtap::HookTable make_table(const ModelSize& size) {
  graphtap::HookTable table("cuda_decode");
  const auto add = [&](const char* type, int layer, int width) {
    graphtap::HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.dtype = graphtap::DType::bf16;
    spec.row_shape = {width};
    (void)table.add(spec).value_or_throw();
  };
  for (int layer = 0; layer < size.layers; ++layer) {
    add("resid_pre", layer, size.hidden);
    add("mlp_out", layer, size.hidden);
  }
  add("final_logits", -1, size.vocab);
  return table;
}

graphtap::Source source_of(const Tensor& tensor) {
  graphtap::Source source;
  source.data = tensor.data;
  source.rows = static_cast<std::uint32_t>(tensor.rows);
  source.part_bytes = static_cast<std::uint64_t>(tensor.width) * sizeof(__nv_bfloat16);
  source.row_stride = static_cast<std::int64_t>(source.part_bytes);
  return source;
}

graphtap::Stream stream_of(const Model& model) {
  return graphtap::Stream{reinterpret_cast<std::uintptr_t>(model.stream())};
}

std::string request_name(int request) { return fmt::format("request-{}", request); }

// ---- graphs

DecodeGraphs::DecodeGraphs(Model& model, int max_batch, const Observer& observer,
                           graphtap::Lane* lane) {
  for (int rows = 1;; rows *= 2) {
    // Once without capture: libraries load their kernels at the first call.
    model.set_rows({}, rows);
    model.forward(rows, true, [](const Site&, const Tensor&) {});
    check(cudaStreamSynchronize(model.stream()), "warm up");
    One& one = graphs_.emplace_back();
    one.rows = rows;
    check(cudaStreamBeginCapture(model.stream(), cudaStreamCaptureModeGlobal), "begin a capture");
    model.forward(rows, true, observer);
    check(cudaStreamEndCapture(model.stream(), &one.graph), "end a capture");
    check(cudaGraphInstantiate(&one.exec, one.graph, 0), "instantiate");
    if (lane != nullptr) {
      graphtap::BindOptions options;
      options.name = fmt::format("decode[{}]", rows);
      one.bound = lane->bind(graphtap::Graph{reinterpret_cast<std::uintptr_t>(one.graph)},
                             graphtap::Exec{reinterpret_cast<std::uintptr_t>(one.exec)}, options);
    }
    if (rows >= max_batch) break;
  }
}

DecodeGraphs::~DecodeGraphs() {
  for (One& one : graphs_) {
    one.bound.reset();  // before what it is bound to
    (void)cudaGraphExecDestroy(one.exec);
    (void)cudaGraphDestroy(one.graph);
  }
}

const DecodeGraphs::One& DecodeGraphs::for_rows(std::size_t rows) const {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const One& one) {
    return static_cast<std::size_t>(one.rows) >= rows;
  });
  if (found == graphs_.end()) throw std::invalid_argument("a batch larger than every graph");
  return *found;
}

// ---- the reference

ReferenceRunner::ReferenceRunner(Model& model, const std::vector<PlannedRequest>& mix,
                                 const MixOptions& options)
    : model_(model),
      hooks_(static_cast<std::size_t>(2 * model.size().layers + 1)),
      max_rows_(static_cast<std::size_t>(model.size().max_rows)),
      step_sums_(hooks_ * max_rows_),
      sums_(hooks_ * mix.size() * static_cast<std::size_t>(model.size().max_tokens)),
      requests_(mix.size()) {
  check(cudaMalloc(&device_sums_, step_sums_.size() * sizeof(std::uint64_t)), "allocate checksums");
  observer_ = [this](const Site& site, const Tensor& tensor) {
    checksum_rows(tensor, device_sums_ + hook_of(site, model_.size().layers) * max_rows_,
                  model_.stream());
  };
  graphs_ = std::make_unique<DecodeGraphs>(model, options.max_batch, observer_);
}

ReferenceRunner::~ReferenceRunner() { (void)cudaFree(device_sums_); }

std::size_t ReferenceRunner::place(std::size_t hook, int request, int token) const {
  return (hook * requests_ + static_cast<std::size_t>(request)) *
             static_cast<std::size_t>(model_.size().max_tokens) +
         static_cast<std::size_t>(token);
}

std::vector<int> ReferenceRunner::step(const Batch& batch) {
  if (batch.decode) {
    const DecodeGraphs::One& graph = graphs_->for_rows(batch.rows.size());
    model_.set_rows(batch.rows, graph.rows);
    check(cudaGraphLaunch(graph.exec, model_.stream()), "launch");
  } else {
    model_.set_rows(batch.rows, static_cast<int>(batch.rows.size()));
    model_.forward(static_cast<int>(batch.rows.size()), false, observer_);
  }
  const std::vector<int> next = model_.next_tokens(static_cast<int>(batch.spans.size()));
  check(cudaMemcpy(step_sums_.data(), device_sums_, step_sums_.size() * sizeof(std::uint64_t),
                   cudaMemcpyDeviceToHost),
        "read checksums");
  for (std::size_t hook = 0; hook < hooks_; ++hook) {
    const bool logits = hook + 1 == hooks_;
    std::size_t row = 0;
    for (const Span& span : batch.spans) {
      for (int i = logits ? span.count - 1 : 0; i < span.count; ++i, ++row) {
        sums_[place(hook, span.request, span.first + i)] = step_sums_[hook * max_rows_ + row];
      }
    }
  }
  return next;
}

std::uint64_t ReferenceRunner::sum(HookId hook, int request, std::int64_t token) const {
  if (token < 0 || token >= model_.size().max_tokens) return 0;
  return sums_[place(hook, request, static_cast<int>(token))];
}

// ---- what arrives

RowChecker::RowChecker(const Model& model, const ReferenceRunner& reference,
                       const std::vector<std::vector<int>>& tokens)
    : model_(model), reference_(reference), tokens_(tokens) {
  const auto hooks = static_cast<std::size_t>(2 * model.size().layers + 1);
  rows_.resize(hooks);
  seen_.assign(
      hooks, std::vector<bool>(tokens.size() * static_cast<std::size_t>(model.size().max_tokens)));
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) requests_.emplace(request_name(i), i);
}

std::shared_ptr<graphtap::Sink> RowChecker::sink() {
  graphtap::Callbacks callbacks;
  callbacks.on_slice = [this](const graphtap::CallbackSlice& one) { slice(one); };
  callbacks.on_gap = [this](const graphtap::DeliveredStep& step, const graphtap::Gap& gap) {
    const std::lock_guard lock(mutex_);
    problem(fmt::format("step {}: {} is missing ({})", step.step, gap.hook->name,
                        to_string(gap.reason)));
  };
  return make_callback_sink("check", std::move(callbacks));
}

void RowChecker::problem(std::string text) {
  if (++problem_count_ <= 5) problems_.push_back(std::move(text));
}

void RowChecker::slice(const graphtap::CallbackSlice& one) {
  const std::lock_guard lock(mutex_);
  const HookId hook = one.record.hook->id;
  const auto found = one.slice.request ? requests_.find(one.slice.request->id) : requests_.end();
  if (found == requests_.end())
    return problem(fmt::format("step {}: rows of nobody", one.step.step));
  const int request = found->second;
  const auto& tokens = tokens_[static_cast<std::size_t>(request)];
  for (std::uint32_t row = 0; row < one.slice.rows; ++row) {
    const std::int64_t token = one.slice.first_token + row;
    const auto data = one.data.subspan(row * one.record.row_bytes, one.record.row_bytes);
    const std::string what =
        fmt::format("{} of {}, token {}", one.record.hook->name, found->first, token);
    const std::uint64_t expected = reference_.sum(hook, request, token);
    if (expected == 0) {
      problem(what + ": the model never computed that");
      continue;
    }
    const auto place =
        static_cast<std::size_t>(request) * static_cast<std::size_t>(model_.size().max_tokens) +
        static_cast<std::size_t>(token);
    if (seen_[hook][place]) problem(what + ": delivered twice");
    seen_[hook][place] = true;
    bool right = checksum(data) == expected;
    if (!right) problem(what + ": other values than without a monitor");
    if (hook == 0) {  // known without running the model
      const auto embedding =
          model_.embedding(tokens[static_cast<std::size_t>(token)], static_cast<int>(token));
      if (std::memcmp(embedding.data(), data.data(), data.size()) != 0) {
        right = false;
        problem(what + ": not the embedding of that token at that position");
      }
    }
    rows_[hook] += right ? 1 : 0;
  }
}

std::vector<std::string> RowChecker::problems() const {
  const std::lock_guard lock(mutex_);
  auto problems = problems_;
  if (problem_count_ > problems.size())
    problems.push_back(fmt::format("{} problems in all", problem_count_));
  return problems;
}

std::vector<std::uint64_t> RowChecker::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

// ---- the monitored model

MonitoredRunner::MonitoredRunner(Model& model, graphtap::Monitor& monitor,
                                 const MixOptions& options, Schedule schedule)
    : model_(model),
      monitor_(monitor),
      schedule_(std::move(schedule)),
      lane_(monitor.make_lane()),
      enabled_(monitor.table().none()),
      expected_(monitor.table().size()) {
  observer_ = [this](const Site& site, const Tensor& tensor) {
    lane_->produce(hook_of(site, model_.size().layers), source_of(tensor), stream_of(model_));
  };
  graphs_ = std::make_unique<DecodeGraphs>(model, options.max_batch, observer_, lane_.get());
}

void MonitoredRunner::begun(int request, int prompt_tokens) {
  requests_[request] = monitor_.begin_request(request_name(request), prompt_tokens);
}

void MonitoredRunner::finished(int request) {
  monitor_.finish_request(requests_.at(request));
  requests_.erase(request);
}

std::vector<int> MonitoredRunner::step(const Batch& batch) {
  if (const auto change = schedule_.find(step_++); change != schedule_.end()) {
    enabled_ = change->second;
    if (const auto status = monitor_.enable(enabled_); !status.ok())
      errors_.push_back(status.message());
  }
  for (const HookId hook : enabled_.ids()) {
    const bool logits = monitor_.table()[hook].rows == graphtap::RowBasis::requests;
    expected_[hook] += logits ? batch.spans.size() : batch.rows.size();
  }

  std::vector<graphtap::RowSpan> spans;
  for (const Span& span : batch.spans) {
    spans.push_back(
        {requests_.at(span.request), span.first, static_cast<std::uint32_t>(span.count)});
  }
  graphtap::StepShape shape;
  shape.kind = batch.decode ? graphtap::StepKind::graph : graphtap::StepKind::eager;
  shape.tokens =
      spans;  // logits: the last row of each span, which is what an empty `requests` means
  if (batch.decode) {
    const DecodeGraphs::One& graph = graphs_->for_rows(batch.rows.size());
    model_.set_rows(batch.rows, graph.rows);
    graphtap::Step step = lane_->begin(shape, stream_of(model_));
    if (const auto status = step.launch(*graph.bound); !status.ok()) throw graphtap::Error(status);
    step.end();
  } else {
    model_.set_rows(batch.rows, static_cast<int>(batch.rows.size()));
    graphtap::Step step = lane_->begin(shape, stream_of(model_));
    model_.forward(static_cast<int>(batch.rows.size()), false, observer_);
    step.end();
  }
  return model_.next_tokens(static_cast<int>(batch.spans.size()));
}

}  // namespace example
