#include "cli/run/engine_llama_hooks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "cli/values.hpp"
#include "plan/planner.hpp"
#include "plan/wire.hpp"

namespace graphtap::cli {
namespace {

/// Hooks of one type.
struct TypeLine {
  const Hook* first = nullptr;
  std::vector<int> layers;
};

std::vector<TypeLine> by_type(const HookTable& table) {
  std::vector<TypeLine> lines;
  for (const Hook& hook : table.hooks()) {
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const TypeLine& l) { return l.first->type == hook.type; });
    if (line == lines.end()) line = lines.insert(lines.end(), TypeLine{&hook, {}});
    if (hook.layer >= 0) line->layers.push_back(hook.layer);
  }
  return lines;
}

std::string shape_text(const Hook& hook) {
  std::vector<std::string> parts;
  for (const std::int64_t size : hook.row_shape) {
    parts.push_back(size == kPerStepColumns ? "keys" : std::to_string(size));
  }
  return parts.empty() ? "1" : fmt::format("{}", fmt::join(parts, "×"));
}

std::string description(const HookTable& table, const std::string& type) {
  const HookType* known = table.catalogue().find(type);
  return known ? known->description : "";
}

}  // namespace

Exit list_hooks(const llama::LlamaSession& session, bool json, Console& console) {
  const HookTable& table = session.table();
  TextTable text({{"hook"}, {"layers"}, {"a row"}, {"dtype"}, {"rows"}, {"what it is"}});
  auto hooks = nlohmann::json::array(), missing = nlohmann::json::array();
  for (const TypeLine& line : by_type(table)) {
    const Hook& hook = *line.first;
    const std::string words = description(table, hook.type);
    text.add({hook.type, ranges(line.layers), shape_text(hook), std::string(to_string(hook.dtype)),
              to_string(hook.rows), words});
    hooks.push_back({{"hook", hook.type},
                     {"layers", line.layers},
                     {"row_shape", hook.row_shape},
                     {"dtype", to_string(hook.dtype)},
                     {"rows", to_string(hook.rows)},
                     {"description", words}});
  }
  for (const llama::UnmappedHook& hook : session.unmapped()) {
    missing.push_back({{"hook", hook.type}, {"reason", hook.reason}});
  }
  if (json) {
    console.out << nlohmann::json{{"model", one_line(session.description())},
                                  {"hooks", std::move(hooks)},
                                  {"not_offered", std::move(missing)}}
                       .dump(2)
                << '\n';
    return Exit::ok;
  }
  console.out << session.description() << "\n\n" << text.text();
  if (!session.unmapped().empty()) console.out << "\nnot offered\n";
  for (const llama::UnmappedHook& hook : session.unmapped()) {
    console.out << fmt::format("  {}: {}\n", hook.type, hook.reason);
  }
  console.out << "\npresets\n";
  for (const Preset& preset : table.catalogue().presets()) {
    console.out << fmt::format("  {:<14} {} ({})\n", preset.name, preset.selection,
                               preset.description);
  }
  return Exit::ok;
}

void check_ring(const RunOptions& options, const HookTable& table, const Schedule& schedule) {
  const HookSet every = options.eager == EagerPolicy::all ? table.all() : table.none();
  std::uint64_t least = 0;
  std::string hook;
  for (const Switch& entry : schedule.switches()) {
    for (const HookId id : (entry.hooks | every).ids()) {
      const std::uint64_t bytes =
          frame_prologue(StepKind::eager, table.slots()) +
          wire::record_bytes(table[id].row_bytes(static_cast<std::int64_t>(options.context)));
      if (bytes > least) hook = table[id].name;
      least = std::max(least, bytes);
    }
  }
  if (least <= options.ring_bytes) return;
  throw Error(Code::invalid_argument,
              fmt::format("--ring is {} bytes, but one row of {} takes {}; give it at least {}KiB, "
                          "or leave that hook out",
                          options.ring_bytes, hook, least, (least + 1023) / 1024));
}

}  // namespace graphtap::cli
