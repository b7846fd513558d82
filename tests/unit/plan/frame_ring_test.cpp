#include "plan/frame_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "device/host/random.hpp"
#include "plan/tickets.hpp"

namespace graphtap {
namespace {

/// A ring over memory of the test's own, which counts how the memory ends.
struct Owned {
  explicit Owned(std::uint64_t bytes, std::uint64_t nonce = 7) : memory(bytes) {
    ring = FrameRing::make(
        memory.data(), bytes, nonce, [this](std::byte*) { ++freed; },
        [this](std::byte*) { ++kept; });
  }
  std::vector<std::byte> memory;
  int freed = 0, kept = 0;
  std::shared_ptr<FrameRing> ring;
};

TEST(FrameRing, I4_LoansThatAreOutNeverShareAByte) {
  Owned owned(256);
  const auto first = owned.ring->try_lend(96);
  const auto second = owned.ring->try_lend(96);
  ASSERT_TRUE(first && second);
  EXPECT_GE(second->data(), first->data() + first->bytes());
  EXPECT_EQ(owned.ring->try_lend(96), nullptr);
  EXPECT_EQ(owned.ring->used(), 192u);
  EXPECT_EQ(owned.ring->largest_free(), 64u);
}

TEST(FrameRing, I4_ComesBackWithTheLastCopyOfALoan) {
  Owned owned(256);
  auto loan = owned.ring->try_lend(256);
  auto copy = loan;
  loan.reset();
  EXPECT_EQ(owned.ring->returns(), 0u);
  EXPECT_EQ(owned.ring->try_lend(16), nullptr);
  copy.reset();
  EXPECT_EQ(owned.ring->returns(), 1u);
  EXPECT_NE(owned.ring->try_lend(256), nullptr);
  EXPECT_EQ(owned.ring->high_water(), 256u);
}

TEST(FrameRing, I1_MagicCarriesTheRingsNonce) {
  Owned one(64, 1), two(64, 2);
  EXPECT_NE(one.ring->magic(), two.ring->magic());
  EXPECT_EQ(one.ring->try_lend(16)->magic(), one.ring->magic());
}

TEST(FrameRing, MemoryIsFreedOnceWhenRingAndLastLoanAreGone) {
  Owned owned(128);
  auto loan = owned.ring->try_lend(32);
  owned.ring.reset();
  EXPECT_EQ(owned.freed, 0);
  std::memset(loan->data(), 1, loan->bytes());  // still there
  loan.reset();
  EXPECT_EQ(owned.freed, 1);
  EXPECT_EQ(owned.kept, 0);
}

TEST(FrameRing, MemoryThatTheDeviceMayStillTouchIsKeptAndNotFreed) {
  Owned owned(128);
  auto loan = owned.ring->try_lend(32);
  loan->keep_memory();
  loan->keep_memory();  // a second time changes nothing
  loan.reset();
  owned.ring.reset();
  EXPECT_EQ(owned.freed, 0);
  EXPECT_EQ(owned.kept, 1);
}

TEST(FrameRing, WaitingReturnsAtOnceForWhatWasAlreadyGivenBack) {
  Owned owned(64);
  const std::uint64_t seen = owned.ring->returns();
  owned.ring->try_lend(16).reset();
  owned.ring->wait_for_return(seen, 3'600'000'000'000);  // would be an hour
  EXPECT_EQ(owned.ring->returns(), seen + 1);
}

TEST(FrameRing, WaitingIsWokenByAReturnFromAnotherThread) {
  Owned owned(64);
  auto loan = owned.ring->try_lend(64);
  std::thread other([&] { loan.reset(); });
  while (owned.ring->try_lend(64) == nullptr) {
    owned.ring->wait_for_return(0, 3'600'000'000'000);
  }
  other.join();
}

TEST(FrameRing, I4_ThreadsNeverWriteIntoEachOthersLoans) {
  constexpr std::uint64_t kCapacity = 4096;
  constexpr int kThreads = 4, kRounds = 2000;
  Owned owned(kCapacity);
  std::atomic<std::uint64_t> broken{0}, lent{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t) + 1);
      std::vector<std::pair<std::shared_ptr<FrameLoan>, int>> held;
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t seen = owned.ring->returns();
        if (auto loan = owned.ring->try_lend(16 * (1 + random.below(40)))) {
          const int mark = static_cast<int>(random.below(256));
          std::memset(loan->data(), mark, loan->bytes());
          held.emplace_back(std::move(loan), mark);
          lent.fetch_add(1, std::memory_order_relaxed);
        } else if (held.empty()) {
          owned.ring->wait_for_return(seen, 1'000'000);
        }
        if (held.size() > 3 || (!held.empty() && random.chance(0.4))) {
          const auto& [loan, mark] = held.front();
          for (std::uint64_t i = 0; i < loan->bytes(); ++i) {
            if (loan->data()[i] != static_cast<std::byte>(mark)) {
              broken.fetch_add(1, std::memory_order_relaxed);
              break;
            }
          }
          held.erase(held.begin());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken.load(), 0u);
  EXPECT_EQ(owned.ring->returns(), lent.load());
  EXPECT_EQ(owned.ring->used(), 0u);
  EXPECT_EQ(owned.ring->largest_free(), kCapacity);
  EXPECT_GT(owned.ring->wraps(), 0u);
}

TEST(Tickets, I1_AreUniqueAcrossThreadsAndNeverZero) {
  constexpr std::size_t kThreads = 4, kEach = 5000;
  std::vector<std::vector<std::uint64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < kEach; ++i) mine.push_back(next_ticket());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& mine : drawn) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_NE(all.front(), 0u) << "0 means OFF";
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "a ticket came twice";
}

}  // namespace
}  // namespace graphtap
