#pragma once
#include <span>
#include <string_view>

#include "cli/options.hpp"

namespace graphtap::cli {

// One file each: cmd_<name>.cpp. A setup adds options and examples to its part of the command line.
Action setup_run(CLI::App& app);
Action setup_graph(CLI::App& app);
Action setup_ls(CLI::App& app);
Action setup_show(CLI::App& app);
Action setup_verify(CLI::App& app);
Action setup_report(CLI::App& app);
Action setup_ctl(CLI::App& app);
Action setup_index(CLI::App& app);
Action setup_export(CLI::App& app);
Action setup_import(CLI::App& app);
Action setup_query(CLI::App& app);

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  Action (*setup)(CLI::App& app);
};

/// Every subcommand, in the order in which the help lists them.
[[nodiscard]] std::span<const Subcommand> subcommands() noexcept;

}  // namespace graphtap::cli
