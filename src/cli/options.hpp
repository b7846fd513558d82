#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/exit_codes.hpp"

namespace CLI {
class App;
}

namespace graphtap::cli {

/// What a subcommand does once its options have been read.
using Action = std::function<Exit(Console&)>;

/// Options with a value. The text is kept as typed; subcommands read it with values.hpp when they
/// run, so that every message has one wording. `kind` stands for the value in the help ("N",
/// "SIZE").
void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& kind,
              const std::string& help);
void add_text(CLI::App& app, const std::string& name, std::optional<std::string>& value,
              const std::string& kind, const std::string& help);
/// May be given several times, one value each.
void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& kind, const std::string& help);
/// A word without a name that has to be there, such as the store's directory.
void add_word(CLI::App& app, const std::string& name, std::string& value, const std::string& help);
/// One that may be left out.
void add_optional_word(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                       const std::string& help);
/// One or more of them.
void add_words(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& help);
void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& help);
/// Shown below the options in the help.
void add_examples(CLI::App& app, const std::string& text);

}  // namespace graphtap::cli
