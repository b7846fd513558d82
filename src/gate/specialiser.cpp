#include "gate/specialiser.hpp"

#include <exception>
#include <utility>

namespace graphtap {

Specialiser::Specialiser(std::shared_ptr<GateDevice> device, std::shared_ptr<GateCounters> counters,
                         std::uint64_t budget_bytes, bool manual)
    : device_(std::move(device)),
      counters_(std::move(counters)),
      budget_bytes_(budget_bytes),
      manual_(manual) {}

Specialiser::~Specialiser() { stop(); }

void Specialiser::add(const std::shared_ptr<SpecialisedExecs>& graph) {
  const std::lock_guard lock(mutex_);
  std::erase_if(graphs_, [](const auto& known) { return known.expired(); });
  graphs_.push_back(graph);
  if (!manual_ && !stopping_ && !thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Specialiser::enqueue(const std::shared_ptr<SpecialisedExecs>& graph) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(graph);
  }
  ready_.notify_one();
}

bool Specialiser::pump() {
  const std::lock_guard working(work_mutex_);
  while (const std::shared_ptr<SpecialisedExecs> graph = next()) {
    const std::optional<SpecialisedExecs::Job> job = graph->take_job();
    if (!job) continue;  // closed meanwhile
    work(*graph, *job);
    return true;
  }
  return false;
}

void Specialiser::stop() noexcept {
  std::thread helper;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
    helper = std::move(thread_);
  }
  ready_.notify_all();
  if (helper.joinable()) helper.join();
}

void Specialiser::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    lock.unlock();
    try {
      pump();
    } catch (const std::exception&) {  // out of host memory: the launches go on as they are
      counters_->specialise_failures.fetch_add(1, std::memory_order_relaxed);
    }
    lock.lock();
  }
}

std::shared_ptr<SpecialisedExecs> Specialiser::next() {
  const std::lock_guard lock(mutex_);
  while (!queue_.empty()) {
    std::shared_ptr<SpecialisedExecs> graph = queue_.front().lock();
    queue_.pop_front();
    if (graph) return graph;
  }
  return nullptr;
}

void Specialiser::work(SpecialisedExecs& graph, const SpecialisedExecs::Job& job) {
  const auto refuse = [&](std::uint64_t bytes) {
    counters_->specialise_refused.fetch_add(1, std::memory_order_relaxed);
    graph.failed(bytes);
  };
  const std::uint64_t likely = graph.likely_bytes();
  if (!make_room(likely)) return refuse(likely);
  const Result<Exec> exec = job.clone->build(job.set);
  if (!exec.ok()) {
    counters_->specialise_failures.fetch_add(1, std::memory_order_relaxed);
    counters_->note_error(exec.status());
    return graph.failed();
  }
  const std::uint64_t bytes = device_->exec_bytes(exec.value());
  if (!make_room(bytes)) {
    device_->destroy_exec(exec.value());
    return refuse(bytes);
  }
  graph.publish(job.set, exec.value(), bytes);
}

bool Specialiser::make_room(std::uint64_t bytes) {
  std::vector<std::shared_ptr<SpecialisedExecs>> graphs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& known : graphs_) {
      if (auto graph = known.lock()) graphs.push_back(std::move(graph));
    }
  }
  for (;;) {
    // Only this thread adds bytes, so what fits now still fits when the exec is published.
    const std::uint64_t used = counters_->specialised_bytes.load(std::memory_order_relaxed);
    if (used + bytes <= budget_bytes_) return true;
    SpecialisedExecs* victim = nullptr;
    std::uint64_t oldest = 0;
    std::uint64_t can_go = 0;
    for (const auto& graph : graphs) {
      const SpecialisedExecs::Evictable evictable = graph->evictable();
      can_go += evictable.bytes;
      if (evictable.oldest && (victim == nullptr || *evictable.oldest < oldest)) {
        victim = graph.get();
        oldest = *evictable.oldest;
      }
    }
    if (victim == nullptr || used + bytes > budget_bytes_ + can_go) return false;
    victim->evict_oldest();
  }
}

}  // namespace graphtap
