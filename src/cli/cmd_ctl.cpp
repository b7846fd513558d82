#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/subcommands.hpp"
#include "cli/values.hpp"
#include "graphtap/control.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string socket, command;
  std::optional<std::string> selection, name, timeout;
  std::vector<std::string> requests;
  bool now = false, json = false;
};

constexpr const char* kExamples =
    R"(Talks to a serving process that was started with a control socket (graphtap run --control SOCKET, or
ControlServer in an engine of your own). Only the user who serves may; if the server wants a token, it is
taken from the environment variable GRAPHTAP_TOKEN.

Commands: enable (needs --hooks), watch (--name, --hooks, --request), unwatch (--name), enabled, hooks, stats,
flush (--timeout).

Examples:
  graphtap ctl /run/user/1000/tap hooks
  graphtap ctl /run/user/1000/tap enable --hooks resid_pre:20-29
  graphtap ctl /run/user/1000/tap enable --hooks none --now
  graphtap ctl /run/user/1000/tap watch --name probe --hooks resid_pre:12 --request chat-7
  graphtap ctl /run/user/1000/tap stats --json)";

Json request_of(const Options& options) {
  Json request{{"command", options.command}};
  if (const char* token = std::getenv("GRAPHTAP_TOKEN"); token != nullptr) request["token"] = token;
  if (options.selection) request["selection"] = *options.selection;
  if (options.name) request["name"] = *options.name;
  if (!options.requests.empty()) request["requests"] = options.requests;
  if (options.now) request["apply"] = "now";
  if (options.timeout) {
    request["timeout_ms"] = parse_count("--timeout", *options.timeout, 0, 60'000);
  }
  return request;
}

// The server's refusal, as the error it was there.
[[noreturn]] void refuse(const Json& answer) {
  constexpr std::array kCodes = {Code::invalid_argument, Code::not_found,   Code::exhausted,
                                 Code::timeout,          Code::unavailable, Code::unsupported,
                                 Code::corrupt,          Code::io_error,    Code::device_error,
                                 Code::device_lost};
  const auto name = answer.value("code", "");
  for (const Code code : kCodes) {
    if (name == to_string(code)) throw Error(code, answer.value("error", "refused"));
  }
  throw Error(Code::io_error, "the server's answer makes no sense: " + answer.dump());
}

void print(const Json& answer, Console& console) {
  for (const char* list : {"enabled", "hooks"}) {
    if (!answer.contains(list)) continue;
    for (const Json& hook : answer[list]) console.out << hook.get<std::string>() << '\n';
    if (answer[list].empty()) console.out << "none\n";
  }
  if (!answer.contains("stats")) return;
  for (const auto& [key, value] : answer["stats"].items()) {
    if (!value.is_array()) console.out << fmt::format("{:18} {}\n", key, value.dump());
  }
}

Exit control(const Options& options, Console& console) {
  const std::string line =
      control_request(options.socket, request_of(options).dump(), std::chrono::seconds(70))
          .value_or_throw();
  const Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object() || !answer.value("ok", false)) {
    refuse(answer.is_object() ? answer : Json::object());
  }
  if (options.json) {
    console.out << answer.dump(2) << '\n';
  } else {
    print(answer, console);
  }
  return Exit::ok;
}

}  // namespace

Action setup_ctl(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "SOCKET", options->socket, "where the server listens");
  add_word(app, "COMMAND", options->command, "what to do there");
  add_text(app, "--hooks", options->selection, "SELECTION", "for enable and watch");
  add_text(app, "--name", options->name, "TEXT", "of a lease, for watch and unwatch");
  add_texts(app, "--request", options->requests, "ID", "watch this request only; repeatable");
  add_flag(app, "--now", options->now, "flip every bound graph before answering");
  add_text(app, "--timeout", options->timeout, "MS", "for flush (default 5000)");
  add_flag(app, "--json", options->json, "print the answer as it came");
  add_examples(app, kExamples);
  return [options](Console& console) { return control(*options, console); };
}

}  // namespace graphtap::cli
