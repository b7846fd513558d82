#include "llama_cpp/graph_tap.hpp"

#include <fmt/format.h>
#include <ggml.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "llama_cpp/tensor_source.hpp"

namespace graphtap::llama {
namespace {

TensorShape shape_of(const ggml_tensor& tensor) {
  TensorShape shape;
  shape.type = tensor.type;
  for (std::size_t d = 0; d < shape.ne.size(); ++d) {
    shape.ne[d] = tensor.ne[d];
    shape.nb[d] = tensor.nb[d];
  }
  return shape;
}

/// Compares a graph input with what was planned; empty if equal.
template <class T>
std::string compare(const ggml_tensor* input, int type, std::span<const std::int32_t> planned,
                    std::string_view what) {
  const void* data = input ? host_data(*input) : nullptr;
  if (!data || input->type != type || !ggml_is_contiguous(input)) {
    return fmt::format("the graph's {} cannot be read", what);
  }
  if (static_cast<std::size_t>(ggml_nelements(input)) != planned.size()) {
    return fmt::format("the graph has {} {}, {} rows were planned", ggml_nelements(input), what,
                       planned.size());
  }
  for (std::size_t row = 0; row < planned.size(); ++row) {
    T value{};
    std::memcpy(&value, static_cast<const std::byte*>(data) + row * sizeof(T), sizeof(T));
    if (value != planned[row]) {
      return fmt::format("row {} of the graph has {} {}, planned was {}", row, what, value,
                         planned[row]);
    }
  }
  return {};
}

constexpr std::uint8_t bit(Check check) noexcept { return static_cast<std::uint8_t>(check); }

}  // namespace

bool GraphTap::callback(ggml_tensor* node, bool ask, void* self) noexcept {
  auto& tap = *static_cast<GraphTap*>(self);
  if (tap.state_ == State::off || tap.state_ == State::failed) return !ask;
  try {
    if (ask) return tap.ask(node);
    if (tap.current_) {
      ++tap.read_;
      for (const Tap& each : std::exchange(tap.current_, nullptr)->taps) {
        if (each.input < 0 && tap.wanted_[each.hook]) tap.produce(node, each);
      }
    }
  } catch (const std::exception& error) {
    tap.state_ = State::failed;
    try {
      tap.failure_ = error.what();
    } catch (...) {  // no memory for the words either: disarm() says that checks are missing
    }
  }
  return !ask;
}

bool GraphTap::ask(ggml_tensor* node) {
  if (state_ == State::recording) {
    record_node(node);
    return false;
  }
  ++asked_;
  if (next_ > 0 && node->op == verdicts_.front().op && verdicts_.front().name == node->name) {
    fail("the engine split the step into several graphs");
    return false;
  }
  const NodeActions* actions = verdict(node).actions;
  if (!actions) return false;
  if (actions->checks != 0) {
    run_checks(node, *actions);
    if (state_ == State::failed) return false;
  }
  bool need = false;
  for (const Tap& tap : actions->taps) {
    if (!wanted_[tap.hook]) continue;
    if (tap.input < 0) {
      need = true;
    } else {
      produce(node->src[tap.input], tap);
    }
  }
  if (need) current_ = actions;
  return need;
}

void GraphTap::record_node(const ggml_tensor* node) {
  GraphNode entry;
  entry.name = node->name;
  entry.op = ggml_op_desc(node);
  entry.occurrence = occurrences_[entry.name + '\n' + entry.op]++;
  entry.shape = shape_of(*node);
  for (const ggml_tensor* input : node->src) {
    if (!input) break;
    entry.inputs.push_back(shape_of(*input));
  }
  recording_.push_back(std::move(entry));
}

const GraphTap::Verdict& GraphTap::verdict(const ggml_tensor* node) {
  const std::size_t index = next_++;
  if (index < verdicts_.size()) {
    const Verdict& kept = verdicts_[index];
    if (kept.op == node->op && kept.name == node->name) return kept;
    // Another graph than the one the verdicts were for: what came before is the same, the rest is
    // not.
    verdicts_.resize(index);
    occurrences_.clear();
    for (const Verdict& before : verdicts_) {
      ++occurrences_[before.name + '\n' + std::to_string(before.op)];
    }
  }
  return classify(node);
}

const GraphTap::Verdict& GraphTap::classify(const ggml_tensor* node) {
  Verdict fresh;
  fresh.name = node->name;
  fresh.op = node->op;
  const int occurrence = occurrences_[fresh.name + '\n' + std::to_string(fresh.op)]++;
  const auto it = bindings_->nodes.find(node_key(fresh.name, ggml_op_desc(node), occurrence));
  if (it != bindings_->nodes.end()) fresh.actions = &it->second;
  return verdicts_.emplace_back(std::move(fresh));
}

void GraphTap::run_checks(const ggml_tensor* node, const NodeActions& actions) {
  // The verdict on one input; empty if it holds or is not asked for here.
  const auto differs = [&](Check check, std::size_t place, auto value, int type,
                           std::span<const std::int32_t> planned, std::string_view what) {
    if ((actions.checks & bit(check)) == 0) return std::string{};
    const ggml_tensor* input = node->src[actions.check_inputs[place]];
    std::string difference = compare<decltype(value)>(input, type, planned, what);
#if defined(GRAPHTAP_BUG_llama_inputs_unchecked)
    difference.clear();
#endif
    if (difference.empty()) passed_ = static_cast<std::uint8_t>(passed_ | bit(check));
    return difference;
  };
  std::string difference =
      differs(Check::tokens, 0, std::int32_t{}, GGML_TYPE_I32, expected_.tokens, "token id");
  if (difference.empty()) {
    difference = differs(Check::positions, 1, std::int32_t{}, GGML_TYPE_I32, expected_.positions,
                         "position");
  }
  if (!difference.empty()) return fail(std::move(difference));
  // Keys are cache cells; only where each token lies in the cell of its own position are they
  // positions. Otherwise the hooks with key columns are not read; the others do not depend on it.
  (void)differs(Check::cells, 2, std::int64_t{}, GGML_TYPE_I64, expected_.positions, "cache cell");
}

void GraphTap::produce(const ggml_tensor* tensor, const Tap& tap) {
  auto source = row_source(*tensor, tap.rows, tap.columns ? expected_.columns : -1);
  // A tensor that does not fit is left alone: its record is then missing, and no other is touched.
  if (!source || source->rows != expected_.tokens.size()) return;
  if (tap.columns && (passed_ & bit(Check::cells)) == 0) return;
  const Hook& hook = bindings_->table[tap.hook];
  if (source->row_bytes() != hook.row_bytes(expected_.columns)) return;
  if (tap.requests) {
    const auto rows = expected_.request_rows;
    if (rows.empty() || rows.back() >= source->rows) return;
    const auto* base = static_cast<const std::byte*>(source->data);
    const auto at = [&](std::uint32_t row) {
      return base + static_cast<std::int64_t>(row) * source->row_stride;
    };
    const std::size_t bytes = source->row_bytes();
    if (rows.size() == source->rows || rows.size() == 1) {
      source->data = at(rows.front());
    } else {
      if (source->parts != 1) return;
      packed_.resize(rows.size() * bytes);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(packed_.data() + i * bytes, at(rows[i]), bytes);
      }
      source->data = packed_.data();
      source->row_stride = static_cast<std::int64_t>(bytes);
    }
    source->rows = static_cast<std::uint32_t>(rows.size());
  }
  expected_.lane->produce(tap.hook, *source, expected_.stream);
}

void GraphTap::fail(std::string why) {
  state_ = State::failed;
  failure_ = std::move(why);
}

void GraphTap::record() {
  recording_.clear();
  occurrences_.clear();
  state_ = State::recording;
}

std::vector<GraphNode> GraphTap::recorded() {
  state_ = State::off;
  occurrences_.clear();
  verdicts_.clear();
  return std::exchange(recording_, {});
}

void GraphTap::bind(const Bindings& bindings) {
  bindings_ = &bindings;
  verdicts_.clear();
  occurrences_.clear();
}

void GraphTap::arm(const Expectation& expectation) {
  expected_ = expectation;
  wanted_.assign(bindings_->table.size(), 0);
  for (const Hook& hook : bindings_->table.hooks()) {
    wanted_[hook.id] = expectation.step->captures(hook.id) ? 1 : 0;
  }
  next_ = 0;
  passed_ = 0;
  current_ = nullptr;
  failure_.clear();
  state_ = State::armed;
}

std::string GraphTap::disarm() {
  const State state = std::exchange(state_, State::off);
  current_ = nullptr;
  if (!failure_.empty()) return std::exchange(failure_, {});
  constexpr auto kNeeded = static_cast<std::uint8_t>(bit(Check::tokens) | bit(Check::positions));
  if (state == State::failed || (passed_ & kNeeded) != kNeeded) {
    return "the graph did not show its token ids and positions";
  }
  return {};
}

}  // namespace graphtap::llama
