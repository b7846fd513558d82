#pragma once
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/app.hpp"

namespace graphtap::cli {

/// The command called in this process.
struct CommandResult {
  Exit exit = Exit::internal;
  std::string out, err;
};
inline CommandResult call(std::vector<std::string> arguments, const std::string& input = {}) {
  std::istringstream in(input);
  std::ostringstream out, err;
  Console console{in, out, err, false};
  const Exit exit = run_command(std::move(arguments), console);
  return {exit, out.str(), err.str()};
}

/// A directory of its own that goes with it.
class TempDir {
 public:
  TempDir() {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() /
            ("graphtap-cli-" + std::to_string(random()) + std::to_string(random()));
    std::filesystem::create_directories(path_);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace graphtap::cli
