#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace graphtap {

using HookId = std::uint16_t;  ///< index of a hook in its HookTable

/// An immutable set of hooks: a bitset over one table. Copies share storage (a pointer each), so
/// that a set can be swapped and kept by plans at no cost. Thread-safe, as every immutable value
/// is.
class HookSet {
 public:
  HookSet() = default;  ///< empty, over an empty table
  [[nodiscard]] static HookSet none(std::size_t universe);
  [[nodiscard]] static HookSet all(std::size_t universe);
  /// Throws Error(invalid_argument) unless every id < universe.
  [[nodiscard]] static HookSet of(std::size_t universe, std::span<const HookId> ids);

  [[nodiscard]] std::size_t universe() const noexcept { return universe_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool contains(HookId id) const noexcept;
  /// False for a set over another table, unless that one is empty.
  [[nodiscard]] bool contains_all(const HookSet& other) const noexcept;
  [[nodiscard]] std::vector<HookId> ids() const;
  [[nodiscard]] std::size_t hash() const noexcept;

  /// Throw Error(invalid_argument) unless both operands are over tables of the same size.
  friend HookSet operator|(const HookSet& a, const HookSet& b);
  friend HookSet operator&(const HookSet& a, const HookSet& b);
  friend HookSet operator-(const HookSet& a, const HookSet& b);
  friend bool operator==(const HookSet& a, const HookSet& b) noexcept;

 private:
  HookSet(std::size_t universe, std::vector<std::uint64_t> words);
  std::shared_ptr<const std::vector<std::uint64_t>> words_;  // null when the set is empty
  std::size_t universe_ = 0;
  std::size_t count_ = 0;
};

}  // namespace graphtap
