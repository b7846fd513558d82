#pragma once
#include "device/host/host_device.hpp"

namespace graphtap {

template <class Work>
auto HostDevice::guarded(Call call, Work work) -> decltype(work()) {
  const Faults::Verdict verdict = enter(call);
  if (verdict.skip) return verdict.status;
  auto outcome = work();
  if (!verdict.status.ok()) return verdict.status;
  return outcome;
}

[[nodiscard]] inline Status device_lost() {
  return {Code::device_lost, "cudaErrorLaunchFailure: an earlier error lost the device"};
}

}  // namespace graphtap
