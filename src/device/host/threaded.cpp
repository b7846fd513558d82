// The threaded executor: a stream is a thread that blocks while it has nothing to do.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "device/host/executor.hpp"

namespace graphtap {
namespace {

constexpr std::chrono::microseconds kNap{50};

class ThreadedExecutor final : public Executor {
 public:
  ThreadedExecutor() {
    queues_[kDefaultStream] = std::make_unique<Queue>();
    queues_[inline_stream()] = std::make_unique<Queue>();
  }

  ~ThreadedExecutor() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (auto& [stream, queue] : queues_) closed_.push_back(std::move(queue));
      queues_.clear();
      for (auto& queue : closed_) queue->work.notify_all();
      progress_.notify_all();
    }
    for (auto& queue : closed_) {
      if (queue->thread.joinable()) queue->thread.join();
    }
  }

  Result<Stream> create_stream() override {
    reap();
    const std::lock_guard lock(mutex_);
    auto queue = std::make_unique<Queue>();
    try {
      start(*queue);
    } catch (const std::system_error& error) {
      return Status(Code::exhausted,
                    std::string("cudaErrorMemoryAllocation: no thread: ") + error.what());
    }
    const Stream stream{next_stream_++};
    queues_[stream] = std::move(queue);
    return stream;
  }

  bool destroy_stream(Stream stream) override {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    if (found == queues_.end() || stream == kDefaultStream || stream == inline_stream())
      return false;
    found->second->closing = true;
    found->second->work.notify_all();
    closed_.push_back(std::move(found->second));
    queues_.erase(found);
    return true;
  }

  bool has_stream(Stream stream) const override {
    const std::lock_guard lock(mutex_);
    return queues_.contains(stream);
  }

  bool enqueue(Stream stream, Operation operation) override {
    if (stream == inline_stream()) {
      run_inline(operation);
      return true;
    }
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    if (found == queues_.end()) return false;
    Queue& queue = *found->second;
    if (!queue.thread.joinable()) start(queue);  // the default stream, at its first use
    queue.operations.push_back(std::move(operation));
    queue.work.notify_one();
    return true;
  }

  bool complete(const PointRef& point) const override {
    const std::lock_guard lock(mutex_);
    return point->complete;
  }

  void wait_for(const PointRef& point) override {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [&] { return point->complete || lost_; });
  }

  void lose() override {
    const std::lock_guard lock(mutex_);
    lost_ = true;
    progress_.notify_all();
  }

  void tick() override {}
  void idle() override { std::this_thread::sleep_for(kNap); }
  bool run_one() override { return false; }

  void run_until_idle() override {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [this] {
      for (const auto& [stream, queue] : queues_) {
        if (queue->running || !queue->operations.empty()) return false;
      }
      for (const auto& queue : closed_) {
        if (queue->running || !queue->operations.empty()) return false;
      }
      return true;
    });
  }

  std::size_t pending(Stream stream) const override {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(stream);
    return found == queues_.end() ? 0 : found->second->operations.size() + found->second->running;
  }

  void set_advance(double) override {}
  std::size_t choose(std::size_t) override { return 0; }

  std::uint64_t now_ns() const noexcept override {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  }

 private:
  struct Queue {
    std::deque<Operation> operations;
    std::condition_variable work;
    std::thread thread;
    bool running = false;
    bool closing = false;
    bool ended = false;
  };

  void start(Queue& queue) {
    queue.thread = std::thread([this, &queue] { serve(queue); });
  }

  void serve(Queue& queue) {
    std::unique_lock lock(mutex_);
    while (true) {
      queue.work.wait(lock,
                      [&] { return stopping_ || queue.closing || !queue.operations.empty(); });
      if (stopping_ || queue.operations.empty()) break;
      Operation operation = std::move(queue.operations.front());
      queue.operations.pop_front();
      queue.running = true;
      progress_.wait(lock, [&] { return stopping_ || may_start(operation); });
      const bool go = !stopping_;
      lock.unlock();
      if (go) run(operation);
      operation.step = nullptr;  // whoever sees the point complete finds the kernel's captures gone
      lock.lock();
      if (go && operation.done) operation.done->complete = true;
      queue.running = false;
      progress_.notify_all();
    }
    queue.ended = true;
  }

  // In the caller's thread, after what it waits for, and one at a time.
  void run_inline(Operation& operation) {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [&] { return may_start(operation); });
    lock.unlock();
    {
      const std::lock_guard order(inline_mutex_);
      run(operation);
      operation.step = nullptr;
    }
    if (!operation.done) return;
    lock.lock();
    operation.done->complete = true;
    progress_.notify_all();
  }

  void run(const Operation& operation) const {
    while (!lost_ && operation.step && !operation.step()) {
    }
  }

  bool may_start(const Operation& operation) const {
    return lost_ || !operation.after || operation.after->complete;
  }

  // Joins the threads of destroyed streams that have done their work.
  void reap() {
    std::vector<std::unique_ptr<Queue>> ended;
    {
      const std::lock_guard lock(mutex_);
      for (auto& queue : closed_) {
        if (queue->ended) ended.push_back(std::move(queue));
      }
      std::erase(closed_, nullptr);
    }
    for (auto& queue : ended) queue->thread.join();
  }

  mutable std::mutex mutex_;
  std::condition_variable progress_;  // a point was completed or a stream finished an operation
  std::map<Stream, std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Queue>> closed_;
  std::uintptr_t next_stream_ = kFirstCreatedStream;
  std::recursive_mutex inline_mutex_;  // recursive: an inline kernel may call the device again
  std::atomic<bool> lost_{false};
  bool stopping_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_threaded_executor() { return std::make_unique<ThreadedExecutor>(); }

}  // namespace graphtap
