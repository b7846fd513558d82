#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/store_core.hpp"

namespace graphtap::store {

/// A query's conditions on one run.
struct RunFilter {
  const RunState* run = nullptr;
  std::vector<bool> hooks;             // by HookId
  std::vector<std::uint64_t> serials;  // sorted; used only if the query names requests

  [[nodiscard]] bool wants(const Hook& hook) const { return hooks[hook.id]; }
};

/// A query whose names were looked up.
struct ResolvedQuery {
  std::vector<RunFilter> runs;  // in order of run
  bool any_request = true;
  std::optional<std::uint16_t> ordinal;
  TokenRange tokens;
  bool skip_rejected = false;
  RankFilter ranks;

  [[nodiscard]] bool all_tokens() const noexcept;
  [[nodiscard]] bool wants(const RunFilter& run, std::uint64_t request) const;
};

/// Errors: as StoreReader::read().
[[nodiscard]] Result<ResolvedQuery> resolve(const StoreCore& core, const Query& query);

}  // namespace graphtap::store
