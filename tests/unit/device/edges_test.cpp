#include "device/edges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/host/random.hpp"

namespace graphtap {
namespace {

Node n(std::uintptr_t id) { return Node{id}; }
GraphEdge full(std::uintptr_t from, std::uintptr_t to) { return {n(from), n(to), false}; }
GraphEdge early(std::uintptr_t from, std::uintptr_t to) { return {n(from), n(to), true}; }
bool all_kernels(Node) { return true; }

std::vector<GraphEdge> sorted(std::vector<GraphEdge> edges) {
  std::sort(edges.begin(), edges.end(), [](const GraphEdge& a, const GraphEdge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return edges;
}

TEST(Edges, A1_AChainClosesUp) {
  EXPECT_EQ(without_node({full(1, 2), full(2, 3)}, n(2), all_kernels),
            (std::vector<GraphEdge>{full(1, 3)}));
  EXPECT_TRUE(without_node({full(1, 2)}, n(2), all_kernels).empty());
  EXPECT_TRUE(without_node({full(1, 2)}, n(1), all_kernels).empty());
}

TEST(Edges, A1_APathThatExistsIsNotDuplicated) {
  // 1 → 2 → 4 beside 1 → 3 → 4: without 2 the order 1 before 4 holds already.
  EXPECT_EQ(
      sorted(without_node({full(1, 2), full(2, 4), full(1, 3), full(3, 4)}, n(2), all_kernels)),
      (std::vector<GraphEdge>{full(1, 3), full(3, 4)}));
  // A side branch: 1 → 2, 1 → 3, 2 → 4, 3 → 4 and the hook 2 also before 5.
  EXPECT_EQ(sorted(without_node({full(1, 2), full(1, 3), full(3, 4), full(2, 4), full(2, 5)}, n(2),
                                all_kernels)),
            (std::vector<GraphEdge>{full(1, 3), full(1, 5), full(3, 4)}));
}

TEST(Edges, A1_ProgrammaticEdgesSurviveOnlyWhereBothSidesAllow) {
  const auto one = [](const GraphEdge& in, const GraphEdge& out, bool kernel) {
    return without_node({in, out}, n(2), [kernel](Node) { return kernel; });
  };
  EXPECT_EQ(one(full(1, 2), early(2, 3), true), (std::vector<GraphEdge>{early(1, 3)}));
  EXPECT_EQ(one(full(1, 2), early(2, 3), false), (std::vector<GraphEdge>{full(1, 3)}));
  EXPECT_EQ(one(early(1, 2), early(2, 3), true), (std::vector<GraphEdge>{full(1, 3)}));
  EXPECT_EQ(one(early(1, 2), full(2, 3), true), (std::vector<GraphEdge>{full(1, 3)}));
}

TEST(Edges, A1_AWeakEdgeThatIsThereBecomesFull) {
  EXPECT_EQ(without_node({early(1, 3), full(1, 2), full(2, 3)}, n(2), all_kernels),
            (std::vector<GraphEdge>{full(1, 3)}));
}

TEST(Edges, A1_AProgrammaticPathDoesNotStandInForAFullEdge) {
  EXPECT_EQ(
      sorted(without_node({early(1, 4), full(4, 3), full(1, 2), full(2, 3)}, n(2), all_kernels)),
      (std::vector<GraphEdge>{full(1, 3), early(1, 4), full(4, 3)}));
}

// Every pair (a, b) with a path from a to b.
std::set<std::pair<Node, Node>> order_of(const std::vector<GraphEdge>& edges, std::uintptr_t nodes,
                                         Node without) {
  std::set<std::pair<Node, Node>> order;
  for (std::uintptr_t a = 1; a <= nodes; ++a) {
    for (std::uintptr_t b = 1; b <= nodes; ++b) {
      if (n(a) != without && n(b) != without && reaches(edges, n(a), n(b)))
        order.insert({n(a), n(b)});
    }
  }
  return order;
}
std::set<std::pair<Node, Node>> implied(const std::vector<GraphEdge>& edges) {
  std::set<std::pair<Node, Node>> result;
  for (const GraphEdge& edge : edges) {
    std::vector<GraphEdge> others;
    for (const GraphEdge& other : edges) {
      if (other != edge) others.push_back(other);
    }
    if (reaches(others, edge.from, edge.to)) result.insert({edge.from, edge.to});
  }
  return result;
}

TEST(Edges, A1_RandomGraphsKeepTheirOrderAndGetNoImpliedEdge) {
  std::size_t rewired = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const std::uintptr_t nodes = 3 + random.below(10);
    std::vector<GraphEdge> edges;
    for (std::uintptr_t a = 1; a <= nodes; ++a) {
      for (std::uintptr_t b = a + 1; b <= nodes; ++b) {
        if (random.below(100) < 30) edges.push_back(full(a, b));
      }
    }
    for (int removals = 0; removals < 3; ++removals) {
      const Node gone = n(1 + random.below(nodes));
      const auto before = order_of(edges, nodes, gone);
      const auto implied_before = implied(edges);
      const auto left = without_node(edges, gone, all_kernels);
      rewired += left.size() + 2 > edges.size();
      ASSERT_EQ(order_of(left, nodes, Node{}), before) << "seed " << seed;
      for (const auto& pair : implied(left)) {
        ASSERT_TRUE(implied_before.contains(pair)) << "seed " << seed << ": a new edge is implied";
      }
      std::set<std::pair<Node, Node>> seen;
      for (const GraphEdge& edge : left) {
        ASSERT_TRUE(seen.insert({edge.from, edge.to}).second) << "seed " << seed << ": twice";
      }
      edges = left;
    }
  }
  EXPECT_GT(rewired, 100u);
}

}  // namespace
}  // namespace graphtap
