#include "graphtap/hook_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <unordered_set>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap {
namespace {

using Model = std::set<HookId>;

std::vector<HookId> listed(const Model& model) { return {model.begin(), model.end()}; }

HookSet set_of(std::size_t universe, const Model& model) {
  return HookSet::of(universe, listed(model));
}

void expect_same(const HookSet& set, const Model& model, std::size_t universe) {
  EXPECT_EQ(set.universe(), universe);
  EXPECT_EQ(set.ids(), listed(model));
  EXPECT_EQ(set.count(), model.size());
  EXPECT_EQ(set.empty(), model.empty());
  for (std::size_t id = 0; id < universe; ++id) {
    EXPECT_EQ(set.contains(static_cast<HookId>(id)), model.contains(static_cast<HookId>(id))) << id;
  }
}

TEST(HookSet, A3_AlgebraAgreesWithStdSet) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const std::size_t universe = random() % 200;
    const auto draw = [&] {
      Model model;
      const auto density = static_cast<unsigned>(random() % 5);  // 0: empty, 4: full
      for (std::size_t id = 0; id < universe; ++id) {
        if (random() % 4 < density) model.insert(static_cast<HookId>(id));
      }
      return model;
    };
    const Model a = draw();
    const Model b = random() % 8 == 0 ? a : draw();
    Model both;
    Model either;
    Model rest;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::inserter(either, either.end()));
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
    const HookSet x = set_of(universe, a);
    const HookSet y = set_of(universe, b);
    expect_same(x, a, universe);
    expect_same(x | y, either, universe);
    expect_same(x & y, both, universe);
    expect_same(x - y, rest, universe);
    EXPECT_EQ(x == y, a == b);
    EXPECT_EQ(x.contains_all(y), std::includes(a.begin(), a.end(), b.begin(), b.end()));
    EXPECT_EQ((x - y) | (x & y), x);
    EXPECT_EQ(((x - y) | (x & y)).hash(), x.hash());
    expect_same(x, a, universe);  // the operands are as they were
  }
}

TEST(HookSet, A3_AllAndNoneAtWordBoundaries) {
  for (std::size_t universe : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 129U, 65'535U}) {
    const HookSet all = HookSet::all(universe);
    EXPECT_EQ(all.count(), universe);
    EXPECT_EQ(HookSet::none(universe).count(), 0U);
    EXPECT_EQ(all.ids().size(), universe);
    EXPECT_TRUE((HookSet::all(universe) - all).empty());
    EXPECT_TRUE(all.contains_all(HookSet::none(universe)));
    EXPECT_FALSE(all.contains(static_cast<HookId>(universe)));
  }
}

TEST(HookSet, A3_TheDefaultIsAnEmptySetOverNoTable) {
  const HookSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set, HookSet::none(0));
  EXPECT_FALSE(set.contains(0));
  EXPECT_NE(set, HookSet::none(1));
}

TEST(HookSet, E_MixingTablesIsRefused) {
  const HookSet a = HookSet::all(3);
  const HookSet b = HookSet::all(4);
  EXPECT_THROW((void)(a | b), Error);
  EXPECT_THROW((void)(a & b), Error);
  EXPECT_THROW((void)(a - b), Error);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a.contains_all(b));
  EXPECT_TRUE(a.contains_all(HookSet::none(4)));
  const HookId outside[] = {3};
  EXPECT_THROW((void)HookSet::of(3, outside), Error);
}

TEST(HookSet, A3_HashesSpread) {
  std::unordered_set<std::size_t> hashes;
  for (HookId id = 0; id < 500; ++id) {
    const HookId one[] = {id};
    hashes.insert(HookSet::of(500, one).hash());
  }
  hashes.insert(HookSet::none(500).hash());
  EXPECT_EQ(hashes.size(), 501U);
  EXPECT_NE(HookSet::none(1).hash(), HookSet::none(2).hash());
}

}  // namespace
}  // namespace graphtap
