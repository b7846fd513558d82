#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace graphtap {

/// One request being served. `id` is the user's; two requests with one id are told apart by
/// `serial`.
struct RequestInfo {
  std::uint64_t serial = 0;  ///< unique in the process, in order of arrival, from 1
  std::string id;
  std::int64_t prompt_tokens = 0;  ///< where the response starts
};
using Request = std::shared_ptr<const RequestInfo>;

/// What is known of a range of rows besides whose they are.
enum class RowFlags : std::uint8_t {
  none = 0,
  recomputed = 1,   ///< this token range was computed before (preemption): a duplicate
  speculative = 2,  ///< drafted: counts only once accepted (see RequestEvent::rejected)
};
[[nodiscard]] constexpr RowFlags operator|(RowFlags a, RowFlags b) noexcept {
  return static_cast<RowFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] constexpr bool has(RowFlags set, RowFlags flag) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(flag)) != 0;
}

/// `rows` consecutive rows of a step that hold the tokens [first_token, first_token + rows) of a
/// request. A null request: rows that nobody could place (delivered as unattributed).
struct RowSpan {
  Request request;
  std::int64_t first_token = 0;
  std::uint32_t rows = 0;
  RowFlags flags = RowFlags::none;
};

/// Something that happened to a request, delivered to sinks in order with its records.
struct RequestEvent {
  enum class Kind : std::uint8_t {
    begun = 1,
    not_computed = 2,  ///< tokens [begin, end) came from a prefix cache: no rows exist
    rejected = 3,      ///< speculative tokens [begin, end) were not accepted
    finished = 4,      ///< every record of the request was delivered before this event
  };
  Kind kind = Kind::begun;
  Request request;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool valid = true;  ///< finished: nothing that was enabled for it is missing, shed or lost
  std::uint64_t records = 0;  ///< finished: records that held rows of it
  std::uint64_t gaps = 0;     ///< finished: records that should have
};

}  // namespace graphtap
