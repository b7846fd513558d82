// The cooperative executor: no threads, every interleaving chosen by a seed.
#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "device/host/executor.hpp"
#include "device/host/random.hpp"

namespace graphtap {
namespace {

constexpr std::uint64_t kCallNs = 100;            // what a call costs on the virtual clock
constexpr std::uint64_t kOperationNs = 500;       // what a piece of an operation costs
constexpr std::uint64_t kNothingToDoNs = 50'000;  // an idle() that found nothing to run

class CooperativeExecutor final : public Executor {
 public:
  CooperativeExecutor(std::uint64_t seed, double advance) : random_(seed), advance_(advance) {
    queues_[kDefaultStream];
    queues_[inline_stream()];
  }

  Result<Stream> create_stream() override {
    const std::lock_guard lock(mutex_);
    const Stream stream{next_stream_++};
    queues_[stream];
    return stream;
  }

  bool destroy_stream(Stream stream) override {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    if (found == queues_.end() || found->second.closing) return false;
    if (stream == kDefaultStream || stream == inline_stream()) return false;
    found->second.closing = true;
    erase_if_finished(found);
    return true;
  }

  bool has_stream(Stream stream) const override {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    return found != queues_.end() && !found->second.closing;
  }

  bool enqueue(Stream stream, Operation operation) override {
    const std::lock_guard lock(mutex_);
    if (!has_stream(stream)) return false;
    if (stream == inline_stream()) {
      run_inline(operation);
    } else {
      queues_[stream].operations.push_back(std::move(operation));
    }
    return true;
  }

  bool complete(const PointRef& point) const override {
    const std::lock_guard lock(mutex_);
    return point->complete;
  }

  void wait_for(const PointRef& point) override {
    const std::lock_guard lock(mutex_);
    while (!point->complete && run_one()) {
    }
  }

  void lose() override {
    const std::lock_guard lock(mutex_);
    lost_ = true;
    run_until_idle();
  }

  void tick() override {
    const std::lock_guard lock(mutex_);
    clock_ += kCallNs;
    advance_others();
  }

  void idle() override {
    const std::lock_guard lock(mutex_);
    if (!run_one()) clock_ += kNothingToDoNs;
  }

  bool run_one() override {
    const std::lock_guard lock(mutex_);
    runnable_.clear();
    for (const auto& [stream, queue] : queues_) {
      if (!queue.running && !queue.operations.empty() && may_start(queue.operations.front())) {
        runnable_.push_back(stream);
      }
    }
    if (runnable_.empty()) return false;
    run_piece(runnable_[random_.below(runnable_.size())]);
    return true;
  }

  void run_until_idle() override {
    while (run_one()) {
    }
  }

  std::size_t pending(Stream stream) const override {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    return found == queues_.end() ? 0 : found->second.operations.size() + found->second.running;
  }

  void set_advance(double probability) override {
    const std::lock_guard lock(mutex_);
    advance_ = probability;
  }

  std::size_t choose(std::size_t choices) override {
    const std::lock_guard lock(mutex_);
    return random_.below(choices);
  }

  std::uint64_t now_ns() const noexcept override { return clock_ += kCallNs; }

 private:
  struct Queue {
    std::deque<Operation> operations;
    bool running = false;  // a piece of its first operation is on the call stack
    bool closing = false;
  };
  using Queues = std::map<Stream, Queue>;  // ordered, so that a seed means one schedule

  bool may_start(const Operation& operation) const {
    return lost_ || !operation.after || operation.after->complete;
  }

  // Called from inside operations as well (a kernel that calls the device), so the operation is
  // taken out of its queue while it runs.
  void run_piece(Stream stream) {
    Queue& queue = queues_[stream];
    Operation operation = std::move(queue.operations.front());
    queue.operations.pop_front();
    queue.running = true;
    clock_ += kOperationNs;
    const bool finished = lost_ || !operation.step || operation.step();
    queue.running = false;
    if (finished) {
      finish(operation);
    } else {
      queue.operations.push_front(std::move(operation));
    }
    erase_if_finished(queues_.find(stream));
  }

  void run_inline(Operation& operation) {
    while (!may_start(operation) && run_one()) {
    }
    while (!lost_ && operation.step && !operation.step()) {
      clock_ += kOperationNs;
      advance_others();
    }
    finish(operation);
  }

  static void finish(Operation& operation) {
    operation.step = nullptr;  // whoever sees the point complete finds the kernel's captures gone
    if (operation.done) operation.done->complete = true;
  }

  void advance_others() {
    while (random_.chance(advance_) && run_one()) {
    }
  }

  void erase_if_finished(Queues::iterator found) {
    const Queue& queue = found->second;
    if (queue.closing && queue.operations.empty() && !queue.running) queues_.erase(found);
  }

  // Recursive: an operation may call the device, which comes back here.
  mutable std::recursive_mutex mutex_;
  Queues queues_;
  std::vector<Stream> runnable_;
  std::uintptr_t next_stream_ = kFirstCreatedStream;
  Random random_;
  double advance_;
  bool lost_ = false;
  mutable std::atomic<std::uint64_t> clock_{1};
};

}  // namespace

std::unique_ptr<Executor> make_cooperative_executor(std::uint64_t seed, double advance) {
  return std::make_unique<CooperativeExecutor>(seed, advance);
}

}  // namespace graphtap
