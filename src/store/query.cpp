#include "store/query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/near_match.hpp"
#include "graphtap/selection.hpp"

namespace graphtap::store {
namespace {

constexpr std::size_t kMostNear = 100'000;  // requests looked through for a near match

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

Status apply_selection(const RunState& run, const std::string& text, std::vector<bool>& hooks) {
  if (!run.header.table) {
    return {
        Code::unsupported,
        fmt::format("run {}: its hook table cannot be rebuilt ({}); ask by type and layer instead",
                    run.header.info.number, run.header.table_problem)};
  }
  const Result<Selection> selection = Selection::parse(text, run.header.table->catalogue());
  if (!selection.ok()) return selection.status();
  if (!(selection.value().sampling() == Sampling{})) {
    return wrong(
        fmt::format("{}: sampling (@...) chooses what is captured; it cannot be asked for when "
                    "reading",
                    in_quotes(text)));
  }
  const Result<HookSet> set = selection.value().resolve(*run.header.table);
  if (!set.ok()) return set.status();
  for (std::size_t i = 0; i < hooks.size(); ++i) {
    hooks[i] = hooks[i] && set.value().contains(static_cast<HookId>(i));
  }
  return {};
}

Status apply_type(const RunState& run, const std::string& type, std::optional<int> layer,
                  std::vector<bool>& hooks) {
  std::string name = type;
  if (run.header.table) {
    if (const HookType* known = run.header.table->catalogue().find(type)) name = known->name;
  }
  bool any = false;
  std::vector<std::string_view> types;
  for (const Hook& hook : run.header.info.hooks) {
    const bool match = (name.empty() || hook.type == name) && (!layer || hook.layer == *layer);
    hooks[hook.id] = hooks[hook.id] && match;
    any = any || match;
    types.push_back(hook.type);
  }
  if (any) return {};
  const std::string wanted =
      layer ? fmt::format("{} in layer {}", in_quotes(name.empty() ? "*" : name), *layer)
            : in_quotes(name);
  return wrong(fmt::format("run {} ({}) has no hook {}{}", run.header.info.number,
                           run.header.info.model, wanted, did_you_mean(name, types)));
}

Result<std::vector<bool>> hooks_of(const RunState& run, const Query& query) {
  std::vector<bool> hooks(run.header.info.hooks.size(), true);
  if (!query.hooks.empty()) {
    if (Status s = apply_selection(run, query.hooks, hooks); !s.ok()) return s;
  }
  if (!query.type.empty() || query.layer) {
    if (Status s = apply_type(run, query.type, query.layer, hooks); !s.ok()) return s;
  }
  return hooks;
}

std::vector<std::uint64_t> serials_of(const RunState& run, const Query& query) {
  std::vector<std::uint64_t> serials;
  if (query.request.empty()) {
    if (run.requests.contains(*query.serial)) serials.push_back(*query.serial);
    return serials;
  }
  const auto found = run.serials.find(query.request);
  if (found == run.serials.end()) return serials;
  for (std::uint64_t serial : found->second) {
    if (!query.serial || *query.serial == serial) serials.push_back(serial);
  }
  std::sort(serials.begin(), serials.end());
  return serials;
}

Status no_such_request(const std::vector<const RunState*>& runs, const Query& query) {
  std::vector<std::string_view> known;
  for (const RunState* run : runs) {
    for (const auto& [serial, request] : run->requests) {
      if (known.size() < kMostNear) known.push_back(request.id);
    }
  }
  std::string what = query.request.empty() ? fmt::format("no request with serial {}", *query.serial)
                                           : fmt::format("no request {}", in_quotes(query.request));
  if (!query.request.empty() && query.serial) what += fmt::format(" with serial {}", *query.serial);
  return {Code::not_found, what + " in the store" + did_you_mean(query.request, known)};
}

}  // namespace

bool ResolvedQuery::all_tokens() const noexcept {
  return tokens.begin <= 0 && tokens.end == std::numeric_limits<std::int64_t>::max();
}

bool ResolvedQuery::wants(const RunFilter& run, std::uint64_t request) const {
  if (any_request) return true;
  return std::binary_search(run.serials.begin(), run.serials.end(), request);
}

Result<ResolvedQuery> resolve(const StoreCore& core, const Query& query) {
  ResolvedQuery resolved;
  resolved.any_request = query.request.empty() && !query.serial;
  resolved.ordinal = query.ordinal;
  resolved.tokens = {query.begin, query.end};
  resolved.skip_rejected = query.skip_rejected;
  resolved.ranks = query.ranks;
  if (query.begin > query.end) {
    return wrong(
        fmt::format("tokens [{}, {}): the end comes before the beginning", query.begin, query.end));
  }
  const std::vector<const RunState*> all = core.runs();
  std::vector<const RunState*> asked;
  for (const RunState* run : all) {
    if (!query.run || run->header.info.number == *query.run) asked.push_back(run);
  }
  if (query.run && asked.empty()) {
    return Status(Code::not_found, all.empty()
                                       ? fmt::format("no run {}: the store has no runs", *query.run)
                                       : fmt::format("no run {}: the store has runs {} to {}",
                                                     *query.run, all.front()->header.info.number,
                                                     all.back()->header.info.number));
  }
  // Runs of different models may share a store: one that knows the hooks is enough.
  Status refused;
  bool named = false;
  for (const RunState* run : asked) {
    RunFilter filter{run, {}, {}};
    if (!resolved.any_request) filter.serials = serials_of(*run, query);
    named = named || !filter.serials.empty();
    Result<std::vector<bool>> hooks = hooks_of(*run, query);
    if (!hooks.ok()) {
      if (refused.ok()) refused = hooks.status();
      continue;
    }
    filter.hooks = std::move(hooks).value();
    resolved.runs.push_back(std::move(filter));
  }
  if (!resolved.any_request && !named) return no_such_request(asked, query);
  if (resolved.runs.empty() && !refused.ok()) return refused;
  return resolved;
}

}  // namespace graphtap::store
