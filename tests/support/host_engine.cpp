// The engine's side of the host device.
#include <atomic>

#include "device/host/host_device.hpp"
#include "support/engine.hpp"

namespace graphtap::testing {
namespace {

class HostEngine final : public Engine {
 public:
  explicit HostEngine(const EngineOptions& options)
      : cooperative_(!options.threaded),
        host_(std::make_shared<HostDevice>(
            HostOptions{options.threaded ? HostMode::threaded : HostMode::cooperative, options.seed,
                        options.advance, options.quarantine, options.memory_limit})),
        device_(host_) {}

  const std::shared_ptr<Device>& device() const override { return device_; }
  Faults& faults() override { return host_->faults(); }
  bool cooperative() const override { return cooperative_; }

  Result<std::byte*> tensor(std::size_t bytes) override {
    // The model's memory is device memory as well, so that the device checks what producers read.
    auto memory = host_->allocate(bytes);
    if (memory.ok()) ++tensors_;
    return memory;
  }
  Status compute(Stream stream, std::function<void()> kernel) override {
    return host_->compute(stream, std::move(kernel));
  }
  Status begin_capture(Stream stream) override { return host_->begin_capture(stream); }
  Result<Graph> end_capture(Stream stream) override { return host_->end_capture(stream); }

  std::vector<Node> nodes(Graph graph) const override { return host_->nodes(graph); }
  std::vector<Node> producers(Graph graph) const override {
    std::vector<Node> found;
    for (const Node node : host_->nodes(graph)) {
      const auto kind = host_->kind(graph, node);
      if (kind.ok() && kind.value() == NodeKind::producer) found.push_back(node);
    }
    return found;
  }
  Result<bool> enabled(Exec exec, Node node) const override { return host_->enabled(exec, node); }
  Status rewrite_producer(Graph graph, Node node, const ProducerCall& call) override {
    return host_->rewrite_producer(graph, node, call);
  }
  Status rewrite_producer(Exec exec, Node node, const ProducerCall& call) override {
    return host_->rewrite_producer(exec, node, call);
  }

  std::size_t node_count(Exec exec) const override { return host_->node_count(exec); }
  HostDevice* host() override { return host_.get(); }

  bool run_one() override { return host_->run_one(); }
  void run_until_idle() override { host_->run_until_idle(); }

  std::vector<std::string> violations() override { return host_->violations(); }
  std::uint64_t calls(Call call) const override { return host_->calls(call); }
  std::uint64_t calls() const override { return host_->calls(); }
  std::uint64_t calls_after_loss() const override { return host_->calls_after_loss(); }
  std::size_t live_graphs() const override { return host_->live_graphs(); }
  std::size_t live_execs() const override { return host_->live_execs(); }
  std::size_t live_events() const override { return host_->live_events(); }
  std::size_t live_allocations() const override { return host_->live_allocations() - tensors_; }
  std::uint64_t allocated_bytes() const override { return host_->allocated_bytes(); }

 private:
  const bool cooperative_;
  const std::shared_ptr<HostDevice> host_;
  const std::shared_ptr<Device> device_;
  std::atomic<std::size_t> tensors_{0};
};

}  // namespace

std::unique_ptr<Engine> make_engine(const EngineOptions& options) {
  return std::make_unique<HostEngine>(options);
}

}  // namespace graphtap::testing
