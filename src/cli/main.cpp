#include <unistd.h>

#include <iostream>

#include "cli/app.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  graphtap::cli::Console console{std::cin, std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return static_cast<int>(graphtap::cli::run_command({argv + 1, argv + argc}, console));
}
