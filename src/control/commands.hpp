#pragma once
#include <map>
#include <string>
#include <string_view>

#include "graphtap/lease.hpp"

namespace graphtap {

class Monitor;

/// Carries out request lines on a monitor; holds the leases they took. Not thread-safe.
class ControlCommands {
 public:
  ControlCommands(Monitor& monitor, std::string token)
      : monitor_(monitor), token_(std::move(token)) {}

  /// The answer to one request line, without a newline. Never throws: everything wrong is an
  /// answer.
  [[nodiscard]] std::string answer(std::string_view line);

 private:
  Monitor& monitor_;
  const std::string token_;
  std::map<std::string, Lease> leases_;
};

}  // namespace graphtap
