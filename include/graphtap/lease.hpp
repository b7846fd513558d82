#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/hook_set.hpp"
#include "graphtap/selection.hpp"

namespace graphtap {

/// A range of tokens, [begin, end), counted from the start of the sequence or of the response.
struct TokenWindow {
  enum class From : std::uint8_t { sequence, response };
  std::int64_t begin = 0;
  std::int64_t end = 0;
  From from = From::sequence;
};

/// A consumer's claim: these hooks, for these requests, in these token windows.
struct LeaseSpec {
  std::string name;  ///< shown in statistics
  HookSet hooks;
  std::vector<std::string> requests;  ///< user ids; empty: every request
  std::vector<TokenWindow> windows;   ///< empty: every token
  Sampling sampling;
  int priority = 0;  ///< higher is shed later

  /// True when no row or step is filtered out.
  [[nodiscard]] bool unfiltered() const noexcept {
    return requests.empty() && windows.empty() && sampling == Sampling{};
  }
};

class LeaseBook;

/// Keeps a claim alive; the claim ends with it. Move-only. Thread-safe against everything but
/// itself. Outliving its monitor is allowed: it then does nothing.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept : book_(std::move(other.book_)), id_(std::exchange(other.id_, 0)) {}
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { release(); }

  /// Replaces the claim; takes effect at the next plan. Errors: as for a new lease
  /// (invalid_argument for a set over another table, …), and the old claim stays; unavailable once
  /// it was released.
  Status update(LeaseSpec spec);
  /// Ends the claim; a second call does nothing.
  void release() noexcept;
  [[nodiscard]] bool held() const noexcept { return id_ != 0; }

 private:
  friend class LeaseBook;
  Lease(std::weak_ptr<LeaseBook> book, std::uint64_t id) : book_(std::move(book)), id_(id) {}
  std::weak_ptr<LeaseBook> book_;
  std::uint64_t id_ = 0;
};

}  // namespace graphtap
