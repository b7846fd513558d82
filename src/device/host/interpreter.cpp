#include "device/host/interpreter.hpp"

#include <fmt/format.h>

#include <cstring>

#include "device/host/memory.hpp"
#include "device/host/producer.hpp"

namespace graphtap {

void Interpreter::run(const NodeBody& body) {
  switch (kind_of(body)) {
    case NodeKind::compute:
      return std::get<ComputeBody>(body.what).kernel();
    case NodeKind::producer:
      return produce(std::get<ProducerCall>(body.what));
    case NodeKind::copy:
      return copy(std::get<CopyBody>(body.what));
    case NodeKind::fill:
      return fill(std::get<FillBody>(body.what));
    case NodeKind::close_step:
      return close_step(std::get<CloseBody>(body.what).header);
    case NodeKind::child_graph: {
      GraphWalk walk(std::get<ChildBody>(body.what).graph);
      while (!step(walk, nullptr)) {
      }
      return;
    }
    case NodeKind::allocation:
    case NodeKind::conditional:
      return;
  }
}

bool Interpreter::step(GraphWalk& walk, const std::function<bool(std::uint32_t)>& enabled) {
  if (walk.finished()) return true;
  const std::uint32_t node = walk.take(choose_);
  if (!enabled || enabled(node)) run(walk.graph().nodes[node].body);
  return walk.finished();
}

std::function<bool()> Interpreter::steps_of(NodeBody body) {
  const auto* whole = std::get_if<CopyBody>(&body.what);
  if (!whole || whole->bytes < 2) {
    return [this, body = std::move(body)] {
      run(body);
      return true;
    };
  }
  CopyBody first = *whole;
  CopyBody second = *whole;
  first.bytes /= 2;
  second.bytes -= first.bytes;
  second.to += first.bytes;
  second.from += first.bytes;
  return [this, first, second, half_done = false]() mutable {
    copy(half_done ? second : first);
    return std::exchange(half_done, true);
  };
}

bool Interpreter::header_is_live(const wire::StepHeader* header, const char* who) {
  if (memory_.live(header, sizeof(wire::StepHeader)) &&
      memory_.live(header, wire::header_bytes(header->slots, header->list_entries))) {
    return true;
  }
  memory_.violation(
      fmt::format("{} reads a step header at {} that is not live", who, fmt::ptr(header)));
  return false;
}

void Interpreter::produce(const ProducerCall& call) {
  ++producers_run_;
  const auto in_use = memory_.use();
  if (call.header && !header_is_live(call.header, "producer")) return;
  if (!call.header && call.list && !memory_.live(call.list, std::uint64_t{call.plan.rows} * 4)) {
    memory_.violation(fmt::format("hook {}, ordinal {} reads a row list at {} that is not live",
                                  call.id.hook, call.id.ordinal, fmt::ptr(call.list)));
    return;
  }
  const ProducerJob job = read_plan(call);
  if (!job.on) return;
  const std::uint64_t bytes = sizeof(wire::RecordHead) + job.head.bytes;
  if (!memory_.live(job.record, bytes)) {
    memory_.violation(fmt::format("hook {}, ordinal {} writes {} bytes at {}, ticket {}: not live",
                                  call.id.hook, call.id.ordinal, bytes, fmt::ptr(job.record),
                                  job.head.ticket));
    return;
  }
  if (job.census && !memory_.live(job.census, sizeof(*job.census))) {
    memory_.violation(fmt::format("hook {}, ordinal {} counts at {}, ticket {}: not live",
                                  call.id.hook, call.id.ordinal, fmt::ptr(job.census),
                                  job.head.ticket));
    return;
  }
  if (job.head.rows > 0 && memory_.freed(call.source.data, 1)) {
    memory_.violation(fmt::format("hook {}, ordinal {} reads freed memory at {}", call.id.hook,
                                  call.id.ordinal, call.source.data));
    return;
  }
  write_record(call, job);
}

void Interpreter::copy(const CopyBody& body) {
  const auto in_use = memory_.use();
  const auto fine = [this, bytes = body.bytes](const std::byte* end, bool device) {
    return device ? memory_.live(end, bytes) : !memory_.freed(end, bytes);
  };
  if (fine(body.to, body.to_device) && fine(body.from, body.from_device)) {
    std::memcpy(body.to, body.from, body.bytes);
  } else {
    memory_.violation(fmt::format("copy of {} bytes from {} to {}: not live", body.bytes,
                                  fmt::ptr(body.from), fmt::ptr(body.to)));
  }
}

void Interpreter::fill(const FillBody& body) {
  const auto in_use = memory_.use();
  if (memory_.live(body.memory, body.bytes)) {
    std::memset(body.memory, std::to_integer<int>(body.value), body.bytes);
  } else {
    memory_.violation(
        fmt::format("fill of {} bytes at {}: not live", body.bytes, fmt::ptr(body.memory)));
  }
}

void Interpreter::close_step(wire::StepHeader* header) {
  const auto in_use = memory_.use();
  if (header_is_live(header, "close_step")) run_close_step(header);
}

}  // namespace graphtap
