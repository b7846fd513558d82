#include "device/host/faults.hpp"

#include <fmt/format.h>

namespace graphtap {
namespace {

constexpr std::array<const char*, kCalls> kNames{
    "allocate",      "allocate_pinned", "create_stream", "create_event", "record",    "wait",
    "query",         "synchronize",     "upload",        "download",     "zero",      "close_step",
    "produce",       "capture_state",   "captured_tail", "inspect",      "cloneable", "clone",
    "find_in_clone", "remove_node",     "instantiate",   "set_enabled",  "launch"};
static_assert(static_cast<std::size_t>(Call::launch) + 1 == kCalls);

// The name CUDA would most likely give, so that whoever reads the message knows what to look up.
const char* cuda_name(Call call) {
  switch (call) {
    case Call::allocate:
    case Call::allocate_pinned:
    case Call::instantiate:
    case Call::clone:
      return "cudaErrorMemoryAllocation";
    case Call::launch:
    case Call::produce:
      return "cudaErrorLaunchOutOfResources";
    case Call::capture_state:
    case Call::captured_tail:
      return "cudaErrorStreamCaptureInvalidated";
    case Call::set_enabled:
    case Call::inspect:
    case Call::cloneable:
    case Call::find_in_clone:
    case Call::remove_node:
      return "cudaErrorInvalidValue";
    default:
      return "cudaErrorUnknown";
  }
}

}  // namespace

const char* to_string(Call call) noexcept { return kNames[static_cast<std::size_t>(call)]; }

const char* to_string(FaultMode mode) noexcept {
  switch (mode) {
    case FaultMode::before:
      return "before";
    case FaultMode::after:
      return "after";
    case FaultMode::sticky:
      return "sticky";
  }
  return "unknown";
}

void Faults::fail_next(Call call, unsigned count, FaultMode mode, unsigned skip) {
  const std::lock_guard lock(mutex_);
  Order& order = orders_[static_cast<std::size_t>(call)];
  order.skip = skip;
  order.count = count;
  order.mode = mode;
  armed_.store(true, std::memory_order_release);
}

void Faults::set_rate(Call call, double probability, FaultMode mode) {
  const std::lock_guard lock(mutex_);
  orders_[static_cast<std::size_t>(call)].rate[static_cast<std::size_t>(mode)] = probability;
  armed_.store(true, std::memory_order_release);
}

void Faults::clear() {
  const std::lock_guard lock(mutex_);
  orders_ = {};
  armed_.store(false, std::memory_order_release);
}

std::uint64_t Faults::injected(Call call, FaultMode mode) const {
  const std::lock_guard lock(mutex_);
  return injected_[static_cast<std::size_t>(call)][static_cast<std::size_t>(mode)];
}

std::uint64_t Faults::injected() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& of_call : injected_) {
    for (const std::uint64_t count : of_call) sum += count;
  }
  return sum;
}

Faults::Verdict Faults::judge(Call call) {
  if (!armed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  Order& order = orders_[static_cast<std::size_t>(call)];
  bool fails = false;
  FaultMode mode = order.mode;
  if (order.count > 0) {
    if (order.skip > 0) {
      --order.skip;
    } else {
      --order.count;
      fails = true;
    }
  }
  for (std::size_t i = 0; i < kFaultModes && !fails; ++i) {
    if (order.rate[i] > 0 && random_.chance(order.rate[i])) {
      fails = true;
      mode = static_cast<FaultMode>(i);
    }
  }
  if (!fails) return {};

  ++injected_[static_cast<std::size_t>(call)][static_cast<std::size_t>(mode)];
  Verdict verdict;
  verdict.skip = mode != FaultMode::after;
  if (mode == FaultMode::sticky) {
    verdict.newly_lost = !lost_.exchange(true, std::memory_order_acq_rel);
    verdict.status = {Code::device_lost,
                      fmt::format("cudaErrorLaunchFailure (injected, {})", to_string(call))};
  } else {
    const bool memory = call == Call::allocate || call == Call::allocate_pinned;
    verdict.status = {memory ? Code::exhausted : Code::device_error,
                      fmt::format("{} (injected, {})", cuda_name(call), to_string(call))};
  }
  return verdict;
}

}  // namespace graphtap
