#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace graphtap::store {

/// XXH3, 64 bits.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes,
                                     std::uint64_t seed = 0) noexcept;

/// The same over pieces, so that a large payload is hashed while it is warm in the cache.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;
  void reset() noexcept;
  void add(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] std::uint64_t value() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The bytes of a stored struct before its checksum, which is its last field.
template <class T>
[[nodiscard]] std::uint64_t checksum_before_last(const T& value, std::uint64_t seed = 0) noexcept {
  return checksum(std::as_bytes(std::span(&value, 1)).first(sizeof(T) - sizeof(std::uint64_t)),
                  seed);
}

}  // namespace graphtap::store
