#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/schedule.hpp"
#include "cli/totals.hpp"
#include "graphtap/stats.hpp"

namespace graphtap::cli {

/// One prompt and what became of it.
struct RunRequest {
  std::string id;
  std::string prompt, response;
  std::uint64_t serial = 0;  ///< 0: it never began
  std::uint64_t prompt_tokens = 0, response_tokens = 0;
  std::uint64_t first_step = 0, last_step = 0;
  std::string finish;
};

/// What a run did, engine-independent: everything its summary says.
struct RunResult {
  std::string model;      ///< the engine's description
  std::size_t hooks = 0;  ///< the model offers
  std::vector<RunRequest> requests;
  std::uint64_t steps = 0, generated = 0, mismatched = 0;
  double seconds = 0;
  std::vector<TotalsRow> totals;
  Stats stats;
  std::string store;  ///< empty: none
  std::uint32_t run_number = 0;
  bool interrupted = false;
  Status engine;  ///< of the step that failed
  Status closed;  ///< of Monitor::close
  Status stored;  ///< last error of the store, if it lost something
};

/// For people: answers, schedule, table, and what to do next.
[[nodiscard]] std::string run_text(const RunResult& result, const Schedule& schedule, bool quiet);
[[nodiscard]] nlohmann::json run_json(const RunResult& result, const Schedule& schedule);
/// `path` as a shell takes it.
[[nodiscard]] std::string shell_word(const std::string& path);

}  // namespace graphtap::cli
