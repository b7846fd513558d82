#pragma once

namespace graphtap::cli {

/// While one lives, the first SIGINT or SIGTERM only asks for an end; the next one kills, as usual.
/// One at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool asked() noexcept;
};

}  // namespace graphtap::cli
