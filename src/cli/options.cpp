#include "cli/options.hpp"

#include <CLI/CLI.hpp>

namespace graphtap::cli {
void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& kind,
              const std::string& help) {
  const std::string start = value;
  CLI::Option* option = app.add_option_function<std::string>(
      name, [&value](const std::string& text) { value = text; }, help);
  option->type_name(kind);
  if (!start.empty()) option->default_str(start);
}

void add_text(CLI::App& app, const std::string& name, std::optional<std::string>& value,
              const std::string& kind, const std::string& help) {
  CLI::Option* option = app.add_option_function<std::string>(
      name, [&value](const std::string& text) { value = text; }, help);
  option->type_name(kind);
}

void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& kind, const std::string& help) {
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(
      name, [&values](const std::vector<std::string>& texts) { values = texts; }, help);
  option->type_name(kind)->allow_extra_args(false);
}

void add_word(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  app.add_option(name, value, help)->required()->type_name("");
}

void add_optional_word(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                       const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = text; }, help)
      ->type_name("");
}

void add_words(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& help) {
  app.add_option(name, values, help)->required()->type_name("");
}

void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  app.add_flag(name, value, help);
}

void add_examples(CLI::App& app, const std::string& text) { app.footer(text); }

}  // namespace graphtap::cli
