#pragma once
// Random hook tables, batches and leases: what plans are made from in the property tests.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/host/random.hpp"
#include "graphtap/hook_table.hpp"
#include "graphtap/lease.hpp"
#include "graphtap/step_shape.hpp"

namespace graphtap::testing {

/// The built-in catalogue with a global type of each row basis that it lacks.
inline Catalogue every_basis() {
  Catalogue catalogue = Catalogue::builtin();
  const Status status = catalogue.extend(
      R"({"types": [
        {"name": "expert_load", "description": "d", "shape": ["n"], "scope": "layer", "rows": "experts"},
        {"name": "step_stats", "description": "d", "shape": ["n"], "scope": "global", "rows": "fixed"},
        {"name": "pooled", "description": "d", "shape": ["n"], "scope": "layer", "rows": "requests"}
      ]})",
      "test");
  EXPECT_TRUE(status.ok()) << status.message();
  return catalogue;
}

inline HookTable random_table(Random& random) {
  HookTable table("random", every_basis());
  const auto add = [&](const char* type, int layer) {
    HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.dtype = static_cast<DType>(1 + random.below(15));
    const std::uint64_t dimensions = random.below(3);
    for (std::uint64_t i = 0; i < dimensions; ++i) {
      spec.row_shape.push_back(static_cast<std::int64_t>(1 + random.below(6)));
    }
    if (random.chance(0.15)) spec.row_shape.push_back(kPerStepColumns);
    if (random.chance(0.3)) spec.ordinals = static_cast<std::uint16_t>(1 + random.below(3));
    spec.fixed_rows = static_cast<std::uint32_t>(1 + random.below(5));
    const Result<HookId> id = table.add(std::move(spec));
    EXPECT_TRUE(id.ok()) << id.status().message();
  };
  const int layers = 1 + static_cast<int>(random.below(4));
  if (random.chance(0.5)) add("embed", -1);
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* type : {"resid_pre", "q", "pattern", "expert_load", "pooled"}) {
      if (random.chance(0.6)) add(type, layer);
    }
  }
  if (random.chance(0.5)) add("step_stats", -1);
  add("final_logits", -1);  // never an empty table
  return table;
}

inline HookSet random_set(Random& random, std::size_t universe, double density) {
  std::vector<HookId> ids;
  for (std::size_t i = 0; i < universe; ++i) {
    if (random.chance(density)) ids.push_back(static_cast<HookId>(i));
  }
  return HookSet::of(universe, ids);
}

/// A few requests; two of them share their user id.
inline std::vector<Request> random_requests(Random& random) {
  std::vector<Request> requests;
  const std::uint64_t count = 1 + random.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    requests.push_back(std::make_shared<RequestInfo>(RequestInfo{
        i + 1, "r" + std::to_string(i / 2), static_cast<std::int64_t>(random.below(9))}));
  }
  return requests;
}

/// The rows of one batch: each request at most once, some rows nobody could place, some empty
/// spans.
inline std::vector<RowSpan> random_spans(Random& random, const std::vector<Request>& requests) {
  std::vector<RowSpan> spans;
  for (const Request& request : requests) {
    if (random.chance(0.25)) continue;
    RowSpan span;
    if (!random.chance(0.1)) span.request = request;
    span.first_token = static_cast<std::int64_t>(random.below(12));
    span.rows = static_cast<std::uint32_t>(random.chance(0.5) ? 1 : random.below(8));
    span.flags = static_cast<RowFlags>(random.below(4));
    spans.push_back(std::move(span));
  }
  return spans;
}

inline LeaseSpec random_lease(Random& random, std::size_t universe) {
  LeaseSpec lease;
  lease.name = "random";
  lease.hooks = random_set(random, universe, random.chance(0.3) ? 1.0 : 0.4);
  if (random.chance(0.4)) {
    const std::uint64_t count = 1 + random.below(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      lease.requests.push_back("r" + std::to_string(random.below(4)));
    }
  }
  if (random.chance(0.4)) {
    const std::uint64_t count = 1 + random.below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      TokenWindow window;
      window.begin = static_cast<std::int64_t>(random.below(10));
      window.end = window.begin + 1 + static_cast<std::int64_t>(random.below(6));
      window.from = random.chance(0.5) ? TokenWindow::From::sequence : TokenWindow::From::response;
      lease.windows.push_back(window);
    }
  }
  if (random.chance(0.3))
    lease.sampling.every_step = static_cast<std::uint32_t>(1 + random.below(3));
  if (random.chance(0.3)) {
    lease.sampling.every_request = static_cast<std::uint32_t>(1 + random.below(3));
  }
  if (random.chance(0.3)) lease.sampling.phase = static_cast<Sampling::Phase>(1 + random.below(2));
  if (random.chance(0.5)) lease.priority = static_cast<int>(random.below(5)) - 2;
  return lease;
}

}  // namespace graphtap::testing
