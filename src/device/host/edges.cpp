#include "device/host/edges.hpp"

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

std::vector<HostEdge> full_edges(const std::vector<HostEdge>& a, const std::vector<HostEdge>& b) {
  std::vector<HostEdge> full;
  full.reserve(a.size() + b.size());
  for (const auto* edges : {&a, &b}) {
    std::copy_if(edges->begin(), edges->end(), std::back_inserter(full),
                 [](const HostEdge& edge) { return !edge.programmatic; });
  }
  return full;
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
  const std::vector<HostEdge> full = full_edges(kept, added);
  std::optional<Successors> successors;  // built when it is needed: in a chain it is not
  for (const HostEdge& edge : added) {
    const auto from_elsewhere = [&edge](const HostEdge& in) {
      return in.to == edge.to && in.from != edge.from;
    };
    const auto to_elsewhere = [&edge](const HostEdge& out) {
      return out.from == edge.from && out.to != edge.to;
    };
    const bool may_have_detour = std::any_of(full.begin(), full.end(), to_elsewhere) &&
                                 std::any_of(full.begin(), full.end(), from_elsewhere);
    if (may_have_detour && !successors) {
      successors.emplace();
      for (const HostEdge& with : full) (*successors)[with.from].push_back(with.to);
    }
    if (!may_have_detour || !has_detour(*successors, edge.from, edge.to)) kept.push_back(edge);
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
