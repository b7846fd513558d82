#include "monitor/lane_core.hpp"

#include <algorithm>

#include "plan/header_image.hpp"
#include "plan/tickets.hpp"
#include "plan/wire.hpp"

namespace graphtap {

Result<std::shared_ptr<LaneCore>> LaneCore::make(std::shared_ptr<MonitorCore> core,
                                                 std::uint32_t index) {
  Device& device = *core->device;
  const std::uint32_t slots = core->table.slots();
  const std::uint64_t largest = wire::header_bytes(slots, core->options.max_gather_rows);
  Result<std::byte*> header = device.allocate(largest);
  if (!header.ok()) return header.status();
  device.retain(header.value());  // graphs bake its address in: it lives as long as the device
  // Most headers hold no row list; one with the longest list must fit too.
  const std::uint64_t plain = wire::header_bytes(slots, 0);
  const std::uint64_t capacity = std::max(core->options.header_slots * plain, 2 * largest);
  Result<std::byte*> pinned = device.allocate_pinned(capacity);
  if (!pinned.ok()) return pinned.status();
  auto images =
      FrameRing::make(pinned.value(), capacity, 0,
                      [keep = core->device](std::byte* memory) { keep->free_pinned(memory); });
  return std::shared_ptr<LaneCore>(
      new LaneCore(std::move(core), index, header.value(), std::move(images)));
}

LaneCore::LaneCore(std::shared_ptr<MonitorCore> core, std::uint32_t index, std::byte* header,
                   std::shared_ptr<FrameRing> images)
    : core_(std::move(core)),
      index_(index),
      header_(header),
      images_(std::move(images)),
      ordinal_in_doubt_(core_->table.size()),
      eager_calls_(core_->table.size()),
      piece_of_slot_(core_->table.slots(), -1) {}

LaneCore::~LaneCore() {
  // No later step will turn the header OFF. Graphs that keep replaying may then still write: their
  // frames stay.
  if ((header_on_ || header_in_doubt_) && !core_->lost()) {
    if (const Status status = core_->device->close_step(header(), last_stream_); !status.ok()) {
      note(status);
    }
  }
  for (const auto& loan : fenced_) loan->keep_memory();
}

// ---- begin

bool LaneCore::nothing_wanted(const StepShape& shape) {
  if (const std::uint64_t version = core_->leases->version(); version != demand_version_) {
    demand_ = core_->leases->current();
    demand_version_ = demand_->version;
  }
  if (shape.kind == StepKind::eager) {
    if (core_->options.eager == EagerPolicy::none) return true;
    if (core_->options.eager == EagerPolicy::all) return false;
  }
  return demand_->enabled.empty();
}

std::shared_ptr<StepPlan> LaneCore::begin(const StepShape& shape, Stream stream) {
  eager_.reset();
  image_.reset();
  const bool idle = nothing_wanted(shape) || core_->closing();
  if (idle && !header_in_doubt_ && stepped_ && stream == last_stream_) {
    ++next_step_;
    core_->accounts.step_empty();
    return nullptr;
  }
  const std::optional<GapReason> hindrance = enter(stream);
  std::shared_ptr<StepPlan> plan =
      idle ? nullptr : plan_step(shape, hindrance != GapReason::capture);
  ++next_step_;
  if (!plan) {
    core_->accounts.step_empty();
    return nullptr;
  }

  plan->lane = index_;
  FramePlan& first = plan->frames[0];
  if (hindrance) first.fail(*hindrance);
  if (!first.failed) {
    if (shape.kind == StepKind::eager) {
      lay_out(first, plan->kind, core_->table.slots());
      if (first.bytes > core_->frame_limit()) {
        split_frames(*plan, core_->table.slots(), core_->frame_limit());
      }
    }
    core_->reserve(*plan, plan->frames[0], demand_->priority);
    const bool all_there = std::all_of(plan->frames.begin(), plan->frames.end(),
                                       [](const FramePlan& frame) { return frame.shed.empty(); });
    if (!all_there) refresh_captured(*plan, core_->table.size());
  } else {
    first.ticket = next_ticket();
  }
  core_->accounts.planned(*plan);
  const bool needs_header =
      plan->kind == StepKind::graph ? plan->frames[0].loan != nullptr : !plan->lists.empty();
  if (!plan->frames[0].failed && needs_header) upload_header(*plan, stream);
  if (shape.kind == StepKind::eager) open_eager(plan, stream);
  return plan;
}

// Brings the lane to `stream`, with its header OFF. Says what keeps a step there from being
// captured.
std::optional<GapReason> LaneCore::enter(Stream stream) {
  if (core_->lost()) return GapReason::device_lost;
  const auto capture = core_->device->capture_state(stream);
  if (!capture.ok()) {
    note(capture.status());
    return reason_for(capture.status());
  }
  if (capture.value().capturing) return GapReason::capture;
  if (const Status followed = follow_stream(stream); !followed.ok()) return reason_for(followed);
  if (header_in_doubt_) clear_header(stream);
  if (core_->lost()) return GapReason::device_lost;
  return std::nullopt;
}

// `computes`: the engine runs this step, rather than capture it into a graph.
std::shared_ptr<StepPlan> LaneCore::plan_step(const StepShape& shape, bool computes) {
  StepShape marked = shape;
  std::vector<RowSpan> tokens(shape.tokens.begin(), shape.tokens.end());
  std::vector<RowSpan> last;
  if (computes) {
    last = core_->progress.marked(shape.requests);
    marked.requests = last;
    tokens = core_->progress.advance(shape.tokens);
  }
  marked.tokens = tokens;
  if (shape.requests.empty() && tokens.size() != shape.tokens.size()) {
    // A span that was split is still one request with one row of logits, its last token's.
    std::size_t piece = 0;
    for (const RowSpan& span : shape.tokens) {
      std::uint32_t rows = 0;
      while (rows < span.rows) rows += tokens[piece++].rows;
      if (span.rows == 0) continue;
      last.push_back({span.request, span.first_token + span.rows - 1, 1, tokens[piece - 1].flags});
    }
    marked.requests = last;
  }
  auto plan = core_->planner->plan(*demand_, marked, next_step_);
  if (!plan) return plan;
  plan->sequence = core_->outstanding.open();
  for (PlannedRecord& record : plan->frames[0].records) {
    record.chunked = core_->is_chunked(record.hook);
  }
  return plan;
}

// Work on the new stream comes after all that the lane's last stream was given: the header is
// written in step order, and two execs of one graph never overlap.
Status LaneCore::follow_stream(Stream stream) {
  if (stepped_ && stream == last_stream_) return {};
  if (stepped_) {
    Result<Event> event = core_->events.record(last_stream_);
    Status status = event.ok() ? core_->device->wait(stream, event.value()) : event.status();
    if (event.ok()) core_->events.give_back(event.value());
    if (!status.ok()) {
      note(status);
      return status;
    }
  }
  last_stream_ = stream;
  stepped_ = true;
  return {};
}

// The device refused to turn the header OFF; try again, and let go of what it pointed at behind a
// fence.
void LaneCore::clear_header(Stream stream) {
  // The fence stands behind every stream that may still write: an eager step's join may have been
  // refused.
  if (const Status status = join_streams(stream); !status.ok()) {
    note(status);
    return;
  }
  if (const Status status = core_->device->close_step(header(), stream); !status.ok()) {
    note(status);
    return;
  }
  Result<Event> event = core_->events.record(stream);
  if (!event.ok()) {
    note(event.status());
    return;
  }
  header_in_doubt_ = header_on_ = false;
  EndedFrame fence;
  fence.lane = index_;
  fence.event = event.value();
  fence.held = std::move(fenced_);
  fenced_.clear();
  core_->hand_over(std::move(fence));
}

void LaneCore::upload_header(StepPlan& plan, Stream stream) {
  const std::uint32_t slots = core_->table.slots();
  const std::uint64_t bytes = header_image_bytes(plan, slots);
  const std::uint64_t patience =
      core_->options.policy == Policy::lossless
          ? static_cast<std::uint64_t>(core_->options.space_timeout.count())
          : 0;
  core_->wait_for_space(*images_, core_->device->now_ns() + patience, [&] {
    image_ = images_->try_lend(bytes);
    return image_ != nullptr;
  });
  if (core_->lost()) return fail_upload(plan, GapReason::device_lost);  // seen while waiting
  if (!image_) return fail_upload(plan, GapReason::shed_headers);
  write_header_image(image_->data(), plan, plan.frames[0], slots);
  const bool turns_on = plan.kind == StepKind::graph;
  if (turns_on) {
    if (const Status status =
            core_->device->zero(plan.frames[0].loan->data(), wire::census_bytes(slots), stream);
        !status.ok()) {
      note(status);
      return fail_upload(plan, reason_for(status));
    }
    header_on_ = true;
  }
  if (const Status status = core_->device->upload(header_, image_->data(), bytes, stream);
      !status.ok()) {
    note(status);
    fail_upload(plan, reason_for(status));
    if (turns_on) header_in_doubt_ = true;
  }
#if defined(GRAPHTAP_BUG_stale_image_reuse)
  image_.reset();
#endif
}

// Of an eager step only what is gathered needs the upload, in each of its frames: which rows the
// header's lists name is not known now, and rows gathered by another step's list would be
// mislabelled.
void LaneCore::fail_upload(StepPlan& plan, GapReason reason) {
  if (plan.kind == StepKind::graph) return plan.frames[0].fail(reason);
  for (FramePlan& frame : plan.frames) {
    for (PlannedRecord& record : frame.records) {
      if (record.list != PlannedRecord::kNoList) record.gap = reason;
    }
  }
}

// ---- launch

Result<Exec> LaneCore::prepare(BoundGraph& graph, const StepPlan* plan, Stream stream) {
  if (core_->lost()) return Status(Code::device_lost, "the device was lost");
  // A launch on a stream of its own must not overtake the lane: its exec may share the graph's
  // memory.
  if (const Status status = follow_stream(stream); !status.ok()) return status;
  const std::lock_guard lock(gate_mutex_);
  return prepare_locked(graph, plan);
}

Result<Exec> LaneCore::prepare_locked(BoundGraph& graph, [[maybe_unused]] const StepPlan* plan) {
#if defined(GRAPHTAP_BUG_exec_chosen_by_desired_set)
  const Exec exec = graph.prepare(core_->leases->current()->enabled);
#else
  const Exec exec = graph.prepare(plan ? plan->captured : core_->table.none());
#endif
  if (exec == Exec{}) {
    return Status(Code::unavailable, "the graph \"" + graph.name() + "\" is gone");
  }
  return exec;
}

Status LaneCore::launch(BoundGraph& graph, StepPlan* plan, Stream stream) {
  if (core_->lost()) return {Code::device_lost, "the device was lost"};
  if (Status status = follow_stream(stream); !status.ok()) return status;
  const std::lock_guard lock(
      gate_mutex_);  // nobody switches nodes between the choice and the launch
  const Result<Exec> exec = prepare_locked(graph, plan);
  if (!exec.ok()) return exec.status();
  core_->notice_loss();  // while nodes were switched
  if (core_->lost()) return {Code::device_lost, "the device was lost"};
  Status status = core_->device->launch(exec.value(), stream);
  if (status.ok()) {
    graph.launched();
  } else {
    note(status);
    if (plan) plan->frames[0].fail(reason_for(status));
  }
  return status;
}

// ---- end

void LaneCore::invalidate(StepPlan& plan, GapReason reason) noexcept {
  for (std::size_t i = eager_ ? eager_frame_ : 0; i < plan.frames.size(); ++i) {
    plan.frames[i].fail(reason);
  }
}

void LaneCore::end(std::shared_ptr<StepPlan> plan, Stream stream) {
  if (plan->kind == StepKind::eager) {
    move_to_frame(plan->frames.size() - 1, stream);
    hand_over(plan, plan->frames.size() - 1, stream);
    eager_.reset();
    return;
  }
  // A step without a frame did not touch the header, and its stream may be capturing.
  if (header_on_ && plan->frames[0].loan && !core_->lost()) {
#if !defined(GRAPHTAP_BUG_header_left_on)
    if (const Status status = core_->device->close_step(header(), stream); !status.ok()) {
      note(status);
      plan->frames[0].fail(reason_for(status));  // a launch that nobody planned may write to it yet
      header_in_doubt_ = true;
    } else {
      header_on_ = false;
      header_in_doubt_ = false;
    }
#endif
  }
  hand_over(plan, 0, stream);
}

void LaneCore::hand_over(const std::shared_ptr<StepPlan>& plan, std::size_t frame_index,
                         Stream stream) {
  FramePlan& frame = plan->frames[frame_index];
  EndedFrame ended;
  ended.plan = plan;
  ended.frame = frame_index;
  ended.lane = index_;
  ended.sequence = plan->sequence;
  ended.last = frame_index + 1 == plan->frames.size();
  const bool device_has_it = frame.loan || image_;
  if (device_has_it && !core_->lost()) {
    Status status = join_streams(stream);
    if (status.ok()) {
      Result<Event> event = core_->events.record(stream);
      if (event.ok()) ended.event = event.value();
      status = event.status();
    }
    if (!status.ok()) {
      note(status);
      frame.fail(reason_for(status));
    }
    const bool seen_to_end = status.ok();
    auto& keeper = seen_to_end ? ended.held : fenced_;
    if (image_) keeper.push_back(image_);
    if (!seen_to_end)
      header_in_doubt_ = true;  // a fence must come before that memory is used again
    if (frame.loan && (header_in_doubt_ || !seen_to_end)) fenced_.push_back(frame.loan);
    if (seen_to_end && !header_in_doubt_) {
      for (auto& loan : fenced_) ended.held.push_back(std::move(loan));
      fenced_.clear();
    }
  } else if (frame.loan) {
    frame.loan->keep_memory();  // a lost device cannot say when it is done with it
  }
  if (ended.last) image_.reset();
  core_->hand_over(std::move(ended));
}

// ---- graphs

std::shared_ptr<BoundGraph> LaneCore::bind(Graph graph, Exec exec, BindOptions options) {
  const std::lock_guard lock(gate_mutex_);
  GraphBinding binding;
  binding.lane = index_;
  binding.graph = graph;
  binding.exec = exec;
  binding.options = std::move(options);
  if (core_->options.switching) binding.producers = recorder_.take(graph);
  auto bound = core_->registry->bind(std::move(binding));
  if (gate_closed_) (void)bound->restore();  // nothing to report: it was never switched
  return bound;
}

Status LaneCore::apply_now(const HookSet& desired) {
  const std::lock_guard lock(gate_mutex_);
  Status first;
  for (const auto& graph : core_->registry->graphs(index_)) {
    Status status = graph->apply_now(desired);
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

Status LaneCore::clear() {
  const std::lock_guard lock(gate_mutex_);
  gate_closed_ = core_->closing();
  Status first;
  for (const auto& graph : core_->registry->graphs(index_)) {
    Status status = graph->restore();
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace graphtap
