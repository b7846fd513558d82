#include "cli/app.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <set>

#include "base/near_match.hpp"
#include "cli/subcommands.hpp"
#include "graphtap/status.hpp"
#include "graphtap/version.hpp"

namespace graphtap::cli {
namespace {

constexpr const char* kTour = R"(A tour:
  graphtap graph                                  see hooks switched on captured graphs
  graphtap run --prompt "The capital of France is" --store s
                                                  a real model, every hook captured
  graphtap run --prompt-file questions.txt --at 8:resid_pre:20-29 --at 24:none --store s
                                                  switch while it generates
  graphtap ls s; graphtap verify s --deep         what is there, and is it whole
  graphtap report s --out report.html             look at it

Selections:
  resid_pre            a hook in all layers         resid_pre:24-27    in some
  q,k,v:0,4,8          several hooks                full,-pattern      all but one
  none                 nothing                      residual @decode   a preset, decoding only
)";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string unknown_subcommand(const std::string& word) {
  std::vector<std::string_view> names;
  for (const Subcommand& subcommand : subcommands()) names.push_back(subcommand.name);
  const std::string hint = did_you_mean(word, names);
  return fmt::format("{} is no subcommand{} (there are {})", in_quotes(word), hint,
                     fmt::join(names, ", "));
}

/// The arguments of one subcommand as CLI11 should see them. Errors (thrown): an unknown option,
/// with near matches; one given twice that takes one value.
std::vector<std::string> checked_arguments(const CLI::App& app,
                                           const std::vector<std::string>& arguments) {
  std::vector<std::string> checked;
  std::set<const CLI::Option*> seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      checked.insert(checked.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                     arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      checked.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option = app.get_option_no_throw(name);
    if (!option) {
      std::vector<std::string> names;
      for (const CLI::Option* known : app.get_options()) {
        for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
      }
      const std::vector<std::string_view> views(names.begin(), names.end());
      throw Error(Code::invalid_argument, fmt::format("{} has no option {}{}", app.get_name(),
                                                      in_quotes(name), did_you_mean(name, views)));
    }
    const bool takes_value = option->get_items_expected_max() > 0;
    const bool repeatable = !takes_value || option->get_items_expected_max() > 1;
    if (!repeatable && !seen.insert(option).second) {
      throw Error(Code::invalid_argument, fmt::format("{} is given twice", name));
    }
    if (!takes_value && equals != std::string::npos) {
      throw Error(Code::invalid_argument, fmt::format("{} takes no value", name));
    }
    if (takes_value &&
        equals == argument.size() - 1) {  // "--hooks=": an empty value, not the next word
      checked.push_back(name);
      checked.emplace_back();
      continue;
    }
    checked.push_back(argument);
    if (takes_value && equals == std::string::npos && i + 1 < arguments.size()) {
      const std::string& value = arguments[i + 1];  // CLI11 would take the next option for it
      if (value.size() > 1 && value[0] == '-' && app.get_option_no_throw(value)) {
        throw Error(Code::invalid_argument,
                    fmt::format("{} lacks its value: {} is an option itself (write {}={} if you "
                                "mean it)",
                                name, value, name, value));
      }
      checked.push_back(value);
      ++i;
    }
  }
  return checked;
}

std::string exit_code_line() {
  std::string line = "Exit codes:";
  for (const ExitMeaning& meaning : exit_meanings()) {
    line += fmt::format(" {} {}{}", static_cast<int>(meaning.exit), meaning.name,
                        meaning.exit == exit_meanings().back().exit ? "" : ",");
  }
  return line + " (see docs/exit-codes.md)\n";
}

/// The parser for one call: all subcommands with their options, and what each would do.
struct Parser {
  CLI::App app{"Look inside a running language model, and pay only for what you look at."};
  std::vector<std::pair<CLI::App*, Action>> actions;

  Parser() {
    app.name("graphtap");
    app.set_version_flag("--version", fmt::format("graphtap {}", version()), "Print the version");
    app.require_subcommand(1);
    app.footer(std::string(kTour) + "\n" + exit_code_line() +
               "Every subcommand explains itself: graphtap SUBCOMMAND --help");
    app.get_formatter()->column_width(34);
    for (const Subcommand& subcommand : subcommands()) {
      CLI::App* part =
          app.add_subcommand(std::string(subcommand.name), std::string(subcommand.summary));
      actions.emplace_back(part, subcommand.setup(*part));
    }
  }

  /// What is to be done, or nothing after help or the version was printed.
  Action parse(std::vector<std::string> arguments, Console& console) {
    CLI::App* wanted = nullptr;
    for (const auto& [part, action] : actions) {
      if (part->get_name() == arguments[0]) wanted = part;
    }
    if (!wanted && arguments[0][0] != '-') {
      throw Error(Code::invalid_argument, unknown_subcommand(arguments[0]));
    }
    if (wanted) {
      auto rest = checked_arguments(*wanted, {arguments.begin() + 1, arguments.end()});
      arguments.resize(1);
      arguments.insert(arguments.end(), rest.begin(), rest.end());
    }
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      console.out << (wanted ? wanted : &app)->help(wanted ? "graphtap" : "");
      return {};
    } catch (const CLI::CallForVersion& version) {
      console.out << version.what() << '\n';
      return {};
    } catch (const CLI::ParseError& error) {
      const std::string where = wanted ? " " + wanted->get_name() : "";
      throw Error(Code::invalid_argument,
                  fmt::format("{}; see graphtap{} --help", first_line(error.what()), where));
    }
    for (const auto& [part, action] : actions) {
      if (part->parsed()) return action;
    }
    return {};
  }
};

Exit run(std::vector<std::string> arguments, Console& console) {
  if (!arguments.empty() && arguments[0] == "help") {  // "help run" is "run --help"
    arguments.erase(arguments.begin());
    if (arguments.size() > 1) arguments.resize(1);
    arguments.emplace_back("--help");
  }
  Parser parser;
  if (arguments.empty() || arguments[0].empty()) {
    console.err << parser.app.help();
    return Exit::usage;
  }
  const Action action = parser.parse(std::move(arguments), console);
  return action ? action(console) : Exit::ok;
}

}  // namespace

Exit run_command(std::vector<std::string> arguments, Console& console) {
  Exit exit = Exit::internal;
  try {
    exit = run(std::move(arguments), console);
    if (!console.out.flush()) {
      throw Error(Code::io_error, "the output could not be written (is the disk full?)");
    }
  } catch (const Error& error) {
    console.err << "graphtap: " << error.what() << '\n';
    exit = exit_for(error.code());
  } catch (const std::bad_alloc&) {
    console.err << "graphtap: out of memory\n";
    exit = Exit::exhausted;
  } catch (const std::exception& error) {
    console.err << "graphtap: this should not happen: " << error.what() << '\n';
  }
  return exit;
}

}  // namespace graphtap::cli
