#include "monitor/monitor_core.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "monitor/lane_core.hpp"

namespace graphtap {
namespace {

std::uint64_t random_nonce() {
  std::random_device source;
  return (std::uint64_t{source()} << 32) ^ source();
}

MonitorOptions checked(MonitorOptions options, const HookTable& table) {
  if (options.active.universe() == 0) options.active = table.all();
  if (options.active.universe() != table.size()) {
    throw Error(Code::invalid_argument, "MonitorOptions::active is a set over another hook table");
  }
  if (options.staging_bytes == 0) options.staging_bytes = options.ring_bytes;
  if (options.sink_queue_bytes == 0) options.sink_queue_bytes = options.staging_bytes / 2;
  const std::uint64_t least = frame_prologue(StepKind::graph, table.slots()) + 4096;
  for (const auto& [name, bytes] : {std::pair{"ring_bytes", options.ring_bytes},
                                    std::pair{"staging_bytes", options.staging_bytes}}) {
    if (bytes < least || bytes % wire::kAlign != 0) {
      throw Error(Code::invalid_argument,
                  std::string("MonitorOptions::") + name + " is " + std::to_string(bytes) +
                      "; it must be a multiple of 16 and at least " + std::to_string(least) +
                      " for a table of " + std::to_string(table.size()) + " hooks");
    }
  }
  if (options.space_timeout.count() < 0) {
    throw Error(Code::invalid_argument, "MonitorOptions::space_timeout is negative");
  }
  if (options.header_slots == 0) {
    throw Error(Code::invalid_argument, "MonitorOptions::header_slots must be at least 1");
  }
  if (!options.switching) options.tier = GateTier::soft;
  return options;
}

std::vector<std::string> names_of(const HookTable& table) {
  std::vector<std::string> names;
  for (const Hook& hook : table.hooks()) names.push_back(hook.name);
  return names;
}

}  // namespace

std::shared_ptr<MonitorCore> MonitorCore::make(std::shared_ptr<Device> device, HookTable table,
                                               MonitorOptions options,
                                               std::vector<std::shared_ptr<Sink>> sinks) {
  options = checked(std::move(options), table);
  std::shared_ptr<MonitorCore> core(
      new MonitorCore(std::move(device), std::move(table), std::move(options)));
  core->start(std::move(sinks));
  return core;
}

MonitorCore::MonitorCore(std::shared_ptr<Device> device_in, HookTable table_in,
                         MonitorOptions options_in)
    : device(std::move(device_in)),
      shared_table(std::make_shared<const HookTable>(std::move(table_in))),
      table(*shared_table),
      options(std::move(options_in)),
      leases(LeaseBook::make(options.active)),
      events(*device),
      accounts(table.size()),
      planner(
          std::make_unique<Planner>(table, options.active, options.eager, options.max_gather_rows)),
      chunked_(table.size()) {}

MonitorCore::~MonitorCore() {
  (void)close(0);  // the facade has closed it with a deadline
  if (drain_ && lost()) events.forget();
}

void MonitorCore::start(std::vector<std::shared_ptr<Sink>> sinks) {
  const Selection selection =
      Selection::parse(options.selection, table.catalogue()).value_or_throw();
  LeaseSpec spec;
  spec.name = "default";
  spec.hooks = options.active;
  if (options.switching && !selection.is_default()) {
    spec.hooks = selection.resolve(table).value_or_throw();
  }
  if (options.switching) spec.sampling = selection.sampling();
  default_lease_ = leases->add(std::move(spec)).value_or_throw();

  for (const auto& sink : sinks) {
    if (!sink) throw Error(Code::invalid_argument, "a sink is null");
  }
  ring_ = make_ring(options.ring_bytes).value_or_throw();
  staging_ = make_staging(options.staging_bytes).value_or_throw();
  while (copy_streams_.size() < Copier::kStreams) {
    copy_streams_.push_back(device->create_stream().value_or_throw());
  }

  GateOptions gate;
  gate.hook_names = names_of(table);
  gate.tier = options.tier;
  gate.settle_launches = options.settle_launches;
  gate.specialised_budget_bytes = options.specialised_budget_bytes;
  gate.manual = options.manual;
  registry = Registry::make(device, std::move(gate));

  for (auto& sink : sinks) {
    sinks_.push_back(std::make_unique<SinkRunner>(
        std::move(sink), options.retry, options.sink_queue_bytes, options.manual,
        [clock = device.get()] { return clock->now_ns(); }, SinkRunner::OnLost{},
        [this] { wake(); }));
  }
  drain_ = std::make_unique<Drain>(
      DrainParts{*device, events, shared_table, staging_, accounts, ledger, outstanding, lost_,
                 sinks_},
      options.ranks, static_cast<std::uint64_t>(options.space_timeout.count()), copy_streams_);
  if (!options.manual) thread_ = std::thread([this] { drain_loop(); });
}

Result<std::shared_ptr<FrameRing>> MonitorCore::make_ring(std::uint64_t bytes) {
  Result<std::byte*> memory = device->allocate(bytes);
  if (!memory.ok()) return memory.status();
  return FrameRing::make(
      memory.value(), bytes, random_nonce(),
      [keep = device, lost = lost_](std::byte* m) {
        if (!lost->load(std::memory_order_acquire)) keep->free(m);
      },
      [keep = device](std::byte* m) { keep->retain(m); });
}

Result<std::shared_ptr<FrameRing>> MonitorCore::make_staging(std::uint64_t bytes) {
  Result<std::byte*> memory = device->allocate_pinned(bytes);
  if (!memory.ok()) return memory.status();
  return FrameRing::make(memory.value(), bytes, 0,
                         [keep = device](std::byte* m) { keep->free_pinned(m); });
}

// ---- background work

bool MonitorCore::pump_drain() {
  const std::lock_guard lock(pump_mutex_);
  notice_loss();
  const bool moved = drain_->pump();
  if (drain_->device_lost()) registry->device_lost();
  return moved;
}

bool MonitorCore::pump() {
  bool moved = pump_drain();
  moved |= registry->pump();
  for (const auto& sink : sinks_) moved |= sink->pump();
  return moved;
}

void MonitorCore::drain_loop() {
  std::uint64_t seen = 0;
  while (!stopped_.load(std::memory_order_acquire)) {
    if (pump_drain()) {
      wake();  // whoever waits for a flush
      continue;
    }
    if (!drain_->resting()) {
      device->idle();
      continue;
    }
    std::unique_lock lock(wake_mutex_);
    wake_.wait(lock, [&] { return wakes_ != seen || stopped_.load(std::memory_order_acquire); });
    seen = wakes_;
  }
}

void MonitorCore::wake() noexcept {
  {
    const std::lock_guard lock(wake_mutex_);
    ++wakes_;
  }
  wake_.notify_all();
}

std::uint64_t MonitorCore::deadline_after(std::uint64_t nanoseconds) const noexcept {
  const std::uint64_t now = device->now_ns();
  return nanoseconds > UINT64_MAX - now ? UINT64_MAX : now + nanoseconds;
}

bool MonitorCore::wait_until(const std::function<bool()>& done, std::uint64_t deadline_ns) {
  while (!done()) {
    if (device->now_ns() >= deadline_ns) return done();
    if (options.manual) {
      if (!pump()) device->idle();
      continue;
    }
    std::unique_lock lock(wake_mutex_);
    // Woken by every delivery and every sink; the slice covers what changes without telling us.
    wake_.wait_for(lock, std::chrono::milliseconds(2));
  }
  return true;
}

void MonitorCore::hand_over(EndedFrame frame) {
  drain_->add(std::move(frame));
  if (!options.manual) wake();
}

void MonitorCore::note_error(const Status& status) {
  drain_->note_error(status);
  if (status.code() == Code::device_lost) registry->device_lost();
}

void MonitorCore::notice_loss() {
  if (lost_->load(std::memory_order_acquire) || !registry->is_device_lost()) return;
  note_error({Code::device_lost, registry->totals().last_error});
}

// ---- requests and switching

Request MonitorCore::begin_request(std::string id, std::int64_t prompt_tokens) {
  auto info = std::make_shared<RequestInfo>();
  info->serial = next_request_.fetch_add(1, std::memory_order_relaxed);
  info->id = std::move(id);
  info->prompt_tokens = prompt_tokens;
  progress.begin(info->serial);
  Request request = std::move(info);
  request_event({RequestEvent::Kind::begun, request, 0, 0, true, 0, 0}, false);
  return request;
}

void MonitorCore::request_event(RequestEvent event, bool after_steps) {
  if (after_steps) {
    if (event.kind == RequestEvent::Kind::finished) progress.finish(event.request->serial);
    ledger.hold(std::move(event), outstanding.last());
    wake();
    return;
  }
  for (const auto& sink : sinks_) sink->offer_event(event);
}

Status MonitorCore::enable(LeaseSpec spec, Apply apply) {
  if (!options.switching) {
    return {Code::unsupported,
            "switching is off for this monitor (MonitorOptions::switching): every active hook "
            "captures"};
  }
  spec.name = "default";
  if (const Status status = default_lease_.update(std::move(spec)); !status.ok())
    throw Error(status);
  switches_.fetch_add(1, std::memory_order_relaxed);
  if (apply == Apply::at_next_launch) return {};
  registry->begin_change();
  const HookSet desired = leases->current()->enabled;
  std::vector<std::shared_ptr<LaneCore>> lanes;
  {
    const std::lock_guard lock(lanes_mutex_);
    for (const auto& weak : lanes_) {
      if (auto lane = weak.lock()) lanes.push_back(std::move(lane));
    }
  }
  Status first;
  for (const auto& lane : lanes) {
    Status status = lane->apply_now(desired);
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  notice_loss();
  return first;
}

Lease MonitorCore::watch(LeaseSpec spec) {
  if (!options.switching) {
    throw Error(Code::unsupported, "switching is off for this monitor: leases have no effect");
  }
  Lease lease = leases->add(std::move(spec)).value_or_throw();
  switches_.fetch_add(1, std::memory_order_relaxed);
  return lease;
}

std::shared_ptr<LaneCore> MonitorCore::make_lane() {
  const std::lock_guard lock(lanes_mutex_);
  if (closing()) throw Error(Code::unavailable, "the monitor is closed");
  auto lane = LaneCore::make(shared_from_this(), next_lane_).value_or_throw();
  ++next_lane_;
  std::erase_if(lanes_, [](const auto& weak) { return weak.expired(); });
  lanes_.push_back(lane);
  return lane;
}

// ---- flush and close

Status MonitorCore::finish_steps(std::uint64_t deadline_ns) {
  const std::uint64_t barrier = outstanding.last();
  wake();
  const bool done = wait_until(
      [&] { return outstanding.settled_through(barrier) && !ledger.holds_through(barrier); },
      deadline_ns);
  if (done) return {};
  return {Code::timeout, "flush: " + std::to_string(outstanding.count()) +
                             " steps are not delivered yet (begun and not ended, running, or held "
                             "up by a sink)"};
}

Status MonitorCore::flush(std::uint64_t timeout_ns) {
  if (closing()) return {Code::unavailable, "flush: the monitor is closed"};
  const std::uint64_t deadline_ns = deadline_after(timeout_ns);
  if (Status status = finish_steps(deadline_ns); !status.ok()) return status;
  std::vector<std::uint64_t> positions;
  for (const auto& sink : sinks_) positions.push_back(sink->request_flush());
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    SinkRunner& sink = *sinks_[i];
    const bool done = wait_until(
        [&] { return sink.flushed(positions[i]) || !sink.flush_error(positions[i]).ok(); },
        deadline_ns);
    if (Status error = sink.flush_error(positions[i]); !error.ok()) return error;
    if (!done) {
      const SinkStats stats = sink.stats();
      return {Code::timeout, "flush: sink \"" + stats.name + "\" still has " +
                                 std::to_string(stats.queued_steps) + " steps to write" +
                                 (stats.last_error.empty() ? "" : " (" + stats.last_error + ")")};
    }
  }
  if (lost())
    return {Code::device_lost, "flush: the device was lost; what was in flight is missing"};
  return {};
}

Status MonitorCore::stop_sinks(std::uint64_t deadline_ns) {
  const std::uint64_t now = device->now_ns();
  const std::chrono::nanoseconds left(static_cast<std::int64_t>(
      deadline_ns > now ? std::min<std::uint64_t>(deadline_ns - now, INT64_MAX) : 0));
  for (const auto& sink : sinks_) sink->begin_stop(left);
  Status first;
  for (const auto& sink : sinks_) {
    sink->stop(left);
    Status status = sink->stop_status();
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

void MonitorCore::restore_graphs() {
  std::vector<std::shared_ptr<LaneCore>> lanes;
  {
    const std::lock_guard lock(lanes_mutex_);
    for (const auto& weak : lanes_) {
      if (auto lane = weak.lock()) lanes.push_back(std::move(lane));
    }
  }
  for (const auto& lane : lanes) {
    if (const Status status = lane->clear(); !status.ok()) note_error(status);
  }
}

Status MonitorCore::close(std::uint64_t deadline_ns) {
  const std::lock_guard closing_lock(close_mutex_);
  if (closed_ || !drain_) return close_status_;
  const std::uint64_t deadline = deadline_after(deadline_ns);
  closing_.store(true, std::memory_order_release);
  wake();
  // A step that never ends must not use up the time in which the sinks are told what is missing.
  close_status_ = finish_steps(deadline_after(deadline_ns - deadline_ns / 4));
  if (!close_status_.ok() || lost()) drain_->give_up(GapReason::shutdown);
  drain_->close();
  // Bounded: nothing new comes in, and what is given up waits for neither device nor sink.
  while (!drain_->empty()) {
    drain_->give_up(GapReason::shutdown);
    if (!pump_drain()) std::this_thread::yield();
  }
  (void)pump_drain();  // completions of requests whose last steps were just given up
  for (const RequestEvent& event : ledger.take_rest()) {  // and of those with a step that is open
    for (const auto& sink : sinks_) sink->offer_event(event);
  }
  if (Status status = stop_sinks(deadline); close_status_.ok()) close_status_ = status;
  restore_graphs();
  registry->close();
  stopped_.store(true, std::memory_order_release);
  wake();
  if (thread_.joinable()) thread_.join();
  for (const Stream stream : copy_streams_) {
    if (!lost()) device->destroy_stream(stream);
  }
  {
    const std::lock_guard lock(ring_mutex_);
    ring_high_water_ = std::max(ring_high_water_, ring_->high_water());
    ring_wraps_ += ring_->wraps();
    ring_.reset();  // the memory goes with the last frame that is lent
  }
  closed_ = true;
  return close_status_;
}

}  // namespace graphtap
