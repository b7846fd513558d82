#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graphtap/hook_table.hpp"
#include "graphtap/selection.hpp"

namespace graphtap::cli {

/// One switch: from `step` on, until the next one, `selection` is enabled.
struct Switch {
  std::uint64_t step = 0;
  Selection selection;
  HookSet hooks;  ///< what it means for this model
};

/// What --hooks and --at ask for, checked against a model before anything runs.
class Schedule {
 public:
  using Resolve = std::function<Result<HookSet>(const Selection&)>;

  /// `hooks` is what holds from step 0 (nothing given: every hook), `at` are "STEP:SELECTION".
  /// Throws Error(invalid_argument) that names the option, the word and its near matches.
  Schedule(const std::optional<std::string>& hooks, const std::vector<std::string>& at,
           const HookTable& table, const Resolve& resolve);

  /// By step, rising; the first is for step 0.
  [[nodiscard]] const std::vector<Switch>& switches() const noexcept { return switches_; }
  /// The switch that takes effect before `step`, or null.
  [[nodiscard]] const Switch* at(std::uint64_t step) const noexcept;
  /// The index of the switch that holds at `step`.
  [[nodiscard]] std::size_t phase(std::uint64_t step) const noexcept;
  /// Those whose step was never reached in a run of `steps` steps.
  [[nodiscard]] std::vector<const Switch*> unreached(std::uint64_t steps) const;

 private:
  std::vector<Switch> switches_;
};

/// "every hook", "none", or the selection as written.
[[nodiscard]] std::string in_words(const Selection& selection);
[[nodiscard]] nlohmann::json schedule_json(const Schedule& schedule);

}  // namespace graphtap::cli
