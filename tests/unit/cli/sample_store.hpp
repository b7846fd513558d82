#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "graphtap/store_sink.hpp"
#include "unit/cli/support.hpp"

namespace graphtap::cli {

/// A store made by hand, every cell of it known:
///   four layers of resid_pre (rows of two floats), resid_final and token_ids; two requests.
///   Steps 0-3 capture everything (tokens 0-3 of both requests), steps 4-5 nothing, step 6
///   resid_pre of layers 1-2, of which layer 2 was shed, step 7 everything again, token 2 of
///   request a being recomputed. Of request b tokens 8-9 came from a prefix cache.
///   Step 8 computes tokens 9-11 of request a, of which 11 was a draft that was rejected; step 9
///   recomputes token 3 of request a, and all of it is shed.
/// The norm of resid_pre in layer l at token t of request r is norm(r, l, t).
class SampleStore {
 public:
  static double norm(int request, int layer, std::int64_t token, bool again = false) {
    return 5.0 * (1 + layer) * (1 + static_cast<double>(token)) * (request == 0 ? 1 : 2) +
           (again ? 1000 : 0);
  }

  /// Keeps a reader of it as long as the store, for what points into the reader.
  std::shared_ptr<StoreReader> keep(std::shared_ptr<StoreReader> reader) const {
    readers_.push_back(reader);
    return reader;
  }

  explicit SampleStore(const std::string& a = "alpha", const std::string& b = "beta")
      : path(dir / "store"), table("sample <model>") {
    HookSpec spec;
    spec.type = "token_ids";
    spec.dtype = DType::i32;
    (void)table.add(spec).value_or_throw();
    for (int layer = 0; layer < 4; ++layer) {
      spec = {};
      spec.type = "resid_pre";
      spec.layer = layer;
      spec.row_shape = {2};
      (void)table.add(spec).value_or_throw();
    }
    spec = {};
    spec.type = "resid_final";
    spec.row_shape = {2};
    (void)table.add(spec).value_or_throw();
    requests = {request(1, a, 2), request(2, b, 2)};
    StoreOptions options;
    options.run_name = "sample & run";
    sink = open_store_sink(path, table, options).value_or_throw();
    fill();
  }
  ~SampleStore() { close(); }

  void close() {
    if (sink) {
      EXPECT_TRUE(sink->close().ok());
    }
    sink.reset();
  }

  TempDir dir;
  const std::string path;
  HookTable table;
  std::vector<Request> requests;
  std::shared_ptr<Sink> sink;

 private:
  static Request request(std::uint64_t serial, const std::string& id, std::int64_t prompt) {
    RequestInfo info;
    info.serial = serial;
    info.id = id;
    info.prompt_tokens = prompt;
    return std::make_shared<const RequestInfo>(info);
  }

  void event(RequestEvent::Kind kind, int request, std::int64_t begin = 0, std::int64_t end = 0,
             bool valid = true, std::uint64_t gaps = 0) {
    RequestEvent event;
    event.kind = kind;
    event.request = requests[static_cast<std::size_t>(request)];
    event.begin = begin;
    event.end = end;
    event.valid = valid;
    event.gaps = gaps;
    ASSERT_TRUE(sink->event(event).ok());
  }

  /// A step with the rows of `slices` for each hook of `set`; those of `shed` become gaps.
  void step(std::uint64_t number, const std::vector<Slice>& slices, const std::vector<HookId>& set,
            const std::vector<HookId>& shed = {}) {
    DeliveredStep step;
    step.table = &table;
    step.ticket = number + 1;
    step.step = number;
    step.kind = number == 0 ? StepKind::eager : StepKind::graph;
    step.end_unix_ns = 1'700'000'000'000'000'000;
    std::vector<HookId> wanted = set;
    wanted.insert(wanted.end(), shed.begin(), shed.end());
    step.wanted = HookSet::of(table.size(), wanted);
    std::uint32_t rows = 0;
    for (const Slice& slice : slices) rows += slice.rows;
    std::vector<std::vector<std::byte>> payloads;
    for (const HookId id : set) payloads.push_back(payload(table[id], slices));
    for (std::size_t i = 0; i < set.size(); ++i) {
      const Hook& hook = table[set[i]];
      step.records.push_back({&hook, 0, rows, hook.row_bytes(), 0, payloads[i], slices});
    }
    for (const HookId id : shed) step.gaps.push_back({&table[id], 0, GapReason::shed_ring, slices});
    ASSERT_TRUE(sink->write(step).ok());
  }

  std::vector<std::byte> payload(const Hook& hook, const std::vector<Slice>& slices) {
    std::vector<std::byte> bytes;
    const auto put = [&](const void* data, std::size_t size) {
      const auto* from = static_cast<const std::byte*>(data);
      bytes.insert(bytes.end(), from, from + size);
    };
    for (const Slice& slice : slices) {
      const int which = slice.request == requests[0] ? 0 : 1;
      for (std::int64_t at = slice.first_token; at < slice.first_token + slice.rows; ++at) {
        const auto token = static_cast<std::int32_t>(100 * which + at);
        const int layer = hook.layer < 0 ? 4 : hook.layer;
        const double wanted = norm(which, layer, at, has(slice.flags, RowFlags::recomputed));
        const float values[2] = {static_cast<float>(0.6 * wanted),
                                 static_cast<float>(-0.8 * wanted)};
        if (hook.type == "token_ids") {
          put(&token, sizeof(token));
        } else {
          put(values, sizeof(values));
        }
      }
    }
    return bytes;
  }

  void fill() {
    const auto slices = [&](std::int64_t a, std::int64_t b, RowFlags flags = RowFlags::none) {
      return std::vector<Slice>{{requests[0], a, 0, 1, flags},
                                {requests[1], b, 1, 1, RowFlags::none}};
    };
    const std::vector<HookId> all{0, 1, 2, 3, 4, 5};
    event(RequestEvent::Kind::begun, 0);
    event(RequestEvent::Kind::begun, 1);
    event(RequestEvent::Kind::not_computed, 1, 8, 10);
    for (std::uint64_t i = 0; i < 4; ++i) {
      step(i, slices(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i)), all);
    }
    step(6, slices(6, 6), {2}, {3});
    step(7, slices(2, 7, RowFlags::recomputed), all);
    step(8, {{requests[0], 9, 0, 3, RowFlags::speculative}}, all);
    event(RequestEvent::Kind::rejected, 0, 11, 12);
    step(9, {{requests[0], 3, 0, 1, RowFlags::recomputed}}, {}, all);
    event(RequestEvent::Kind::finished, 0, 0, 0, false, 1);
  }

  mutable std::vector<std::shared_ptr<StoreReader>> readers_;
};

}  // namespace graphtap::cli
