#include "graphtap/hook_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "graphtap/status.hpp"

namespace graphtap {
namespace {

constexpr std::size_t kBits = 64;

std::size_t words_for(std::size_t universe) { return (universe + kBits - 1) / kBits; }

void require_same_table(const HookSet& a, const HookSet& b) {
  if (a.universe() != b.universe()) {
    throw Error(Code::invalid_argument,
                fmt::format("hook sets over different tables: one of {} hooks, the other of {}",
                            a.universe(), b.universe()));
  }
}

}  // namespace

HookSet::HookSet(std::size_t universe, std::vector<std::uint64_t> words) : universe_(universe) {
  for (std::uint64_t word : words) count_ += static_cast<std::size_t>(std::popcount(word));
  if (count_ > 0) words_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(words));
}

HookSet HookSet::none(std::size_t universe) {
  HookSet set;
  set.universe_ = universe;
  return set;
}

HookSet HookSet::all(std::size_t universe) {
  std::vector<std::uint64_t> words(words_for(universe), ~std::uint64_t{0});
  if (universe % kBits != 0) words.back() = (std::uint64_t{1} << (universe % kBits)) - 1;
  return {universe, std::move(words)};
}

HookSet HookSet::of(std::size_t universe, std::span<const HookId> ids) {
  std::vector<std::uint64_t> words(words_for(universe));
  for (HookId id : ids) {
    if (id >= universe) {
      throw Error(Code::invalid_argument,
                  fmt::format("hook {} is not in a table of {} hooks", id, universe));
    }
    words[id / kBits] |= std::uint64_t{1} << (id % kBits);
  }
  return {universe, std::move(words)};
}

bool HookSet::contains(HookId id) const noexcept {
  return words_ && id < universe_ && ((*words_)[id / kBits] >> (id % kBits) & 1) != 0;
}

bool HookSet::contains_all(const HookSet& other) const noexcept {
  if (other.empty()) return true;
  if (universe_ != other.universe_ || count_ < other.count_) return false;
  if (words_ == other.words_) return true;
  for (std::size_t i = 0; i < words_->size(); ++i) {
    if (((*other.words_)[i] & ~(*words_)[i]) != 0) return false;
  }
  return true;
}

std::vector<HookId> HookSet::ids() const {
  std::vector<HookId> ids;
  ids.reserve(count_);
  for (std::size_t i = 0; words_ && i < words_->size(); ++i) {
    for (std::uint64_t rest = (*words_)[i]; rest != 0; rest &= rest - 1) {
      ids.push_back(
          static_cast<HookId>(i * kBits + static_cast<std::size_t>(std::countr_zero(rest))));
    }
  }
  return ids;
}

std::size_t HookSet::hash() const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U ^ universe_;
  for (std::size_t i = 0; words_ && i < words_->size(); ++i) {
    hash = (hash ^ (*words_)[i]) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::size_t>(hash);
}

// The operators share storage whenever the result is one of the operands: swapping between a few
// sets, the usual case, then allocates nothing.
HookSet operator|(const HookSet& a, const HookSet& b) {
  require_same_table(a, b);
  if (b.empty() || a.words_ == b.words_) return a;
  if (a.empty()) return b;
  std::vector<std::uint64_t> words(*a.words_);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] |= (*b.words_)[i];
  return {a.universe_, std::move(words)};
}

HookSet operator&(const HookSet& a, const HookSet& b) {
  require_same_table(a, b);
  if (a.empty() || a.words_ == b.words_) return a;
  if (b.empty()) return b;
  if (a.count_ == a.universe_) return b;
  if (b.count_ == b.universe_) return a;
  std::vector<std::uint64_t> words(*a.words_);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] &= (*b.words_)[i];
  return {a.universe_, std::move(words)};
}

HookSet operator-(const HookSet& a, const HookSet& b) {
  require_same_table(a, b);
  if (a.empty() || b.empty()) return a;
  std::vector<std::uint64_t> words(*a.words_);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] &= ~(*b.words_)[i];
  return {a.universe_, std::move(words)};
}

bool operator==(const HookSet& a, const HookSet& b) noexcept {
  if (a.universe_ != b.universe_ || a.count_ != b.count_) return false;
  return a.words_ == b.words_ || (a.words_ && b.words_ && *a.words_ == *b.words_);
}

}  // namespace graphtap
