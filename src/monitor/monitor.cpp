#include "graphtap/monitor.hpp"

#include "monitor/lane_core.hpp"
#include "monitor/monitor_core.hpp"

namespace graphtap {
namespace {

std::uint64_t to_ns(std::chrono::nanoseconds time) {
  return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

}  // namespace

// ---- Monitor

Monitor::Monitor(std::shared_ptr<Device> device, HookTable table, MonitorOptions options,
                 std::vector<std::shared_ptr<Sink>> sinks)
    : core_(MonitorCore::make(std::move(device), std::move(table), std::move(options),
                              std::move(sinks))) {}

Monitor::~Monitor() { (void)close(std::chrono::seconds(5)); }

const HookTable& Monitor::table() const noexcept { return core_->table; }

Request Monitor::begin_request(std::string id, std::int64_t prompt_tokens) {
  return core_->begin_request(std::move(id), prompt_tokens);
}
void Monitor::not_computed(const Request& request, std::int64_t begin, std::int64_t end) {
  core_->request_event({RequestEvent::Kind::not_computed, request, begin, end, true, 0, 0}, false);
}
void Monitor::rejected(const Request& request, std::int64_t begin, std::int64_t end) {
  core_->request_event({RequestEvent::Kind::rejected, request, begin, end, true, 0, 0}, true);
}
void Monitor::finish_request(const Request& request) {
  core_->request_event({RequestEvent::Kind::finished, request, 0, 0, true, 0, 0}, true);
}

Status Monitor::enable(std::string_view selection, Apply apply) {
  const Selection parsed = parse(selection);
  LeaseSpec spec;
  spec.hooks =
      parsed.is_default() ? core_->options.active : parsed.resolve(core_->table).value_or_throw();
  spec.sampling = parsed.sampling();
  return core_->enable(std::move(spec), apply);
}
Status Monitor::enable(const HookSet& hooks, Apply apply) {
  LeaseSpec spec;
  spec.hooks = hooks;
  return core_->enable(std::move(spec), apply);
}
HookSet Monitor::enabled() const { return core_->leases->current()->enabled; }
Lease Monitor::watch(LeaseSpec spec) { return core_->watch(std::move(spec)); }
Selection Monitor::parse(std::string_view selection) const {
  return Selection::parse(selection, core_->table.catalogue()).value_or_throw();
}

std::shared_ptr<Lane> Monitor::make_lane() { return std::make_shared<Lane>(core_->make_lane()); }
Status Monitor::flush(std::chrono::nanoseconds timeout) { return core_->flush(to_ns(timeout)); }
Status Monitor::close(std::chrono::nanoseconds deadline) { return core_->close(to_ns(deadline)); }
Status Monitor::resize_ring(std::uint64_t bytes) { return core_->resize_ring(bytes); }
Stats Monitor::stats() const { return core_->stats(); }
bool Monitor::pump() { return core_->pump(); }

// ---- Lane

Lane::Lane(std::shared_ptr<LaneCore> core) noexcept : core_(std::move(core)) {}
Lane::~Lane() = default;

Step Lane::begin(const StepShape& shape, Stream stream) {
  return Step(core_, core_->begin(shape, stream), stream);
}
void Lane::produce(HookId hook, const Source& source, Stream stream) noexcept {
  core_->produce(hook, source, stream);
}
std::shared_ptr<BoundGraph> Lane::bind(Graph graph, Exec exec, BindOptions options) {
  return core_->bind(graph, exec, std::move(options));
}
Status Lane::clear() { return core_->clear(); }
std::uint32_t Lane::index() const noexcept { return core_->index(); }

// ---- Step

Step::Step(std::shared_ptr<LaneCore> lane, std::shared_ptr<StepPlan> plan, Stream stream) noexcept
    : lane_(std::move(lane)), plan_(std::move(plan)), stream_(stream) {}
Step::Step(Step&& other) noexcept = default;
Step& Step::operator=(Step&& other) noexcept {
  if (this != &other) {
    if (plan_) {
      invalidate(GapReason::aborted);
      end();
    }
    lane_ = std::move(other.lane_);
    plan_ = std::move(other.plan_);
    stream_ = other.stream_;
  }
  return *this;
}
Step::~Step() {
  if (!plan_) return;
  invalidate(GapReason::aborted);
  end();
}

Status Step::launch(BoundGraph& graph) {
  if (!lane_)
    throw Error(Code::invalid_argument, "Step::launch: this step was ended or moved from");
  return lane_->launch(graph, plan_.get(), stream_);
}
Result<Exec> Step::prepare(BoundGraph& graph) {
  if (!lane_)
    throw Error(Code::invalid_argument, "Step::prepare: this step was ended or moved from");
  return lane_->prepare(graph, plan_.get(), stream_);
}
void Step::invalidate(GapReason reason) noexcept {
  if (plan_) lane_->invalidate(*plan_, reason);
}
void Step::end() noexcept {
  if (plan_) lane_->end(std::move(plan_), stream_);
  plan_.reset();
  lane_.reset();
}
bool Step::empty() const noexcept { return plan_ == nullptr || plan_->captured.empty(); }
bool Step::captures(HookId hook) const noexcept { return plan_ && plan_->captured.contains(hook); }
std::uint64_t Step::ticket() const noexcept { return plan_ ? plan_->frames[0].ticket : 0; }

}  // namespace graphtap
