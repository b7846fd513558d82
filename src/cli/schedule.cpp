#include "cli/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace graphtap::cli {
namespace {

[[noreturn]] void refuse(std::string_view option, const Status& status) {
  throw Error(status.code(), fmt::format("{}: {}", option, status.message()));
}

}  // namespace

Schedule::Schedule(const std::optional<std::string>& hooks, const std::vector<std::string>& at,
                   const HookTable& table, const Resolve& resolve) {
  const auto add = [&](std::string_view option, std::uint64_t step, Selection selection) {
    Result<HookSet> set = selection.is_default() ? table.all() : resolve(selection);
    if (!set.ok()) refuse(option, set.status());
    switches_.push_back({step, std::move(selection), std::move(set).value()});
  };
  Result<Selection> first = Selection::parse(hooks.value_or(""), table.catalogue());
  if (!first.ok()) refuse("--hooks", first.status());
  add("--hooks", 0, std::move(first).value());
  for (const std::string& text : at) {
    const std::string option = fmt::format("--at {}", text);
    Result<ScheduleEntry> entry = parse_schedule_entry(text, table.catalogue());
    if (!entry.ok()) refuse(option, entry.status());
    add(option, entry.value().step, std::move(entry).value().selection);
  }
  std::stable_sort(switches_.begin(), switches_.end(),
                   [](const Switch& a, const Switch& b) { return a.step < b.step; });
  // "--at 0:…" replaces what --hooks left unsaid; anything else given twice is a mistake.
  if (!hooks && switches_.size() > 1 && switches_[1].step == 0) switches_.erase(switches_.begin());
  for (std::size_t i = 1; i < switches_.size(); ++i) {
    if (switches_[i].step != switches_[i - 1].step) continue;
    throw Error(
        Code::invalid_argument,
        fmt::format("--at: step {} is given twice{}; one selection can name several hooks, as "
                    "in \"--at {}:resid_pre:0-3,logits\"",
                    switches_[i].step, switches_[i].step == 0 ? " (--hooks is for step 0)" : "",
                    switches_[i].step));
  }
}

const Switch* Schedule::at(std::uint64_t step) const noexcept {
  const Switch& holds = switches_[phase(step)];
  return holds.step == step ? &holds : nullptr;
}

std::size_t Schedule::phase(std::uint64_t step) const noexcept {
  const auto after =
      std::upper_bound(switches_.begin(), switches_.end(), step,
                       [](std::uint64_t wanted, const Switch& s) { return wanted < s.step; });
  return static_cast<std::size_t>(after - switches_.begin()) - 1;
}

std::vector<const Switch*> Schedule::unreached(std::uint64_t steps) const {
  std::vector<const Switch*> late;
  for (const Switch& entry : switches_) {
    if (entry.step >= steps && entry.step > 0) late.push_back(&entry);
  }
  return late;
}

std::string in_words(const Selection& selection) {
  std::string words = selection.is_none()      ? "none"
                      : selection.is_default() ? "every hook"
                                               : selection.text();
  if (selection.is_default() && !selection.text().empty()) words += " " + selection.text();
  return words;
}

nlohmann::json schedule_json(const Schedule& schedule) {
  auto json = nlohmann::json::array();
  for (const Switch& entry : schedule.switches()) {
    json.push_back({{"step", entry.step},
                    {"selection", entry.selection.text()},
                    {"hooks", entry.hooks.count()}});
  }
  return json;
}

}  // namespace graphtap::cli
