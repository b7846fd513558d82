#pragma once
// graphtap's side of the benchmarks: a table, a sink that counts, graphs with producers, and what
// is derived from them.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "common.hpp"
#include "device/device.hpp"
#include "graphtap/monitor.hpp"
#include "model.hpp"

namespace graphtap::bench {

/// resid_pre of each layer, bf16, kHidden wide.
[[nodiscard]] HookTable table_of(int layers);
[[nodiscard]] std::shared_ptr<Device> open_device();
/// The first `rows` rows of `data`, which lie one behind the other.
[[nodiscard]] Source rows_of(const std::byte* data, int rows);
/// `count` hooks of `hooks`, evenly spread.
[[nodiscard]] std::vector<HookId> spread(int count, int hooks);

/// Counts what it is given; takes `delay` for each step.
class CountingSink : public Sink {
 public:
  explicit CountingSink(std::chrono::nanoseconds delay = {}) : delay_(delay) {}
  [[nodiscard]] std::string name() const override { return "counting"; }
  Status write(const DeliveredStep& step) override;
  std::atomic<std::uint64_t> steps{0}, records{0}, gaps{0}, bytes{0};

 private:
  const std::chrono::nanoseconds delay_;
};

/// A decode batch: `rows` requests, one token each.
class DecodeBatch {
 public:
  DecodeBatch(Monitor& monitor, int rows);
  /// The next step's shape, valid until the next call.
  StepShape next();

 private:
  std::vector<RowSpan> spans_;
};

/// One step captured through a lane, with a producer before each layer.
class Instrumented {
 public:
  Instrumented(Device& device, Lane& lane, const DecodeModel& model, int rows, cudaStream_t stream);
  ~Instrumented();
  Instrumented(const Instrumented&) = delete;
  Instrumented& operator=(const Instrumented&) = delete;
  [[nodiscard]] Graph graph() const { return to_graph(graph_); }
  [[nodiscard]] Node producer(HookId hook) const { return producers_[hook]; }
  [[nodiscard]] int hooks() const { return static_cast<int>(producers_.size()); }
  [[nodiscard]] wire::StepHeader* header() const { return header_; }

 private:
  cudaGraph_t graph_ = nullptr;
  std::vector<Node> producers_;  // by hook
  wire::StepHeader* header_ = nullptr;
};

/// An exec of a clone of `from` in which only the producers of `keep` are left, or are enabled.
class Derived {
 public:
  enum class How { remove, disable };
  Derived(Device& device, const Instrumented& from, std::span<const HookId> keep, How how);
  ~Derived();
  Derived(const Derived&) = delete;
  Derived& operator=(const Derived&) = delete;
  [[nodiscard]] Exec exec() const { return exec_; }

 private:
  Device& device_;
  Graph clone_{};
  Exec exec_{};
};

/// A step header written by hand: it stays as it is until it is written again, since nothing closes
/// it.
class HandWrittenHeader {
 public:
  HandWrittenHeader(Device& device, int hooks, int rows);
  ~HandWrittenHeader();
  HandWrittenHeader(const HandWrittenHeader&) = delete;
  HandWrittenHeader& operator=(const HandWrittenHeader&) = delete;
  /// Turns `on` ON, with all rows, and everything else OFF; an empty set is an OFF header. Waits
  /// for it.
  void write(wire::StepHeader* header, std::span<const HookId> on, Stream stream);
  [[nodiscard]] std::uint64_t frame_bytes() const { return frame_bytes_; }

 private:
  Device& device_;
  std::uint32_t slots_, rows_;
  std::uint64_t image_bytes_, frame_bytes_;
  std::byte* image_ = nullptr;
  std::byte* frame_ = nullptr;
};

/// A step of the lane: plan, upload, launch, close.
void native_step(Lane& lane, BoundGraph& graph, DecodeBatch& batch, Stream stream);
/// Steps until the bound graph runs an exec of its own for the enabled set. Fails after some
/// seconds.
void settle(Lane& lane, BoundGraph& graph, DecodeBatch& batch, const OwnStream& stream, Exec owner);

/// Fails unless planned = delivered + missing + shed for every hook, nothing is left, and nothing
/// is missing.
void check_accounts(const Stats& stats);
/// The same as an object of the result file.
[[nodiscard]] nlohmann::json accounts_of(const Counts& counts);
[[nodiscard]] Counts operator-(Counts left, const Counts& right);

}  // namespace graphtap::bench
