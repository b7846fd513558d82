#include "drain/drain.hpp"

#include <algorithm>
#include <utility>

#include "drain/delivery_builder.hpp"

namespace graphtap {

Drain::Drain(DrainParts parts, Ranks ranks, std::uint64_t sink_patience_ns,
             std::vector<Stream> copy_streams)
    : parts_(std::move(parts)),
      ranks_(ranks),
      sink_patience_ns_(sink_patience_ns),
      copy_streams_(std::move(copy_streams)),
      copier_(parts_.device, parts_.events, copy_streams_,
              [this](const Status& status) { note_error(status); }) {}

Drain::~Drain() {
  for (const Quarantined& entry : quarantine_) {
    for (const Event event : entry.events) parts_.events.give_back(event);
    for (const auto& loan : entry.loans) loan->keep_memory();
  }
}

void Drain::add(EndedFrame frame) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      in_flight_.fetch_add(1, std::memory_order_relaxed);
      incoming_.push_back(std::move(frame));
      return;
    }
  }
  parts_.events.give_back(frame.event);
  for (const auto& loan : frame.held) loan->keep_memory();
  if (!frame.plan) return;
  FramePlan& plan = frame.frame_plan();
  if (plan.loan) plan.loan->keep_memory();
  for (const PlannedRecord& record : plan.records) {
    parts_.accounts.gap(record.hook,
                        record.gap.value_or(plan.failed.value_or(GapReason::shutdown)));
  }
  for (const PlannedRecord& record : plan.shed) parts_.accounts.gap(record.hook, *record.gap);
  if (frame.last) parts_.outstanding.settle(frame.sequence);
}

void Drain::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Drain::give_up(GapReason reason) { given_up_.store(static_cast<int>(reason)); }
bool Drain::empty() const { return in_flight_.load(std::memory_order_acquire) == 0; }
bool Drain::resting() const {
  return empty() && (quarantined_.load(std::memory_order_acquire) == 0 || device_lost());
}

std::uint64_t Drain::device_errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}
std::string Drain::last_device_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void Drain::note_error(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    ++errors_;
    last_error_ = status.message();
  }
  if (status.code() == Code::device_lost) parts_.lost->store(true, std::memory_order_release);
}

bool Drain::pump() {
  std::vector<EndedFrame> incoming;
  {
    const std::lock_guard lock(mutex_);
    incoming.swap(incoming_);
  }
  bool moved = !incoming.empty();
  for (EndedFrame& frame : incoming) {
    Item item;
    item.frame = std::move(frame);
    lanes_[item.frame.lane].push_back(std::move(item));
  }
  if (!device_lost() && given_up_.load() == 0) moved |= copier_.pump();
  for (auto& [index, lane] : lanes_) moved |= pump_lane(lane);
  moved |= release_quarantine();
  moved |= emit_events();
  return moved;
}

bool Drain::emit_events() {
  // Only this thread delivers, so an event whose steps are settled comes behind their records in
  // every queue.
  const std::vector<RequestEvent> ready = parts_.ledger.take_ready(parts_.outstanding);
  for (const RequestEvent& event : ready) {
    for (const auto& sink : parts_.sinks) sink->offer_event(event);
  }
  return !ready.empty();
}

// Items advance in order: one may be copied while its predecessors are, but is delivered after them
// (I5).
bool Drain::pump_lane(std::deque<Item>& items) {
  bool moved = false;
  for (std::size_t i = 0; i < items.size();) {
    while (items[i].phase != Phase::done && advance(items[i], i == 0)) moved = true;
    if (i == 0 && items[i].phase == Phase::done) {
      items.pop_front();
      in_flight_.fetch_sub(1, std::memory_order_release);
      continue;
    }
    if (items[i].phase < Phase::copying) break;
    ++i;
  }
  return moved;
}

bool Drain::advance(Item& item, bool first) {
  if (item.phase < Phase::delivering) {
    if (device_lost()) {
      abandon(item, GapReason::device_lost);
      return true;
    }
    if (const int reason = given_up_.load(); reason != 0) {
      abandon(item, static_cast<GapReason>(reason));
      return true;
    }
  }
#if defined(GRAPHTAP_BUG_delivery_out_of_order)
  first = true;
#endif
  switch (item.phase) {
    case Phase::running:
      return await_end(item);
    case Phase::ended:
      return start_copy(item);
    case Phase::copying:
      return first && await_copy(item);
    case Phase::delivering:
      return first && deliver(item);
    case Phase::done:
      break;
  }
  return false;
}

bool Drain::refused(Item& item, const Status& status) {
  note_error(status);
  if (device_lost()) return true;
  if (++item.refusals < kAttempts) return false;
  abandon(item, GapReason::device_error);
  return true;
}

// The device was not seen to be done with this item's memory, so that it may not be reused yet.
void Drain::abandon(Item& item, GapReason reason) {
  Quarantined entry;
  entry.loans = std::exchange(item.frame.held, {});
  if (item.staging) entry.loans.push_back(std::exchange(item.staging, nullptr));
  if (item.copy) item.copy->cancelled = true;
  if (item.frame.plan) {
    FramePlan& frame = item.frame.frame_plan();
    if (frame.loan) entry.loans.push_back(frame.loan);
    frame.fail(reason);
  }
  if (const Event end = std::exchange(item.frame.event, Event{}); end != Event{}) {
    entry.events.push_back(end);
    entry.fenced = true;  // its copy was not started
  }
  if (entry.loans.empty()) {
    for (const Event event : entry.events) parts_.events.give_back(event);
  } else {
    quarantine_.push_back(std::move(entry));
    quarantined_.store(quarantine_.size(), std::memory_order_release);
  }
  settle(item);
}

// A device that refused for a while and is not lost can be asked again: the memory comes back then.
// Refusals are not counted any more, the frame's were.
bool Drain::release_quarantine() {
  if (quarantine_.empty() || device_lost() || given_up_.load() != 0) return false;
  Quarantined& entry = quarantine_.front();
  const auto lost = [&](const Status& status) {
    if (status.code() == Code::device_lost) note_error(status);
    return false;
  };
  while (!entry.fenced) {  // the engine's end was seen; what may still run are our copies
    const Result<Event> event = parts_.events.record(copy_streams_[entry.events.size()]);
    if (!event.ok()) return lost(event.status());
    entry.events.push_back(event.value());
    entry.fenced = entry.events.size() == copy_streams_.size();
  }
  while (!entry.events.empty()) {
    const Result<bool> done = parts_.device.query(entry.events.back());
    if (!done.ok()) return lost(done.status());
    if (!done.value()) return false;
    parts_.events.give_back(entry.events.back());
    entry.events.pop_back();
  }
  quarantine_.erase(quarantine_.begin());
  quarantined_.store(quarantine_.size(), std::memory_order_release);
  return true;
}

// The frame's fate is known: build what the sinks get. A fence is done.
void Drain::settle(Item& item) {
  if (!item.frame.plan) {
    item.phase = Phase::done;
    return;
  }
  item.phase = Phase::delivering;
  item.delivery = build_delivery(parts_.table, ranks_, item.frame, std::move(item.staging),
                                 parts_.accounts, parts_.ledger);
  item.accepted.assign(parts_.sinks.size(), false);
  item.frame.frame_plan().loan.reset();
}

bool Drain::await_end(Item& item) {
  if (item.frame.event != Event{}) {
    const Result<bool> done = parts_.device.query(item.frame.event);
    if (!done.ok()) return refused(item, done.status());
    if (!done.value()) return false;
    parts_.events.give_back(std::exchange(item.frame.event, Event{}));
  }
  item.refusals = 0;
  item.ended_ns = parts_.device.now_ns();
  item.frame.end_unix_ns = unix_now_ns();
  item.phase = Phase::ended;
  return true;
}

bool Drain::start_copy(Item& item) {
  const bool nothing_to_copy = !item.frame.plan || item.frame.frame_plan().failed.has_value() ||
                               item.frame.frame_plan().records.empty();
  if (nothing_to_copy) {
    item.frame.held.clear();
    settle(item);
    return true;
  }
  if (!item.staging) item.staging = parts_.staging->try_lend(item.frame.frame_plan().bytes);
  if (!item.staging) return false;  // the sinks hold it all: back-pressure
  const FramePlan& frame = item.frame.frame_plan();
  item.copy = copier_.start(item.staging->data(), frame.loan->data(), frame.bytes);
  item.phase = Phase::copying;
  return true;
}

bool Drain::await_copy(Item& item) {
  if (item.copy->refused) {
    abandon(item, GapReason::device_error);
    return true;
  }
  if (!item.copy->landed()) return false;
  item.copy.reset();
  item.frame.held.clear();
  settle(item);
  return true;
}

bool Drain::deliver(Item& item) {
  const std::uint64_t now = parts_.device.now_ns();
  if (!offer(item, now)) return false;
  if (item.ended_ns != 0) parts_.accounts.drain_lag(now - item.ended_ns);
  if (item.frame.last) parts_.accounts.step_delivered();
  item.delivery.reset();
  item.phase = Phase::done;
  if (item.frame.last) parts_.outstanding.settle(item.frame.sequence);
  return true;
}

// True when every sink has taken the step or given it up.
bool Drain::offer(Item& item, std::uint64_t now) {
  bool all = true;
  for (std::size_t i = 0; i < parts_.sinks.size(); ++i) {
    if (item.accepted[i]) continue;
    SinkRunner& sink = *parts_.sinks[i];
    item.accepted[i] = sink.offer(item.delivery);
    if (item.accepted[i]) continue;
    if (item.refused_since_ns == 0) item.refused_since_ns = now;
    // Holding the step back fills staging, then the ring, and the planner sheds or waits: every
    // loss is then a gap that the sink gets to see. But one that is down, or slow for too long,
    // must not hold up the others (D2): it loses the step.
    const bool patience_over =
        sink.down() || given_up_.load() != 0 || now - item.refused_since_ns > sink_patience_ns_;
    if (patience_over) {
      sink.lose(item.delivery);
      item.accepted[i] = true;
    } else {
      all = false;
    }
  }
  return all;
}

}  // namespace graphtap
