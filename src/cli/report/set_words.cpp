#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/report/report_data.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

constexpr std::size_t kBrief = 56;  // characters of a set's name in the legend

// "resid_pre, resid_mid 20-29" for all types with these layers.
std::string group_text(const std::vector<std::string>& types, const std::vector<int>& layers) {
  return fmt::format("{}{}{}", fmt::join(types, ", "), layers.empty() ? "" : " ", ranges(layers));
}

}  // namespace

HookSetWords set_in_words(const std::vector<Hook>& hooks, const std::vector<bool>& have,
                          const std::vector<bool>& countable) {
  HookSetWords words;
  std::vector<std::string> types;  // in the order of the hooks
  std::map<std::string, std::vector<int>> layers;
  std::size_t all = 0;
  for (const Hook& hook : hooks) {
    if (!countable[hook.id]) continue;
    ++all;
    if (!have[hook.id]) continue;
    ++words.hooks;
    if (!layers.contains(hook.type)) types.push_back(hook.type);
    auto& of_type = layers[hook.type];
    if (hook.layer >= 0) of_type.push_back(hook.layer);
  }
  if (words.hooks == 0) {
    words.brief = words.full = "none";
    return words;
  }
  // Layers are what one looks for, so hooks without come last.
  std::stable_partition(types.begin(), types.end(),
                        [&](const std::string& type) { return !layers[type].empty(); });
  std::vector<std::string> parts;
  std::set<std::string> told;
  for (const std::string& type : types) {
    if (told.contains(type)) continue;
    std::vector<std::string> alike;  // types that have the very same layers
    for (const std::string& other : types) {
      if (layers[other] == layers[type]) alike.push_back(other);
    }
    told.insert(alike.begin(), alike.end());
    std::sort(layers[type].begin(), layers[type].end());
    parts.push_back(group_text(alike, layers[type]));
  }
  words.full = fmt::format("{}", fmt::join(parts, "; "));
  if (words.hooks == all) {
    words.brief = "every hook";
    words.full = "every hook: " + words.full;
  } else if (words.full.size() <= kBrief) {
    words.brief = words.full;
  } else {
    words.brief = words.full.substr(0, kBrief) + "…";
  }
  return words;
}

}  // namespace graphtap::cli
