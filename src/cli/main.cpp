#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>

#include "cli/app.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // Standard output is for results; warnings of the library belong beside the command's own.
  spdlog::set_default_logger(spdlog::stderr_color_mt("graphtap"));
  spdlog::set_pattern("graphtap: %^%l%$: %v");
  graphtap::cli::Console console{std::cin, std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return static_cast<int>(graphtap::cli::run_command({argv + 1, argv + argc}, console));
}
