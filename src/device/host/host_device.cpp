#include "device/host/host_device.hpp"

#include <fmt/format.h>

#include "device/host/capture.hpp"
#include "device/host/executor.hpp"
#include "device/host/graph_store.hpp"
#include "device/host/guarded.hpp"
#include "device/host/interpreter.hpp"
#include "device/host/memory.hpp"
#include "device/host/producer.hpp"
#include "device/validate.hpp"

namespace graphtap {
namespace {

Status captured_event() {
  return {Code::device_error, "cudaErrorCapturedEvent: the event was last recorded in a capture"};
}

}  // namespace

std::shared_ptr<Device> make_host_device() { return std::make_shared<HostDevice>(); }

HostDevice::HostDevice(const HostOptions& options)
    : name_(options.mode == HostMode::threaded
                ? "host (threaded)"
                : fmt::format("host (cooperative, seed {})", options.seed)),
      faults_(~options.seed),
      memory_(std::make_unique<DeviceMemory>(options.quarantine, options.memory_limit)),
      interpreter_(std::make_unique<Interpreter>(
          *memory_, [this](std::size_t choices) { return executor_->choose(choices); })),
      graphs_(std::make_unique<GraphStore>()),
      captures_(std::make_unique<Captures>(*graphs_)),
      events_(std::make_unique<Events>()),
      executor_(options.mode == HostMode::threaded
                    ? make_threaded_executor()
                    : make_cooperative_executor(options.seed, options.advance)) {}

HostDevice::~HostDevice() = default;

std::string HostDevice::describe() const { return name_; }

Faults::Verdict HostDevice::enter(Call call) {
  calls_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
  if (faults_.lost()) {
    calls_after_loss_.fetch_add(1, std::memory_order_relaxed);
    return {true, device_lost(), false};
  }
  executor_->tick();
  Faults::Verdict verdict = faults_.judge(call);
  if (verdict.newly_lost) executor_->lose();
  return verdict;
}

Status HostDevice::check_stream(Stream stream) const {
  if (executor_->has_stream(stream)) return {};
  return {Code::invalid_argument,
          fmt::format("cudaErrorInvalidResourceHandle: stream {} was destroyed or never was",
                      std::uintptr_t(stream))};
}

// --- Memory

Result<std::byte*> HostDevice::allocate(std::size_t bytes) {
  return guarded(Call::allocate,
                 [&] { return memory_->allocate(bytes, DeviceMemory::Kind::device); });
}
void HostDevice::free(std::byte* memory) noexcept {
  memory_->free(memory, DeviceMemory::Kind::device);
}
void HostDevice::retain(std::byte* memory) noexcept { memory_->retain(memory); }
Result<std::byte*> HostDevice::allocate_pinned(std::size_t bytes) {
  return guarded(Call::allocate_pinned,
                 [&] { return memory_->allocate(bytes, DeviceMemory::Kind::pinned); });
}
void HostDevice::free_pinned(std::byte* memory) noexcept {
  memory_->free(memory, DeviceMemory::Kind::pinned);
}

// --- Streams and events

Result<Stream> HostDevice::create_stream() {
  return guarded(Call::create_stream, [&] { return executor_->create_stream(); });
}

void HostDevice::destroy_stream(Stream stream) noexcept {
  {
    const std::lock_guard lock(mutex_);
    captures_->leave(stream);
  }
  executor_->destroy_stream(stream);
}

Result<Event> HostDevice::create_event() {
  return guarded(Call::create_event, [&]() -> Result<Event> {
    const std::lock_guard lock(mutex_);
    return events_->create();
  });
}

void HostDevice::destroy_event(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  events_->destroy(event);
}

Status HostDevice::record(Event event, Stream stream) {
  return guarded(Call::record, [&]() -> Status {
    if (Status status = check_stream(stream); !status.ok()) return status;
    {
      const std::lock_guard lock(mutex_);
      const auto state = events_->need(event);
      if (!state.ok()) return state.status();
      if (captures_->capturing(stream)) return captures_->mark(stream, *state.value());
    }
    const auto point = std::make_shared<Point>();
    executor_->enqueue(stream, {nullptr, nullptr, point});
    const std::lock_guard lock(mutex_);
    if (EventState* state = events_->find(event)) *state = {point, 0, {}};
    return {};
  });
}

Status HostDevice::wait(Stream stream, Event event) {
  return guarded(Call::wait, [&]() -> Status {
    if (Status status = check_stream(stream); !status.ok()) return status;
    PointRef point;
    {
      const std::lock_guard lock(mutex_);
      const auto state = events_->need(event);
      if (!state.ok()) return state.status();
      if (state.value()->capture != 0) return captures_->join(stream, *state.value());
      point = state.value()->point;
      if (point && captures_->capturing(stream)) {
        return captures_->refuse(
            stream, "cudaErrorStreamCaptureIsolation: a wait for work outside of the capture");
      }
    }
    if (point) executor_->enqueue(stream, {point, nullptr, nullptr});
    return {};
  });
}

Result<bool> HostDevice::query(Event event) {
  return guarded(Call::query, [&]() -> Result<bool> {
    PointRef point;
    {
      const std::lock_guard lock(mutex_);
      const auto state = events_->need(event);
      if (!state.ok()) return state.status();
      if (state.value()->capture != 0) return captured_event();
      point = state.value()->point;
    }
    return !point || executor_->complete(point);
  });
}

Status HostDevice::synchronize(Event event) {
  return guarded(Call::synchronize, [&]() -> Status {
    PointRef point;
    {
      const std::lock_guard lock(mutex_);
      const auto state = events_->need(event);
      if (!state.ok()) return state.status();
      if (state.value()->capture != 0) return captured_event();
      point = state.value()->point;
    }
    if (point) executor_->wait_for(point);
    if (faults_.lost()) return device_lost();
    if (point && !executor_->complete(point)) {
      return {Code::device_error, "cudaErrorNotPermitted: a kernel waits for its own stream"};
    }
    return {};
  });
}

// --- Work in stream order

Status HostDevice::submit(Stream stream, NodeBody body) {
  if (Status status = check_stream(stream); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    if (captures_->capturing(stream)) return captures_->add(stream, std::move(body)).status();
  }
  executor_->enqueue(stream, {nullptr, interpreter_->steps_of(std::move(body)), nullptr});
  return {};
}

Status HostDevice::upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                          Stream stream) {
  return guarded(Call::upload, [&] {
    return submit(stream, {CopyBody{device, pinned, bytes, true, false}});
  });
}

Status HostDevice::download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                            Stream stream) {
  return guarded(Call::download, [&] {
    return submit(stream, {CopyBody{pinned, device, bytes, false, true}});
  });
}

Status HostDevice::zero(std::byte* device, std::size_t bytes, Stream stream) {
  return guarded(Call::zero, [&] {
    return submit(stream, {FillBody{device, std::byte{0}, bytes}});
  });
}

Status HostDevice::close_step(wire::StepHeader* header, Stream stream) {
  return guarded(Call::close_step, [&] { return submit(stream, {CloseBody{header}}); });
}

Status HostDevice::produce(const ProducerCall& call, Stream stream) {
  return guarded(Call::produce, [&] {
    Status status = validate(call);
    return status.ok() ? submit(stream, {call}) : status;
  });
}

Status HostDevice::compute(Stream stream, std::function<void()> kernel) {
  if (faults_.lost()) return device_lost();
  executor_->tick();
  return submit(stream, {ComputeBody{std::move(kernel)}});
}

Status HostDevice::copy(Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (faults_.lost()) return device_lost();
  executor_->tick();
  return submit(stream, {CopyBody{to, from, bytes, true, true}});
}

Status HostDevice::fill(Stream stream, std::byte* memory, std::byte value, std::size_t bytes) {
  if (faults_.lost()) return device_lost();
  executor_->tick();
  return submit(stream, {FillBody{memory, value, bytes}});
}

// --- Time, progress and counts

std::uint64_t HostDevice::now_ns() const noexcept { return executor_->now_ns(); }
void HostDevice::idle() noexcept { executor_->idle(); }
bool HostDevice::run_one() { return executor_->run_one(); }
void HostDevice::run_until_idle() { executor_->run_until_idle(); }
std::size_t HostDevice::pending(Stream stream) const { return executor_->pending(stream); }
void HostDevice::set_advance(double probability) { executor_->set_advance(probability); }

std::uint64_t HostDevice::calls(Call call) const noexcept {
  return calls_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
}
std::uint64_t HostDevice::calls() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& count : calls_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t HostDevice::containment_violations() const { return memory_->violation_count(); }
std::vector<std::string> HostDevice::violations() const { return memory_->violations(); }
std::uint64_t HostDevice::allocated_bytes() const { return memory_->allocated_bytes(); }
std::size_t HostDevice::live_allocations() const { return memory_->live_allocations(); }
std::uint64_t HostDevice::producers_run() const noexcept { return interpreter_->producers_run(); }
std::size_t HostDevice::live_events() const {
  const std::lock_guard lock(mutex_);
  return events_->size();
}

}  // namespace graphtap
