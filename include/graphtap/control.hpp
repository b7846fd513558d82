#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "graphtap/status.hpp"

namespace graphtap {

class Monitor;

struct ControlOptions {
  std::filesystem::path socket;  ///< of a Unix socket; made with mode 0600, removed at the end
  /// When not empty, every request must carry it. Besides, only processes of this user (or root)
  /// are heard.
  std::string token;
};

/// Lets other processes of the same user switch a monitor's hooks (requirement A19).
///
/// One JSON object a line in, one a line out: {"command": …, "token": …, …} → {"ok": true, …} or
/// {"ok": false, "code": "invalid_argument", "error": "…"}. Commands:
///   enable  selection, apply ("at_next_launch" | "now")    the default lease
///   watch   name, selection, requests[], windows[[begin, end, "sequence" | "response"]], priority
///   unwatch name
///   enabled, hooks, stats
///   flush   timeout_ms (at most 60,000)
/// Leases taken by `watch` last until `unwatch` or the server ends. Serves from one thread of its
/// own.
class ControlServer {
 public:
  /// `monitor` must outlive the server. Errors: invalid_argument (a path too long for a socket),
  /// unavailable (another server listens there, or something that is no socket lies there),
  /// io_error.
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> start(Monitor& monitor,
                                                                    ControlOptions options);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Sends one request line (a JSON object) and returns the answer's line. Errors: not_found (no
/// socket there), unavailable (nobody listens, or the server hung up), timeout, io_error.
[[nodiscard]] Result<std::string> control_request(const std::filesystem::path& socket,
                                                  std::string_view request,
                                                  std::chrono::milliseconds timeout);

}  // namespace graphtap
