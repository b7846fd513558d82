#pragma once
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace graphtap {

/// What kind of thing went wrong. The command maps each to an exit code (see docs/exit-codes.md).
enum class Code {
  ok,
  invalid_argument,  ///< the caller's words are off: unknown hook, bad selection, wrong size
  not_found,         ///< a file, model, request or store that is not there
  exhausted,         ///< ring, staging, disk or device memory is full
  timeout,           ///< a deadline passed
  unavailable,       ///< locked, read-only, closed, or a sink that cannot be reached
  unsupported,       ///< a newer format, a graph that cannot be cloned, …
  corrupt,           ///< stored data fails its checks
  io_error,          ///< the operating system refused a read or write
  device_error,      ///< the device refused a call; the message carries its own name for it
  device_lost,       ///< a sticky device error: no further call may be made
};

/// Stable lower-case name, e.g. "invalid_argument".
[[nodiscard]] const char* to_string(Code code) noexcept;

/// An error as a value: a code and a message that names what was wrong, where, and what would be
/// right.
class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const noexcept { return code_ == Code::ok; }
  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// Thrown by the public API where a caller's mistake cannot be an ordinary outcome.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  explicit Error(const Status& status) : Error(status.code(), status.message()) {}
  [[nodiscard]] Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : data_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return data_.index() == 0; }
  [[nodiscard]] const T& value() const& { return std::get<0>(data_); }
  [[nodiscard]] T& value() & { return std::get<0>(data_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(data_)); }
  [[nodiscard]] Status status() const { return ok() ? Status{} : std::get<1>(data_); }

  /// The value, or throws Error with the status.
  T value_or_throw() && {
    if (!ok()) throw Error(std::get<1>(data_));
    return std::get<0>(std::move(data_));
  }

 private:
  std::variant<T, Status> data_;
};

}  // namespace graphtap
