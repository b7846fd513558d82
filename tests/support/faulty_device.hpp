#pragma once
// Any device, with the checks and the faults that the host device has built in.
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/host/faults.hpp"

namespace graphtap::testing {

struct FaultyOptions {
  std::uint64_t seed = 1;          ///< of the faults injected at a rate
  bool quarantine = true;          ///< freed memory is kept and watched
  std::uint64_t memory_limit = 0;  ///< bytes of device memory; 0: none but the device's own
  std::function<std::size_t(Graph)> count_nodes =
      {};  ///< for node_count(), which no device tells of an exec
};

/// Passes every call on to `inner` unless a fault was ordered for it: before it, after it, or for
/// good (then every later call is refused, as after a sticky error; the real device goes on behind
/// it).
///
/// Every allocation lies between two guard zones. Memory that was freed is kept, filled with 0xDD.
/// violations() says where either was written to. What was made through this device and never
/// destroyed goes with it. Thread-safe as the inner device is.
class FaultyDevice final : public Device {
 public:
  /// Throws Error if `inner` has no room for what the checks need.
  FaultyDevice(std::shared_ptr<Device> inner, const FaultyOptions& options);
  /// Nothing may be running any more.
  ~FaultyDevice() override;
  FaultyDevice(const FaultyDevice&) = delete;
  FaultyDevice& operator=(const FaultyDevice&) = delete;

  [[nodiscard]] Faults& faults() noexcept { return faults_; }
  [[nodiscard]] Device& inner() const noexcept { return *inner_; }
  [[nodiscard]] std::uint64_t calls(Call call) const noexcept;
  [[nodiscard]] std::uint64_t calls() const noexcept;
  [[nodiscard]] std::uint64_t calls_after_loss() const noexcept { return calls_after_loss_.load(); }
  /// What was written where nothing may be written, in words. The device must be idle.
  [[nodiscard]] std::vector<std::string> violations();
  /// A graph that the test captured by itself: it goes with this device too.
  void adopt(Graph graph);
  [[nodiscard]] std::vector<Stream> streams() const;
  [[nodiscard]] std::size_t node_count(Exec exec) const;  ///< 0 for an exec that is gone
  [[nodiscard]] std::size_t live_graphs() const;          ///< adopted ones included
  [[nodiscard]] std::size_t live_execs() const;
  [[nodiscard]] std::size_t live_events() const;
  [[nodiscard]] std::uint64_t allocated_bytes() const;  ///< device memory, without the guards
  [[nodiscard]] std::size_t live_allocations() const;   ///< without retained memory

  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  Result<std::byte*> allocate(std::size_t bytes) override;
  void free(std::byte* memory) noexcept override;
  void retain(std::byte* memory) noexcept override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  Result<Stream> create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Result<Event> create_event() override;
  void destroy_event(Event event) noexcept override;
  Status record(Event event, Stream stream) override;
  Status wait(Stream stream, Event event) override;
  Result<bool> query(Event event) override;
  Status synchronize(Event event) override;
  Status upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                Stream stream) override;
  Status download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                  Stream stream) override;
  Status zero(std::byte* device, std::size_t bytes, Stream stream) override;
  Status close_step(wire::StepHeader* header, Stream stream) override;
  Status produce(const ProducerCall& call, Stream stream) override;
  Result<CaptureState> capture_state(Stream stream) override;
  Result<Node> captured_tail(Stream stream) override;
  Result<NodeInfo> inspect(Graph graph, Node node) override;
  Status cloneable(Graph graph) override;
  Result<Graph> clone(Graph graph) override;
  Result<Node> find_in_clone(Graph clone, Node original) override;
  Status remove_node(Graph graph, Node node) override;
  void destroy_graph(Graph graph) noexcept override;
  Result<Exec> instantiate(Graph graph, std::uint64_t flags) override;
  void destroy_exec(Exec exec) noexcept override;
  std::uint64_t exec_bytes(Exec exec) override;
  Status set_enabled(Exec exec, Node node, bool enabled) override;
  Status launch(Exec exec, Stream stream) override;
  [[nodiscard]] std::uint64_t now_ns() const noexcept override { return inner_->now_ns(); }
  void idle() noexcept override { inner_->idle(); }

 private:
  enum class Kind : std::uint8_t { device, pinned };
  struct Block {
    std::size_t bytes = 0;
    Kind kind = Kind::device;
    bool live = true;
    bool retained = false;
    bool filled = false;  // freed, and nobody could still be writing to it
  };
  using Blocks = std::map<std::byte*, Block>;

  template <class Work>
  auto guarded(Call call, Work work) -> decltype(work());
  // What `work` makes is remembered in `made` until it is destroyed.
  template <class Handle, class Work>
  Result<Handle> making(Call call, std::set<Handle>& made, Work work);
  template <class Handle>
  bool forget(std::set<Handle>& made, Handle handle, const char* what) noexcept;
  Result<std::byte*> allocate(std::size_t bytes, Kind kind);
  void free(std::byte* memory, Kind kind) noexcept;
  void release(std::byte* memory, const Block& block) noexcept;
  void violation(std::string what);
  void check(std::byte* memory, std::size_t bytes, Kind kind, std::byte value,
             const std::string& what);
  // Device memory is reached through `window_`, on a stream of our own.
  Status fill(std::byte* memory, std::size_t bytes, Kind kind, std::byte value);
  Status through_window();

  const std::shared_ptr<Device> inner_;
  const FaultyOptions options_;
  Faults faults_;
  std::array<std::atomic<std::uint64_t>, kCalls> calls_{};
  std::atomic<std::uint64_t> calls_after_loss_{0};
  mutable std::mutex mutex_;  // guards what follows up to the violations
  Blocks blocks_;
  std::uint64_t device_bytes_ = 0;
  std::set<Stream> streams_;
  std::set<Event> events_;
  std::set<Graph> graphs_;
  std::set<Exec> execs_;
  std::map<Exec, std::size_t> nodes_;  // of each exec, if they are counted
  std::mutex violations_mutex_;
  std::vector<std::string> violations_;
  std::mutex window_mutex_;
  std::byte* window_ = nullptr;  // pinned
  Stream stream_{};
  Event event_{};
};

}  // namespace graphtap::testing
