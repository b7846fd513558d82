#include "support/faulty_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap::testing {
namespace {

constexpr std::size_t kGuard = 512;  // keeps the alignment of what lies between two of them
constexpr std::size_t kWindow = 64 << 10;
constexpr std::byte kGuardByte{0xA5};
constexpr std::byte kFreedByte{0xDD};
constexpr std::byte kFreshPinnedByte{0xCD};  // pinned memory is not promised to be zeroed
constexpr std::size_t kViolationsKept = 100;

Status lost() {
  return {Code::device_lost, "cudaErrorLaunchFailure: an earlier error lost the device"};
}

}  // namespace

FaultyDevice::FaultyDevice(std::shared_ptr<Device> inner, const FaultyOptions& options)
    : inner_(std::move(inner)), options_(options), faults_(~options.seed) {
  window_ = inner_->allocate_pinned(kWindow).value_or_throw();
  stream_ = inner_->create_stream().value_or_throw();
  event_ = inner_->create_event().value_or_throw();
}

FaultyDevice::~FaultyDevice() {
  for (const Exec exec : execs_) inner_->destroy_exec(exec);
  for (const Graph graph : graphs_) inner_->destroy_graph(graph);
  for (const Event event : events_) inner_->destroy_event(event);
  for (const Stream stream : streams_) inner_->destroy_stream(stream);
  for (const auto& [memory, block] : blocks_) release(memory, block);
  inner_->destroy_event(event_);
  inner_->destroy_stream(stream_);
  inner_->free_pinned(window_);
}

template <class Work>
auto FaultyDevice::guarded(Call call, Work work) -> decltype(work()) {
  calls_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
  if (faults_.lost()) {
    calls_after_loss_.fetch_add(1, std::memory_order_relaxed);
    return lost();
  }
  const Faults::Verdict verdict = faults_.judge(call);
  if (verdict.skip) return verdict.status;
  auto outcome = work();
  if (!verdict.status.ok()) return verdict.status;
  return outcome;
}

template <class Handle, class Work>
Result<Handle> FaultyDevice::making(Call call, std::set<Handle>& made, Work work) {
  return guarded(call, [&] {
    Result<Handle> result = work();
    if (result.ok()) {
      const std::lock_guard lock(mutex_);
      made.insert(result.value());
    }
    return result;
  });
}

template <class Handle>
bool FaultyDevice::forget(std::set<Handle>& made, Handle handle, const char* what) noexcept {
  if (handle == Handle{}) return false;
  const std::lock_guard lock(mutex_);
  if (made.erase(handle) != 0) return true;
  violation(
      fmt::format("{} {:#x} was destroyed twice or never made", what, std::uintptr_t(handle)));
  return false;
}

// --- Memory

Status FaultyDevice::through_window() {
  Status status = inner_->record(event_, stream_);
  return status.ok() ? inner_->synchronize(event_) : status;
}

Status FaultyDevice::fill(std::byte* memory, std::size_t bytes, Kind kind, std::byte value) {
  const auto byte = std::to_integer<int>(value);
  if (kind == Kind::pinned) {
    std::memset(memory, byte, bytes);
    return {};
  }
  const std::lock_guard lock(window_mutex_);
  std::memset(window_, byte, std::min(bytes, kWindow));
  for (std::size_t at = 0; at < bytes; at += kWindow) {
    Status status = inner_->upload(memory + at, window_, std::min(kWindow, bytes - at), stream_);
    if (!status.ok()) return status;
  }
  return through_window();
}

void FaultyDevice::check(std::byte* memory, std::size_t bytes, Kind kind, std::byte value,
                         const std::string& what) {
  const std::lock_guard lock(window_mutex_);
  for (std::size_t at = 0; at < bytes; at += kWindow) {
    const std::size_t length = std::min(kWindow, bytes - at);
    const std::byte* seen = memory + at;
    if (kind == Kind::device) {
      Status status = inner_->download(window_, memory + at, length, stream_);
      if (status.ok()) status = through_window();
      if (!status.ok())
        return violation(fmt::format("{} could not be read: {}", what, status.message()));
      seen = window_;
    }
    const std::byte* const wrong =
        std::find_if(seen, seen + length, [&](std::byte b) { return b != value; });
    if (wrong == seen + length) continue;
    return violation(fmt::format("{} was written to: byte {} is {:#04x}", what,
                                 at + std::size_t(wrong - seen),
                                 std::to_integer<unsigned>(*wrong)));
  }
}

Result<std::byte*> FaultyDevice::allocate(std::size_t bytes, Kind kind) {
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t limit = options_.memory_limit;
    if (kind == Kind::device && limit > 0 && bytes > limit - std::min(limit, device_bytes_)) {
      return Status(
          Code::exhausted,
          fmt::format("cudaErrorMemoryAllocation: {} bytes: over the test's limit", bytes));
    }
  }
  if (bytes == 0) return kind == Kind::device ? inner_->allocate(0) : inner_->allocate_pinned(0);
  const std::size_t all = kGuard + bytes + kGuard;
  auto allocated = kind == Kind::device ? inner_->allocate(all) : inner_->allocate_pinned(all);
  if (!allocated.ok()) return allocated;
  std::byte* const memory = allocated.value() + kGuard;
  Status status = fill(memory - kGuard, kGuard, kind, kGuardByte);
  if (status.ok()) status = fill(memory + bytes, kGuard, kind, kGuardByte);
  if (status.ok() && kind == Kind::pinned && options_.quarantine) {
    status = fill(memory, bytes, kind, kFreshPinnedByte);
  }
  const std::lock_guard lock(mutex_);
  blocks_[memory] = {.bytes = bytes, .kind = kind};
  if (kind == Kind::device) device_bytes_ += bytes;
  if (!status.ok()) return status;
  return memory;
}

void FaultyDevice::free(std::byte* memory, Kind kind) noexcept {
  if (memory == nullptr) return;
  Block block;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end() || !found->second.live || found->second.kind != kind ||
        found->second.retained) {
      return violation(
          fmt::format("free of {}, which is no live allocation of that kind", fmt::ptr(memory)));
    }
    found->second.live = false;
    if (kind == Kind::device) device_bytes_ -= found->second.bytes;
    block = found->second;
  }
  if (options_.quarantine) {
    // Behind a loss that was only pretended, work that was given to the device still runs: that is
    // no violation.
    const bool filled = !faults_.lost() && fill(memory, block.bytes, kind, kFreedByte).ok();
    const std::lock_guard lock(mutex_);
    blocks_[memory].filled = filled;
    return;
  }
  const std::string where =
      fmt::format("the memory around {} ({} bytes)", fmt::ptr(memory), block.bytes);
  check(memory - kGuard, kGuard, kind, kGuardByte, where + ", before it,");
  check(memory + block.bytes, kGuard, kind, kGuardByte, where + ", behind it,");
  {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
  }
  release(memory, block);
}

void FaultyDevice::release(std::byte* memory, const Block& block) noexcept {
  if (block.retained) return;  // the inner device's, for as long as it lives
  std::byte* const base = memory - kGuard;
  block.kind == Kind::device ? inner_->free(base) : inner_->free_pinned(base);
}

void FaultyDevice::retain(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end() || !found->second.live) {
    return violation(fmt::format("retain of {}, which is no live allocation", fmt::ptr(memory)));
  }
  if (!std::exchange(found->second.retained, true)) inner_->retain(memory - kGuard);
}

Result<std::byte*> FaultyDevice::allocate(std::size_t bytes) {
  return guarded(Call::allocate, [&] { return allocate(bytes, Kind::device); });
}
void FaultyDevice::free(std::byte* memory) noexcept { free(memory, Kind::device); }
Result<std::byte*> FaultyDevice::allocate_pinned(std::size_t bytes) {
  return guarded(Call::allocate_pinned, [&] { return allocate(bytes, Kind::pinned); });
}
void FaultyDevice::free_pinned(std::byte* memory) noexcept { free(memory, Kind::pinned); }

// --- Calls that are passed on

Result<Stream> FaultyDevice::create_stream() {
  return making(Call::create_stream, streams_, [&] { return inner_->create_stream(); });
}
void FaultyDevice::destroy_stream(Stream stream) noexcept {
  if (forget(streams_, stream, "stream")) inner_->destroy_stream(stream);
}
Result<Event> FaultyDevice::create_event() {
  return making(Call::create_event, events_, [&] { return inner_->create_event(); });
}
void FaultyDevice::destroy_event(Event event) noexcept {
  if (forget(events_, event, "event")) inner_->destroy_event(event);
}
Status FaultyDevice::record(Event event, Stream stream) {
  return guarded(Call::record, [&] { return inner_->record(event, stream); });
}
Status FaultyDevice::wait(Stream stream, Event event) {
  return guarded(Call::wait, [&] { return inner_->wait(stream, event); });
}
Result<bool> FaultyDevice::query(Event event) {
  return guarded(Call::query, [&] { return inner_->query(event); });
}
Status FaultyDevice::synchronize(Event event) {
  return guarded(Call::synchronize, [&] { return inner_->synchronize(event); });
}
Status FaultyDevice::upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                            Stream stream) {
  return guarded(Call::upload, [&] { return inner_->upload(device, pinned, bytes, stream); });
}
Status FaultyDevice::download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                              Stream stream) {
  return guarded(Call::download, [&] { return inner_->download(pinned, device, bytes, stream); });
}
Status FaultyDevice::zero(std::byte* device, std::size_t bytes, Stream stream) {
  return guarded(Call::zero, [&] { return inner_->zero(device, bytes, stream); });
}
Status FaultyDevice::close_step(wire::StepHeader* header, Stream stream) {
  return guarded(Call::close_step, [&] { return inner_->close_step(header, stream); });
}
Status FaultyDevice::produce(const ProducerCall& call, Stream stream) {
  return guarded(Call::produce, [&] { return inner_->produce(call, stream); });
}
Result<CaptureState> FaultyDevice::capture_state(Stream stream) {
  return guarded(Call::capture_state, [&] { return inner_->capture_state(stream); });
}
Result<Node> FaultyDevice::captured_tail(Stream stream) {
  return guarded(Call::captured_tail, [&] { return inner_->captured_tail(stream); });
}
Result<NodeInfo> FaultyDevice::inspect(Graph graph, Node node) {
  return guarded(Call::inspect, [&] { return inner_->inspect(graph, node); });
}
Status FaultyDevice::cloneable(Graph graph) {
  return guarded(Call::cloneable, [&] { return inner_->cloneable(graph); });
}
Result<Graph> FaultyDevice::clone(Graph graph) {
  return making(Call::clone, graphs_, [&] { return inner_->clone(graph); });
}
Result<Node> FaultyDevice::find_in_clone(Graph clone, Node original) {
  return guarded(Call::find_in_clone, [&] { return inner_->find_in_clone(clone, original); });
}
Status FaultyDevice::remove_node(Graph graph, Node node) {
  return guarded(Call::remove_node, [&] { return inner_->remove_node(graph, node); });
}
void FaultyDevice::destroy_graph(Graph graph) noexcept {
  if (forget(graphs_, graph, "graph")) inner_->destroy_graph(graph);
}
Result<Exec> FaultyDevice::instantiate(Graph graph, std::uint64_t flags) {
  return making(Call::instantiate, execs_, [&] {
    Result<Exec> exec = inner_->instantiate(graph, flags);
    if (exec.ok() && options_.count_nodes) {
      const std::size_t count = options_.count_nodes(graph);
      const std::lock_guard lock(mutex_);
      nodes_[exec.value()] = count;
    }
    return exec;
  });
}
void FaultyDevice::destroy_exec(Exec exec) noexcept {
  if (!forget(execs_, exec, "exec")) return;
  {
    const std::lock_guard lock(mutex_);
    nodes_.erase(exec);
  }
  inner_->destroy_exec(exec);
}
std::uint64_t FaultyDevice::exec_bytes(Exec exec) {
  return faults_.lost() ? 0 : inner_->exec_bytes(exec);
}
Status FaultyDevice::set_enabled(Exec exec, Node node, bool enabled) {
  return guarded(Call::set_enabled, [&] { return inner_->set_enabled(exec, node, enabled); });
}
Status FaultyDevice::launch(Exec exec, Stream stream) {
  return guarded(Call::launch, [&] { return inner_->launch(exec, stream); });
}

// --- What came of it

void FaultyDevice::violation(std::string what) {
  const std::lock_guard lock(violations_mutex_);
  if (violations_.size() < kViolationsKept) violations_.push_back(std::move(what));
}

std::vector<std::string> FaultyDevice::violations() {
  Blocks blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks = blocks_;
  }
  for (const auto& [memory, block] : blocks) {
    const std::string where =
        fmt::format("the memory around {} ({} {} bytes)", fmt::ptr(memory), block.bytes,
                    block.kind == Kind::device ? "device" : "pinned");
    check(memory - kGuard, kGuard, block.kind, kGuardByte, where + ", before it,");
    check(memory + block.bytes, kGuard, block.kind, kGuardByte, where + ", behind it,");
    if (block.filled) {
      check(memory, block.bytes, block.kind, kFreedByte,
            fmt::format("freed memory at {} ({} bytes)", fmt::ptr(memory), block.bytes));
    }
  }
  const std::lock_guard lock(violations_mutex_);
  return violations_;
}

void FaultyDevice::adopt(Graph graph) {
  const std::lock_guard lock(mutex_);
  graphs_.insert(graph);
}

std::uint64_t FaultyDevice::calls(Call call) const noexcept {
  return calls_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
}
std::uint64_t FaultyDevice::calls() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& count : calls_) sum += count.load(std::memory_order_relaxed);
  return sum;
}
std::vector<Stream> FaultyDevice::streams() const {
  const std::lock_guard lock(mutex_);
  return {streams_.begin(), streams_.end()};
}
std::size_t FaultyDevice::node_count(Exec exec) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(exec);
  return found == nodes_.end() ? 0 : found->second;
}
std::size_t FaultyDevice::live_graphs() const {
  const std::lock_guard lock(mutex_);
  return graphs_.size();
}
std::size_t FaultyDevice::live_execs() const {
  const std::lock_guard lock(mutex_);
  return execs_.size();
}
std::size_t FaultyDevice::live_events() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}
std::uint64_t FaultyDevice::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return device_bytes_;
}
std::size_t FaultyDevice::live_allocations() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(blocks_.begin(), blocks_.end(),
                    [](const auto& entry) { return entry.second.live && !entry.second.retained; }));
}

}  // namespace graphtap::testing
