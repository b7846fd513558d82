#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "graphtap/sink.hpp"

namespace graphtap {
namespace {

/// A chunked record carries fewer bytes than rows × row_bytes, so the range is clamped to what is
/// there.
std::span<const std::byte> rows_of(const Record& record, const Slice& slice) {
  const std::size_t size = record.payload.size();
  const std::size_t begin = std::min<std::size_t>(size, slice.row * record.row_bytes);
  return record.payload.subspan(begin,
                                std::min<std::size_t>(size - begin, slice.rows * record.row_bytes));
}

/// A user's function that throws is called again by the retry. The calls that returned are not
/// repeated: `done_` counts them for the step that is being tried.
class CallbackSink final : public Sink {
 public:
  CallbackSink(std::string name, Callbacks callbacks)
      : name_(std::move(name)), callbacks_(std::move(callbacks)) {}

  [[nodiscard]] std::string name() const override { return name_; }

  Status write(const DeliveredStep& step) override {
    if (!trying_ || step.ticket != ticket_ || step.part != part_) {
      trying_ = true;
      ticket_ = step.ticket;
      part_ = step.part;
      done_ = 0;
    }
    std::size_t place = 0;
    for (const Record& record : step.records) {
      for (const Slice& slice : record.slices) {
        if (!callbacks_.on_slice || !slice.request || place++ < done_) continue;
        callbacks_.on_slice(CallbackSlice{step, record, slice, rows_of(record, slice)});
        ++done_;
      }
    }
    for (const Gap& gap : step.gaps) {
      if (!callbacks_.on_gap || place++ < done_) continue;
      callbacks_.on_gap(step, gap);
      ++done_;
    }
    trying_ = false;
    return {};
  }

  Status event(const RequestEvent& event) override {
    if (callbacks_.on_event) callbacks_.on_event(event);
    return {};
  }

 private:
  const std::string name_;
  const Callbacks callbacks_;
  bool trying_ = false;
  std::uint64_t ticket_ = 0;
  std::uint32_t part_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

std::shared_ptr<Sink> make_callback_sink(std::string name, Callbacks callbacks) {
  return std::make_shared<CallbackSink>(std::move(name), std::move(callbacks));
}

}  // namespace graphtap
