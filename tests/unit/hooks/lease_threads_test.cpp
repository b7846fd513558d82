#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hooks/lease_book.hpp"

// Meant for ThreadSanitizer as much as for the assertions.

namespace graphtap {
namespace {

constexpr std::size_t kHooks = 64;
constexpr int kThreads = 4;

LeaseSpec claim(int owner, std::initializer_list<HookId> ids) {
  LeaseSpec spec;
  spec.name = std::to_string(owner);
  spec.hooks = HookSet::of(kHooks, std::vector<HookId>(ids));
  return spec;
}

TEST(LeaseThreads, A4_ClaimsFromAnyThreadWhileDemandIsRead) {
  const auto book = LeaseBook::make(HookSet::all(kHooks));
  std::atomic<bool> stop{false};
  std::uint64_t reads = 0;
  std::thread reader([&] {
    std::uint64_t version = 0;
    while (!stop.load() || reads == 0) {
      const std::uint64_t announced = book->version();
      const auto demand = book->current();
      EXPECT_GE(demand->version, announced);  // who sees a version gets at least its demand
      EXPECT_GE(demand->version, version);
      version = demand->version;
      HookSet all = demand->unfiltered;
      for (const auto& spec : demand->filtered) all = all | spec->hooks;
      EXPECT_EQ(all, demand->enabled);  // never a mixture of two claims
      (void)book->leases();
      ++reads;
    }
  });
  // Thread t claims hooks 8t … 8t+7 only, so that the end result is known whatever the
  // interleaving.
  std::vector<std::thread> consumers;
  std::vector<Lease> kept(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    consumers.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const auto hook = [&] { return static_cast<HookId>(8 * t + static_cast<int>(random() % 8)); };
      for (int i = 0; i < 500; ++i) {
        LeaseSpec spec = claim(t, {hook(), hook()});
        if (random() % 2 == 0) spec.requests = {"r"};
        spec.priority = static_cast<int>(random() % 3);
        Lease lease = book->add(spec).value_or_throw();
        EXPECT_TRUE(book->current()->enabled.contains_all(spec.hooks));
        EXPECT_TRUE(lease.update(claim(t, {hook()})).ok());
        if (random() % 2 == 0) lease.release();
      }
      kept[static_cast<std::size_t>(t)] =
          book->add(claim(t, {static_cast<HookId>(8 * t)})).value_or_throw();
    });
  }
  for (std::thread& consumer : consumers) consumer.join();
  stop.store(true);
  reader.join();
  EXPECT_GT(reads, 0U);
  EXPECT_EQ(book->current()->enabled, claim(0, {0, 8, 16, 24}).hooks);
  EXPECT_EQ(book->leases().size(), static_cast<std::size_t>(kThreads));
}

TEST(LeaseThreads, A18_LeasesEndWhileTheBookDoes) {
  for (int round = 0; round < 100; ++round) {
    auto book = LeaseBook::make(HookSet::all(kHooks));
    std::vector<Lease> leases;
    for (int t = 0; t < kThreads; ++t) leases.push_back(book->add(claim(t, {0})).value_or_throw());
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (Lease& lease : leases) {
      threads.emplace_back([&ready, mine = std::move(lease)]() mutable {
        ready.fetch_add(1);
        while (ready.load() <= kThreads) std::this_thread::yield();
        EXPECT_TRUE(mine.update(claim(9, {1})).ok());
        mine.release();
      });
    }
    while (ready.load() < kThreads) std::this_thread::yield();
    ready.fetch_add(1);
    book.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace graphtap
