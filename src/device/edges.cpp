#include "device/edges.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
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

std::vector<GraphEdge> full_edges(const std::vector<GraphEdge>& a,
                                  const std::vector<GraphEdge>& b) {
  std::vector<GraphEdge> full;
  full.reserve(a.size() + b.size());
  for (const auto* edges : {&a, &b}) {
    std::copy_if(edges->begin(), edges->end(), std::back_inserter(full),
                 [](const GraphEdge& edge) { return !edge.programmatic; });
  }
  return full;
}

}  // namespace

std::vector<GraphEdge> without_node(const std::vector<GraphEdge>& edges, Node node,
                                    const std::function<bool(Node)>& is_kernel) {
  std::vector<GraphEdge> kept;
  std::vector<GraphEdge> before;
  std::vector<GraphEdge> behind;
  kept.reserve(edges.size());
  for (const GraphEdge& edge : edges) {
    (edge.to == node ? before : edge.from == node ? behind : kept).push_back(edge);
  }

  std::vector<GraphEdge> added;
  for (const GraphEdge& in : before) {
    for (const GraphEdge& out : behind) {
      const bool weak = out.programmatic && !in.programmatic && is_kernel(in.from);
      const auto same = std::find_if(kept.begin(), kept.end(), [&](const GraphEdge& edge) {
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
  const std::vector<GraphEdge> full = full_edges(kept, added);
  std::optional<Successors> successors;  // built when it is needed: in a chain it is not
  for (const GraphEdge& edge : added) {
    const auto from_elsewhere = [&edge](const GraphEdge& in) {
      return in.to == edge.to && in.from != edge.from;
    };
    const auto to_elsewhere = [&edge](const GraphEdge& out) {
      return out.from == edge.from && out.to != edge.to;
    };
    const bool may_have_detour = std::any_of(full.begin(), full.end(), to_elsewhere) &&
                                 std::any_of(full.begin(), full.end(), from_elsewhere);
    if (may_have_detour && !successors) {
      successors.emplace();
      for (const GraphEdge& with : full) (*successors)[with.from].push_back(with.to);
    }
    if (!may_have_detour || !has_detour(*successors, edge.from, edge.to)) kept.push_back(edge);
  }
  return kept;
}

bool reaches(const std::vector<GraphEdge>& edges, Node from, Node to) {
  Successors successors;
  for (const GraphEdge& edge : edges) {
    if (edge.from == from && edge.to == to) return true;
    successors[edge.from].push_back(edge.to);
  }
  return has_detour(successors, from, to);
}

}  // namespace graphtap
