#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap {

/// The device's memory and a table of it, so that a touch of what is not there is recorded, not
/// made. Thread-safe. An operation holds use() while it touches memory; free() waits for it, as
/// cudaFree does.
class DeviceMemory {
 public:
  enum class Kind : std::uint8_t { device, pinned };

  /// `quarantine`: freed blocks stay (filled with 0xDD) until the end. `limit`: device bytes, 0 =
  /// none.
  DeviceMemory(bool quarantine, std::uint64_t limit) : quarantine_(quarantine), limit_(limit) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Result<std::byte*> allocate(std::size_t bytes, Kind kind);
  void free(std::byte* memory, Kind kind) noexcept;
  void retain(std::byte* memory) noexcept;

  [[nodiscard]] std::shared_lock<std::shared_mutex> use() const { return std::shared_lock(mutex_); }
  // The next two need use().
  /// Whether all of it lies in one live device allocation.
  [[nodiscard]] bool live(const void* memory, std::uint64_t bytes) const;
  /// Whether some of it lies in memory of either kind that was freed (known only under quarantine).
  [[nodiscard]] bool freed(const void* memory, std::uint64_t bytes) const;

  void violation(std::string what);
  [[nodiscard]] std::uint64_t violation_count() const noexcept { return violation_count_.load(); }
  [[nodiscard]] std::vector<std::string> violations() const;

  [[nodiscard]] std::uint64_t allocated_bytes() const;
  [[nodiscard]] std::size_t live_allocations() const;

 private:
  struct Block {
    std::uint64_t bytes = 0;
    Kind kind = Kind::device;
    bool live = true;
    bool retained = false;
  };
  // The block that begins at or before the address, or end().
  [[nodiscard]] std::map<std::uintptr_t, Block>::const_iterator block_at(
      std::uintptr_t address) const;

  const bool quarantine_;
  const std::uint64_t limit_;
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  std::uint64_t device_bytes_ = 0;
  mutable std::mutex violations_mutex_;
  std::vector<std::string> violations_;
  std::atomic<std::uint64_t> violation_count_{0};
};

}  // namespace graphtap
