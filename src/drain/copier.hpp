#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/event_pool.hpp"

namespace graphtap {

/// A frame on its way to staging. Whoever started it keeps both ends alive until it has landed, or,
/// if it was cancelled or refused, until what is on the copy streams now is done.
struct FrameCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
  bool cancelled = false;  ///< set by its owner: no more of it is given to the device
  bool refused = false;    ///< the device refused too often in a row: it will not land

  [[nodiscard]] bool landed() const noexcept { return issued == bytes && turns == 0; }

  std::uint64_t issued = 0;    // given to the device
  std::uint32_t turns = 0;     // under way with a part of it
  std::uint32_t refusals = 0;  // in a row
};

/// Copies frames in turns of at most kTurnBytes. Each stream has one turn at a time, and the next
/// one is given to it when that is done.
///
/// A stream that is always given more than it can do keeps the copy engine for itself: on an H200 a
/// 4 KiB copy of another stream, like the engine's own of its sampled tokens, waited for as long as
/// ours went on, priorities notwithstanding. With two streams that take turns it waits 0.1 ms (p99)
/// and the rate is 99 % of that (bench/results/h200/drain.json). One thread at a time.
class Copier {
 public:
  static constexpr std::uint64_t kTurnBytes = 4ull << 20;
  static constexpr std::size_t kStreams = 2;
  /// Device refusals in a row after which a copy is given up.
  static constexpr std::uint32_t kAttempts = 16;

  /// `note_error` hears every refusal. After device_lost no call is made any more.
  Copier(Device& device, EventPool& events, const std::vector<Stream>& streams,
         std::function<void(const Status&)> note_error);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  std::shared_ptr<FrameCopy> start(std::byte* to, const std::byte* from, std::uint64_t bytes);
  /// Ends turns and begins others. True if anything moved.
  bool pump();

 private:
  struct Turn {
    Stream stream{};
    Event end{};  // 0: not recorded yet
    std::uint32_t refusals = 0;
    std::vector<std::shared_ptr<FrameCopy>> copies;  // empty: the stream is free
  };

  bool finish(Turn& turn);
  bool begin(Turn& turn);
  bool seal(Turn& turn);
  void note(const Status& status);
  bool refused(Turn& turn, const Status& status);
  void clear(Turn& turn);

  Device& device_;
  EventPool& events_;
  const std::function<void(const Status&)> note_error_;
  std::vector<Turn> turns_;
  std::deque<std::shared_ptr<FrameCopy>> waiting_;
  bool lost_ = false;
};

}  // namespace graphtap
