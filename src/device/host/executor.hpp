#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/host/host_device.hpp"

namespace graphtap {

/// A place in a stream that others may wait for: complete once the stream has got there. Read and
/// written under its executor's lock only.
struct Point {
  bool complete = false;
};
using PointRef = std::shared_ptr<Point>;

/// One operation of a stream.
struct Operation {
  PointRef after;  // must be complete before it starts; null = nothing to wait for
  std::function<bool()>
      step;       // runs a piece of it, true when that was the last; null = nothing to run
  PointRef done;  // completed behind it; null = nobody waits for it
};

/// Runs streams. Points only ever lie behind operations that were enqueued earlier, so that waiting
/// for them cannot form a cycle. Thread-safe; operations run without any lock that the device
/// holds.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual Result<Stream> create_stream() = 0;
  /// What the stream still has to do is done; false for an unknown stream or one that is built in.
  virtual bool destroy_stream(Stream stream) = 0;
  [[nodiscard]] virtual bool has_stream(Stream stream) const = 0;
  /// False if there is no such stream.
  virtual bool enqueue(Stream stream, Operation operation) = 0;

  [[nodiscard]] virtual bool complete(const PointRef& point) const = 0;
  /// Returns when the point is complete or the device is lost.
  virtual void wait_for(const PointRef& point) = 0;
  /// The device is lost: operations that have not started are never run, and nobody waits any more.
  virtual void lose() = 0;

  /// A Device call begins.
  virtual void tick() = 0;
  virtual void idle() = 0;
  virtual bool run_one() = 0;
  virtual void run_until_idle() = 0;
  [[nodiscard]] virtual std::size_t pending(Stream stream) const = 0;
  virtual void set_advance(double probability) = 0;
  /// Which of `choices` ready graph nodes runs next; called from operations.
  virtual std::size_t choose(std::size_t choices) = 0;
  [[nodiscard]] virtual std::uint64_t now_ns() const noexcept = 0;
};

inline constexpr Stream kDefaultStream{0};
inline constexpr std::uintptr_t kFirstCreatedStream = 2;

[[nodiscard]] std::unique_ptr<Executor> make_cooperative_executor(std::uint64_t seed,
                                                                  double advance);
[[nodiscard]] std::unique_ptr<Executor> make_threaded_executor();

}  // namespace graphtap
