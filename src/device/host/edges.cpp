#include "device/host/edges.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace graphtap {
namespace {

using Successors = std::unordered_map<Node, std::vector<Node>>;

// Whether a path leads from `from` to `to` that is not just the edge between them.
bool has_detour(const Successors& successors, Node from, Node to) {
  std::vector<Node> open;
  std::unordered_set<Node> seen;
  const auto visit = [&](Node node, bool start) {
    const auto found = successors.find(node);
    if (found == successors.end()) return;
    for (const Node next : found->second) {
      if (start && next == to) continue;
      if (seen.insert(next).second) open.push_back(next);
    }
  };
  visit(from, true);
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    if (node == to) return true;
    visit(node, false);
  }
  return false;
}

}  // namespace

std::vector<HostEdge> without_node(const std::vector<HostEdge>& edges, Node node,
                                   const std::function<bool(Node)>& is_kernel) {
  std::vector<HostEdge> kept;
  std::vector<HostEdge> before;
  std::vector<HostEdge> behind;
  kept.reserve(edges.size());
  for (const HostEdge& edge : edges) {
    (edge.to == node ? before : edge.from == node ? behind : kept).push_back(edge);
  }

  std::vector<HostEdge> added;
  for (const HostEdge& in : before) {
    for (const HostEdge& out : behind) {
      const bool weak = out.programmatic && !in.programmatic && is_kernel(in.from);
      const auto same = std::find_if(kept.begin(), kept.end(), [&](const HostEdge& edge) {
        return edge.from == in.from && edge.to == out.to;
      });
      if (same == kept.end()) {
        added.push_back({in.from, out.to, weak});
      } else {
        same->programmatic = same->programmatic && weak;
      }
    }
  }

  // Only full edges count as implying something: behind a programmatic edge a kernel may start
  // early.
  Successors successors;
  for (const HostEdge& edge : kept) {
    if (!edge.programmatic) successors[edge.from].push_back(edge.to);
  }
  for (const HostEdge& edge : added) {
    if (!edge.programmatic) successors[edge.from].push_back(edge.to);
  }
  for (const HostEdge& edge : added) {
    if (!has_detour(successors, edge.from, edge.to)) kept.push_back(edge);
  }
  return kept;
}

bool reaches(const std::vector<HostEdge>& edges, Node from, Node to) {
  Successors successors;
  for (const HostEdge& edge : edges) {
    if (edge.from == from && edge.to == to) return true;
    successors[edge.from].push_back(edge.to);
  }
  return has_detour(successors, from, to);
}

}  // namespace graphtap
