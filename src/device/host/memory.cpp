#include "device/host/memory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>

namespace graphtap {
namespace {

constexpr std::align_val_t kAlignment{256};  // what cudaMalloc promises
constexpr std::size_t kViolationsKept = 100;

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
void release(std::uintptr_t address) {
  ::operator delete(reinterpret_cast<void*>(address), kAlignment);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, block] : blocks_) release(address);
}

Result<std::byte*> DeviceMemory::allocate(std::size_t bytes, Kind kind) {
  const auto refuse = [bytes](const char* why) {
    return Status(Code::exhausted,
                  fmt::format("cudaErrorMemoryAllocation: {} bytes: {}", bytes, why));
  };
  if (bytes == 0)
    return Status(Code::invalid_argument, "cudaErrorInvalidValue: allocation of 0 bytes");
  const std::unique_lock lock(mutex_);
  if (kind == Kind::device && limit_ > 0 && bytes > limit_ - device_bytes_) {
    return refuse("over the device's memory limit");
  }
  void* memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (!memory) return refuse("the host has no such block");
  std::memset(memory, kind == Kind::pinned && quarantine_ ? 0xCD : 0, bytes);
  blocks_[address_of(memory)] = {bytes, kind};
  if (kind == Kind::device) device_bytes_ += bytes;
  return static_cast<std::byte*>(memory);
}

void DeviceMemory::free(std::byte* memory, Kind kind) noexcept {
  if (!memory) return;
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(address_of(memory));
  if (found == blocks_.end() || !found->second.live || found->second.kind != kind ||
      found->second.retained) {
    violation(
        fmt::format("free of {}, which is no live allocation of that kind", fmt::ptr(memory)));
    return;
  }
  if (kind == Kind::device) device_bytes_ -= found->second.bytes;
  std::memset(memory, 0xDD, found->second.bytes);
  if (quarantine_) {
    found->second.live = false;
  } else {
    release(found->first);
    blocks_.erase(found);
  }
}

void DeviceMemory::retain(std::byte* memory) noexcept {
  if (!memory) return;
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(address_of(memory));
  if (found == blocks_.end() || !found->second.live) {
    violation(fmt::format("retain of {}, which is no live allocation", fmt::ptr(memory)));
    return;
  }
  found->second.retained = true;
}

std::map<std::uintptr_t, DeviceMemory::Block>::const_iterator DeviceMemory::block_at(
    std::uintptr_t address) const {
  const auto behind = blocks_.upper_bound(address);
  return behind == blocks_.begin() ? blocks_.end() : std::prev(behind);
}

bool DeviceMemory::live(const void* memory, std::uint64_t bytes) const {
  const std::uintptr_t address = address_of(memory);
  const auto found = block_at(address);
  if (found == blocks_.end()) return false;
  const Block& block = found->second;
  const std::uint64_t offset = address - found->first;
  return block.live && block.kind == Kind::device && offset <= block.bytes &&
         bytes <= block.bytes - offset;
}

bool DeviceMemory::freed(const void* memory, std::uint64_t bytes) const {
  if (!quarantine_ || bytes == 0) return false;
  const std::uintptr_t address = address_of(memory);
  auto block = block_at(address);
  if (block == blocks_.end()) block = blocks_.begin();
  for (; block != blocks_.end() && block->first < address + bytes; ++block) {
    if (!block->second.live && block->first + block->second.bytes > address) return true;
  }
  return false;
}

void DeviceMemory::violation(std::string what) {
  const std::lock_guard lock(violations_mutex_);
  if (violations_.size() < kViolationsKept) violations_.push_back(std::move(what));
  ++violation_count_;
}

std::vector<std::string> DeviceMemory::violations() const {
  const std::lock_guard lock(violations_mutex_);
  return violations_;
}

std::uint64_t DeviceMemory::allocated_bytes() const {
  const std::shared_lock lock(mutex_);
  return device_bytes_;
}

std::size_t DeviceMemory::live_allocations() const {
  const std::shared_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [address, block] : blocks_) count += block.live && !block.retained;
  return count;
}

}  // namespace graphtap
