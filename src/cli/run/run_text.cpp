#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.hpp"
#include "cli/run/run_result.hpp"
#include "cli/text_table.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

std::string answers(const RunResult& result) {
  std::string text;
  for (const RunRequest& request : result.requests) {
    text += fmt::format("\n{} (serial {}, steps {}-{}, {} prompt + {} new tokens, {})\n",
                        request.id, request.serial, request.first_step, request.last_step,
                        request.prompt_tokens, request.response_tokens, request.finish);
    text += fmt::format("  > {}\n  {}\n", one_line(request.prompt, 160),
                        one_line(request.response, 600));
  }
  return text;
}

std::string switches(const RunResult& result, const Schedule& schedule) {
  TextTable table({{"from step", true}, {"set"}, {"hooks", true}, {""}});
  for (const Switch& entry : schedule.switches()) {
    const bool reached = entry.step < result.steps || entry.step == 0;
    table.add({std::to_string(entry.step), in_words(entry.selection),
               std::to_string(entry.hooks.count()), reached ? "" : "never reached"});
  }
  return "\nschedule\n" + table.text(2);
}

std::string speed(const RunResult& result) {
  return fmt::format(
      "{}, {} generated in {:.1f} s ({:.0f} tokens/s), {} captured", counted(result.steps, "step"),
      counted(result.generated, "token"), result.seconds,
      result.seconds > 0 ? static_cast<double>(result.generated) / result.seconds : 0.0,
      human_bytes(result.stats.total.bytes));
}

}  // namespace

std::string shell_word(const std::string& path) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+=:@,").find(c) != std::string_view::npos;
  };
  if (!path.empty() && path[0] != '-' && std::all_of(path.begin(), path.end(), plain)) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string run_text(const RunResult& result, const Schedule& schedule, bool quiet) {
  std::string text;
  if (!quiet) text += answers(result) + switches(result, schedule) + "\ncaptured\n";
  text += totals_text(result.totals, quiet ? 0 : 2);
  if (!quiet) text += '\n' + speed(result) + '\n';
  if (result.mismatched > 0) {
    text += fmt::format("{} ran other tokens than were planned; their records were given up\n",
                        counted(result.mismatched, "step"));
  }
  if (result.store.empty()) return text;
  const std::string store = shell_word(result.store);
  text += fmt::format("store: {} (run {})\n", result.store, result.run_number);
  if (quiet) return text;
  return text + fmt::format(
                    "next:\n"
                    "  graphtap report {0} --out report.html      look at it\n"
                    "  graphtap show {0} --request {1} --limit 20\n"
                    "  graphtap verify {0} --deep\n",
                    store, result.requests.empty() ? "ID" : shell_word(result.requests.front().id));
}

nlohmann::json run_json(const RunResult& result, const Schedule& schedule) {
  auto requests = nlohmann::json::array();
  for (const RunRequest& request : result.requests) {
    requests.push_back({{"id", one_line(request.id)},
                        {"serial", request.serial},
                        {"prompt_tokens", request.prompt_tokens},
                        {"response_tokens", request.response_tokens},
                        {"first_step", request.first_step},
                        {"last_step", request.last_step},
                        {"finish", request.finish},
                        {"text", one_line(request.response, 1u << 20)}});
  }
  const Counts& total = result.stats.total;
  return {{"model", one_line(result.model)},
          {"hooks", result.hooks},
          {"schedule", schedule_json(schedule)},
          {"requests", std::move(requests)},
          {"steps", result.steps},
          {"generated_tokens", result.generated},
          {"seconds", result.seconds},
          {"mismatched_steps", result.mismatched},
          {"captured", totals_json(result.totals)},
          {"planned", total.planned},
          {"delivered", total.delivered},
          {"missing", total.missing()},
          {"shed", total.shed()},
          {"bytes", total.bytes},
          {"store", result.store.empty() ? nlohmann::json() : nlohmann::json(result.store)},
          {"run", result.run_number},
          {"interrupted", result.interrupted},
          {"engine", result.engine.ok() ? "ok" : one_line(result.engine.message())},
          {"closed", result.closed.ok() ? "ok" : one_line(result.closed.message())},
          {"stored", result.stored.ok() ? "ok" : one_line(result.stored.message())}};
}

}  // namespace graphtap::cli
