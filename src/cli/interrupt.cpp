#include "cli/interrupt.hpp"

#include <csignal>
#include <initializer_list>

namespace graphtap::cli {
namespace {

volatile std::sig_atomic_t asked_to_end = 0;

void on_signal(int signal) {
  asked_to_end = 1;
  (void)std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  asked_to_end = 0;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  (void)std::signal(SIGINT, SIG_DFL);
  (void)std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::asked() noexcept { return asked_to_end != 0; }

}  // namespace graphtap::cli
