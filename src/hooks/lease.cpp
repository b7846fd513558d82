#include "graphtap/lease.hpp"

#include <utility>

#include "hooks/lease_book.hpp"

namespace graphtap {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    book_ = std::move(other.book_);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

Status Lease::update(LeaseSpec spec) {
  if (id_ == 0) return {Code::unavailable, "this lease was released; ask for a new one"};
  const std::shared_ptr<LeaseBook> book = book_.lock();
  return book ? book->update(id_, std::move(spec)) : Status{};
}

void Lease::release() noexcept {
  const std::uint64_t id = std::exchange(id_, 0);
  if (id == 0) return;
  if (const std::shared_ptr<LeaseBook> book = book_.lock()) book->remove(id);
  book_.reset();
}

}  // namespace graphtap
