#include "graphtap/lease.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hooks/lease_book.hpp"

namespace graphtap {
namespace {

HookSet of(std::size_t universe, std::initializer_list<HookId> ids) {
  return HookSet::of(universe, std::vector<HookId>(ids));
}

LeaseSpec claim(std::string name, HookSet hooks) {
  LeaseSpec spec;
  spec.name = std::move(name);
  spec.hooks = std::move(hooks);
  return spec;
}

std::vector<std::string> names(const std::vector<std::shared_ptr<const LeaseSpec>>& specs) {
  std::vector<std::string> result;
  for (const auto& spec : specs) result.push_back(spec->name);
  return result;
}

TEST(LeaseBook, A18_StartsWithNothingEnabled) {
  const auto book = LeaseBook::make(HookSet::all(4));
  const auto demand = book->current();
  EXPECT_EQ(demand->version, book->version());
  EXPECT_GE(demand->version, 1U);  // so that 0 can mean "not read yet"
  EXPECT_EQ(demand->enabled, HookSet::none(4));
  EXPECT_EQ(demand->unfiltered, HookSet::none(4));
  EXPECT_TRUE(demand->filtered.empty());
  EXPECT_EQ(demand->priority, std::vector<int>(4, 0));
}

TEST(LeaseBook, A18_AHookStaysOnUntilItsLastLeaseEnds) {
  const auto book = LeaseBook::make(HookSet::all(4));
  Lease a = book->add(claim("a", of(4, {0, 1}))).value_or_throw();
  {
    const Lease b = book->add(claim("b", of(4, {1, 2}))).value_or_throw();
    EXPECT_EQ(book->current()->enabled, of(4, {0, 1, 2}));
    a.release();
    EXPECT_FALSE(a.held());
    EXPECT_EQ(book->current()->enabled, of(4, {1, 2}));
  }
  EXPECT_TRUE(book->current()->enabled.empty());
}

TEST(LeaseBook, A18_FilteredLeasesAreListedAndFullOnesAreNot) {
  const auto book = LeaseBook::make(HookSet::all(6));
  LeaseSpec request = claim("request", of(6, {0, 1}));
  request.requests = {"r1"};
  LeaseSpec window = claim("window", of(6, {2}));
  window.windows = {{1000, 2000, TokenWindow::From::response}};
  LeaseSpec sampled = claim("sampled", of(6, {3}));
  sampled.sampling.every_step = 4;
  LeaseSpec decode = claim("decode", of(6, {4}));
  decode.sampling.phase = Sampling::Phase::decode;
  std::vector<Lease> held;
  for (const LeaseSpec& spec : {request, window, sampled, decode}) {
    held.push_back(book->add(spec).value_or_throw());
  }
  held.push_back(book->add(claim("full", of(6, {1, 5}))).value_or_throw());
  const auto demand = book->current();
  EXPECT_EQ(demand->enabled, HookSet::all(6));
  EXPECT_EQ(demand->unfiltered, of(6, {1, 5}));
  ASSERT_EQ(names(demand->filtered),
            (std::vector<std::string>{"request", "window", "sampled", "decode"}));
  EXPECT_EQ(demand->filtered[1]->windows[0].begin, 1000);
  EXPECT_EQ(book->leases().size(), 5U);
  EXPECT_EQ(book->leases().back().name, "full");
}

TEST(LeaseBook, A18_PriorityIsTheHighestOfAHooksLeases) {
  const auto book = LeaseBook::make(HookSet::all(4));
  LeaseSpec low = claim("low", of(4, {0, 1}));
  low.priority = -5;
  LeaseSpec high = claim("high", of(4, {1, 2}));
  high.priority = 7;
  const Lease a = book->add(low).value_or_throw();
  Lease b = book->add(high).value_or_throw();
  EXPECT_EQ(book->current()->priority, (std::vector<int>{-5, 7, 7, 0}));
  b.release();
  EXPECT_EQ(book->current()->priority, (std::vector<int>{-5, -5, 0, 0}));
}

TEST(LeaseBook, A18_UpdateReplacesTheClaim) {
  const auto book = LeaseBook::make(HookSet::all(4));
  Lease lease = book->add(claim("a", of(4, {0}))).value_or_throw();
  const std::uint64_t before = book->version();
  EXPECT_TRUE(lease.update(claim("a2", of(4, {2, 3}))).ok());
  EXPECT_EQ(book->current()->enabled, of(4, {2, 3}));
  EXPECT_GT(book->version(), before);
  EXPECT_EQ(book->leases().front().name, "a2");
  EXPECT_TRUE(lease.update(claim("off", HookSet::none(4))).ok());
  EXPECT_TRUE(book->current()->enabled.empty());
  EXPECT_TRUE(lease.held());
}

TEST(LeaseBook, A5_ADemandIsOneValueThatChangesNeverReach) {
  const auto book = LeaseBook::make(HookSet::all(4));
  Lease lease = book->add(claim("a", of(4, {0}))).value_or_throw();
  const auto planned = book->current();
  EXPECT_EQ(book->current(), planned);  // unchanged: the same value
  ASSERT_TRUE(lease.update(claim("a", of(4, {3}))).ok());
  EXPECT_EQ(planned->enabled, of(4, {0}));
  EXPECT_NE(book->current(), planned);
}

TEST(LeaseBook, A3_HooksOutsideTheActiveOnesAreDropped) {
  const auto book = LeaseBook::make(of(4, {0, 1}));
  EXPECT_EQ(book->active(), of(4, {0, 1}));
  const Lease lease = book->add(claim("a", HookSet::all(4))).value_or_throw();
  EXPECT_EQ(book->current()->enabled, of(4, {0, 1}));
  EXPECT_EQ(book->leases().front().hooks, of(4, {0, 1}));
}

TEST(LeaseBook, E_BadClaimsAreRefusedAndChangeNothing) {
  const auto book = LeaseBook::make(of(4, {0, 1}));
  Lease good = book->add(claim("good", of(4, {0}))).value_or_throw();
  const auto with = [](auto change) {
    LeaseSpec spec = claim("mine", of(4, {0}));
    change(spec);
    return spec;
  };
  const std::pair<LeaseSpec, const char*> cases[] = {
      {claim("mine", HookSet::all(5)), "lease \"mine\": its hook set is over a table of 5 hooks"},
      {claim("mine", HookSet()), "over a table of 0 hooks"},
      {claim("mine", of(4, {2, 3})), "none of its hooks is active"},
      {with([](LeaseSpec& s) {
         s.windows = {{0, 4, {}}, {5, 5, {}}};
       }),
       "the token window [5, 5) holds"},
      {with([](LeaseSpec& s) {
         s.windows = {{5, 4, {}}};
       }),
       "the token window [5, 4) holds no token"},
      {with([](LeaseSpec& s) {
         s.windows = {{-1, 4, {}}};
       }),
       "the token window [-1, 4)"},
      {with([](LeaseSpec& s) { s.sampling.every_step = 0; }), "a sampling stride of 0"},
      {with([](LeaseSpec& s) { s.sampling.every_request = 0; }), "a sampling stride of 0"},
  };
  const std::uint64_t version = book->version();
  for (const auto& [spec, says] : cases) {
    const Result<Lease> added = book->add(spec);
    ASSERT_FALSE(added.ok()) << says;
    EXPECT_EQ(added.status().code(), Code::invalid_argument);
    EXPECT_NE(added.status().message().find(says), std::string::npos) << added.status().message();
    EXPECT_EQ(good.update(spec).code(), Code::invalid_argument);
    EXPECT_EQ(book->version(), version);
    EXPECT_EQ(book->current()->enabled, of(4, {0}));
  }
}

TEST(Lease, A18_MovesAndEndsOnce) {
  const auto book = LeaseBook::make(HookSet::all(4));
  Lease a = book->add(claim("a", of(4, {0}))).value_or_throw();
  Lease b = std::move(a);
  EXPECT_FALSE(
      a.held());  // NOLINT(bugprone-use-after-move): what a moved-from lease says is the point
  EXPECT_TRUE(b.held());
  EXPECT_EQ(book->leases().size(), 1U);
  Lease c = book->add(claim("c", of(4, {1}))).value_or_throw();
  b = std::move(c);  // ends what b held
  EXPECT_EQ(book->current()->enabled, of(4, {1}));
  Lease& same = b;
  b = std::move(same);
  EXPECT_TRUE(b.held());
  b.release();
  const std::uint64_t version = book->version();
  b.release();
  EXPECT_EQ(book->version(), version);
  EXPECT_EQ(b.update(claim("b", of(4, {0}))).code(), Code::unavailable);
  EXPECT_TRUE(book->leases().empty());
  EXPECT_FALSE(Lease().held());
}

TEST(Lease, A18_MayOutliveItsBook) {
  Lease lease;
  {
    const auto book = LeaseBook::make(HookSet::all(4));
    lease = book->add(claim("a", of(4, {0}))).value_or_throw();
  }
  EXPECT_TRUE(lease.update(claim("a", of(4, {1}))).ok());
  lease.release();
  EXPECT_FALSE(lease.held());
}

LeaseSpec random_claim(std::mt19937& random, std::size_t universe, const std::string& name) {
  std::vector<HookId> ids;
  for (std::size_t id = 0; id < universe; ++id) {
    if (random() % 3 == 0) ids.push_back(static_cast<HookId>(id));
  }
  LeaseSpec spec = claim(name, HookSet::of(universe, ids));
  if (random() % 4 == 0) spec.requests = {"r"};
  if (random() % 4 == 0) spec.windows = {{0, 5, TokenWindow::From::sequence}};
  if (random() % 8 == 0) spec.sampling.every_request = 2;
  if (random() % 2 == 0) spec.priority = static_cast<int>(random() % 9) - 4;
  return spec;
}

/// What the book must publish for these claims, computed from nothing but sets of numbers.
void expect_demand(const Demand& demand, const std::map<int, LeaseSpec>& claims,
                   const HookSet& active) {
  std::set<HookId> enabled;
  std::set<HookId> full;
  std::vector<std::string> filtered;
  std::map<HookId, int> priority;
  for (const auto& [order, spec] : claims) {
    const bool narrow =
        !spec.requests.empty() || !spec.windows.empty() || spec.sampling.every_request != 1;
    if (narrow) filtered.push_back(spec.name);
    for (HookId id : spec.hooks.ids()) {
      if (!active.contains(id)) continue;
      enabled.insert(id);
      if (!narrow) full.insert(id);
      const auto known = priority.find(id);
      priority[id] =
          known == priority.end() ? spec.priority : std::max(known->second, spec.priority);
    }
  }
  EXPECT_EQ(demand.enabled.ids(), std::vector<HookId>(enabled.begin(), enabled.end()));
  EXPECT_EQ(demand.unfiltered.ids(), std::vector<HookId>(full.begin(), full.end()));
  EXPECT_EQ(names(demand.filtered), filtered);
  ASSERT_EQ(demand.priority.size(), active.universe());
  for (std::size_t id = 0; id < active.universe(); ++id) {
    const auto known = priority.find(static_cast<HookId>(id));
    EXPECT_EQ(demand.priority[id], known == priority.end() ? 0 : known->second) << "hook " << id;
  }
}

TEST(LeaseBookProperty, A18_TheUnionAgreesWithANaiveModel) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const std::size_t universe = 1 + random() % 100;
    const HookSet active =
        random() % 2 == 0 ? HookSet::all(universe) : random_claim(random, universe, "active").hooks;
    const auto book = LeaseBook::make(active);
    std::map<int, LeaseSpec> claims;  // by order of arrival
    std::map<int, Lease> leases;
    std::uint64_t version = book->version();
    for (int step = 0; step < 60; ++step) {
      const LeaseSpec spec = random_claim(random, universe, "lease " + std::to_string(step));
      const bool valid = spec.hooks.empty() || !(spec.hooks & active).empty();
      const bool adds = leases.empty() || random() % 3 == 0;
      bool changed = true;
      if (adds) {
        Result<Lease> lease = book->add(spec);
        ASSERT_EQ(lease.ok(), valid);
        changed = valid;
        if (valid) {
          claims.emplace(step, spec);
          leases.emplace(step, std::move(lease).value());
        }
      } else {
        const auto it =
            std::next(leases.begin(), static_cast<std::ptrdiff_t>(random() % leases.size()));
        if (random() % 2 == 0) {
          ASSERT_EQ(it->second.update(spec).ok(), valid);
          changed = valid;
          if (valid) claims[it->first] = spec;
        } else {
          claims.erase(it->first);
          leases.erase(it);
        }
      }
      EXPECT_EQ(book->version(), version + (changed ? 1 : 0));
      version = book->version();
      EXPECT_EQ(book->current()->version, version);
      EXPECT_EQ(book->leases().size(), claims.size());
      expect_demand(*book->current(), claims, active);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace graphtap
