// Opening a session: options, the hook map, the run that shows the graph, the monitor.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "llama_cpp/hook_map.hpp"
#include "llama_cpp/session_impl.hpp"

namespace graphtap::llama {
namespace {

/// Rows of the run that shows the graph: a number no dimension of a row is likely to have.
constexpr std::uint32_t kProbeRows = 5;
constexpr std::uint32_t kMostSequences = 256;  // the engine's own limit

Status check_options(const SessionOptions& options) {
  const auto refuse = [](std::string why) {
    return Status(Code::invalid_argument, std::move(why));
  };
  if (options.max_sequences < 1 || options.max_sequences > kMostSequences) {
    return refuse(fmt::format("max_sequences is {}; it must be 1 to {}", options.max_sequences,
                              kMostSequences));
  }
  const std::uint32_t least = std::max(kProbeRows, options.max_sequences);
  if (options.batch_tokens < least) {
    return refuse(fmt::format("batch_tokens is {}; {} sequences need at least {}",
                              options.batch_tokens, options.max_sequences, least));
  }
  if (options.context_tokens < options.batch_tokens) {
    return refuse(fmt::format("context_tokens is {}; it must be at least batch_tokens, {}",
                              options.context_tokens, options.batch_tokens));
  }
  if (options.threads > 512)
    return refuse(fmt::format("threads is {}; at most 512", options.threads));
  if (options.poll > 100)
    return refuse(fmt::format("poll is {}; it must be 0 to 100", options.poll));
  return {};
}

Result<HookMap> choose_map(const SessionOptions& options, const std::string& architecture) {
  auto builtin = HookMap::builtin(architecture);
  if (options.map.empty()) {
    if (builtin) return std::move(*builtin);
    return Status(
        Code::unsupported,
        fmt::format("model {}: no hook map for the architecture \"{}\" is built in; give one "
                    "(see adapters/llama_cpp/maps/README.md)",
                    options.model.string(), architecture));
  }
  auto own = HookMap::load(options.map);
  if (!own.ok()) return own;
  const auto& fits = own.value().architectures;
  if (!fits.empty() && std::find(fits.begin(), fits.end(), architecture) == fits.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("hook map {} is for {}, the model is \"{}\"", options.map.string(),
                              fmt::join(fits, ", "), architecture));
  }
  if (!builtin) return own;
  builtin->extend(std::move(own).value());
  return std::move(*builtin);
}

std::string why_no_columns(const SessionOptions& options) {
  if (options.flash_attention) return "flash attention hides it; run without flash attention";
  if (options.max_sequences > 1) {
    return "its columns are cache cells of all sequences; run one sequence at a time "
           "(max_sequences 1)";
  }
  return {};
}

}  // namespace

Status LlamaSession::Impl::open() {
  if (Status status = check_options(options_); !status.ok()) return status;
  auto engine = Engine::open(options_, options_.instrument ? &tap_ : nullptr);
  if (!engine.ok()) return engine.status();
  engine_ = std::move(engine).value();
  description_ = engine_->description();
  return options_.instrument ? probe() : Status{};
}

Status LlamaSession::Impl::probe() {
  auto map = choose_map(options_, engine_->architecture());
  if (!map.ok()) return map.status();
  std::array<Engine::Row, kProbeRows> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].position = static_cast<std::int32_t>(i);
  tap_.record();
  const Status status = engine_->decode(rows);
  const std::vector<GraphNode> graph = tap_.recorded();
  engine_->forget_all();
  if (!status.ok()) return status;
  const ModelFacts facts{options_.model.stem().string(), engine_->layers(), engine_->heads(),
                         kProbeRows, why_no_columns(options_)};
  auto bindings = bind_map(map.value(), graph, facts);
  if (!bindings.ok()) return bindings.status();
  bindings_ = std::move(bindings).value();
  for (const Hook& hook : bindings_.table.hooks()) {
    const auto& shape = hook.row_shape;
    columns_ = columns_ || std::find(shape.begin(), shape.end(), kPerStepColumns) != shape.end();
  }
  tap_.bind(bindings_);
  return {};
}

Status LlamaSession::Impl::attach(Monitor& monitor) {
  if (!options_.instrument) {
    return {Code::invalid_argument, "the session was opened without instrumentation"};
  }
  if (monitor_) return {Code::invalid_argument, "the session has a monitor already"};
  const HookTable& theirs = monitor.table();
  const bool same =
      theirs.size() == bindings_.table.size() &&
      std::equal(theirs.hooks().begin(), theirs.hooks().end(), bindings_.table.hooks().begin(),
                 [](const Hook& a, const Hook& b) {
                   return a.name == b.name && a.row_shape == b.row_shape && a.dtype == b.dtype;
                 });
  if (!same) {
    return {Code::invalid_argument,
            fmt::format(
                "the monitor watches {} ({} hooks), not this session's table of {} ({} hooks)",
                theirs.model(), theirs.size(), bindings_.table.model(), bindings_.table.size())};
  }
  monitor_ = &monitor;
  lane_ = monitor.make_lane();
  return {};
}

}  // namespace graphtap::llama
