#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "store/open_sink.hpp"
#include "unit/store/support/faulty_ops.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

/// What a store should hold, kept the simplest way there is: one entry a row.
class Model {
 public:
  struct Row {
    std::vector<std::byte> bytes;
    std::uint64_t ticket;
    RowFlags flags;
    std::size_t at;  // how many rejections came before it
  };
  struct Rejection {
    std::uint64_t request;
    TokenRange tokens;
  };
  using Place = std::tuple<std::uint32_t, std::uint64_t, HookId, std::uint16_t, std::int64_t>;

  void add(std::uint32_t run, const OwnedStep& step, const HookTable& table) {
    for (const OwnedRecord& record : step.records) {
      const std::uint64_t width = table[record.hook].row_bytes(record.columns);
      for (const Slice& slice : record.slices) {
        for (std::uint32_t i = 0; i < slice.rows; ++i) {
          const auto* begin = record.payload.data() + (slice.row + i) * width;
          rows_[{run, slice.request->serial, record.hook, record.ordinal, slice.first_token + i}]
              .push_back(
                  {{begin, begin + width}, step.ticket, slice.flags, rejections_[run].size()});
        }
      }
    }
    for (const OwnedGap& gap : step.gaps) {
      for (const Slice& slice : gap.slices) {
        for (std::uint32_t i = 0; i < slice.rows; ++i) {
          gaps_[{run, slice.request->serial, gap.hook, gap.ordinal, slice.first_token + i}] =
              gap.reason;
        }
      }
    }
  }
  void reject(std::uint32_t run, std::uint64_t request, TokenRange tokens) {
    rejections_[run].push_back({request, tokens});
  }
  bool rejected(const Place& place, const Row& row) const {
    const auto& [run, request, hook, ordinal, token] = place;
    const auto& all = rejections_.at(run);
    for (std::size_t i = row.at; i < all.size(); ++i) {
      if (all[i].request == request && token >= all[i].tokens.begin && token < all[i].tokens.end)
        return true;
    }
    return false;
  }
  const std::map<Place, std::vector<Row>>& rows() const { return rows_; }
  const std::map<Place, GapReason>& gaps() const { return gaps_; }

 private:
  std::map<Place, std::vector<Row>> rows_;
  std::map<Place, GapReason> gaps_;
  mutable std::map<std::uint32_t, std::vector<Rejection>> rejections_;
};

HookTable random_table(Random& random) {
  HookTable table("random");
  const int layers = 1 + static_cast<int>(below(random, 4));
  for (int layer = 0; layer < layers; ++layer) {
    const auto dtype = static_cast<DType>(1 + below(random, 15));
    const auto width = static_cast<std::int64_t>(1 + below(random, below(random, 2) ? 40 : 4000));
    static_cast<void>(table.add({"resid_pre", layer, dtype, {width}, 2, 1}).value_or_throw());
    if (below(random, 2)) {
      static_cast<void>(
          table.add({"pattern", layer, dtype, {3, kPerStepColumns}, 1, 1}).value_or_throw());
    }
  }
  static_cast<void>(table.add({"final_logits", -1, DType::f32, {11}, 1, 1}).value_or_throw());
  return table;
}

/// Slices of some of the requests, each a little further than before, now and then a step back.
std::vector<Slice> random_slices(Random& random, const std::vector<Request>& requests,
                                 std::map<std::uint64_t, std::int64_t>& next) {
  std::vector<Slice> slices;
  std::uint32_t row = 0;
  for (const Request& request : requests) {
    if (below(random, 3) == 0) continue;
    std::int64_t& token = next[request->serial];
    RowFlags flags = RowFlags::none;
    if (below(random, 8) == 0 && token > 3) {
      token -= 3;
      flags = flags | RowFlags::recomputed;
    }
    if (below(random, 6) == 0) flags = flags | RowFlags::speculative;
    const auto rows = static_cast<std::uint32_t>(1 + below(random, below(random, 4) == 0 ? 9 : 1));
    slices.push_back({request, token, row, rows, flags});
    token += rows;
    row += rows;
  }
  return slices;
}

OwnedStep random_step(Random& random, const HookTable& table, std::uint64_t ticket,
                      const std::vector<Slice>& slices, std::uint64_t& seed) {
  OwnedStep step;
  step.ticket = step.step = ticket;
  step.lane = static_cast<std::uint32_t>(below(random, 2));
  step.kind = below(random, 2) ? StepKind::graph : StepKind::eager;
  step.set_version = ticket / 5;
  step.end_unix_ns = static_cast<std::int64_t>(ticket);
  std::vector<HookId> wanted;
  for (const Hook& hook : table.hooks()) {
    if (below(random, 2)) continue;
    wanted.push_back(hook.id);
    std::vector<Slice> own = slices;
    if (below(random, 5) == 0 && own.size() > 1) {  // gathered: only some of the requests
      own.erase(own.begin());
      std::uint32_t row = 0;
      for (Slice& slice : own) {
        slice.row = row;
        row += slice.rows;
      }
    }
    for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
      if (below(random, 8) == 0) {
        const GapReason reasons[] = {GapReason::not_fired, GapReason::wrong_head,
                                     GapReason::shed_ring};
        step.gaps.push_back({hook.id, ordinal, reasons[below(random, 3)], own});
      } else {
        const auto columns =
            static_cast<std::int64_t>(hook.type == "pattern" ? 1 + below(random, 30) : 0);
        step.records.push_back(make_record(table, hook.id, own, ++seed, columns));
        step.records.back().ordinal = ordinal;
      }
    }
  }
  step.wanted = HookSet::of(table.size(), wanted);
  return step;
}

class Property : public testing::TestWithParam<std::uint64_t> {
 protected:
  void check_rows(const StoreReader& reader) {
    std::map<Model::Place, std::size_t> seen;
    RecordCursor cursor = reader.read({}).value_or_throw();
    RecordView view;
    while (cursor.next(view)) {
      for (std::uint32_t i = 0; i < view.rows; ++i) {
        const Model::Place place{view.run->number, view.request, view.hook->id, view.ordinal,
                                 view.first_token + i};
        const auto rows = model_.rows().find(place);
        ASSERT_NE(rows, model_.rows().end()) << "a row that nobody stored";
        ASSERT_LT(seen[place], rows->second.size());
        const Model::Row& row = rows->second[seen[place]++];
        EXPECT_EQ(view.step.ticket, row.ticket);
        EXPECT_EQ(view.flags, row.flags);
        EXPECT_EQ(view.rejected, model_.rejected(place, row));
        EXPECT_TRUE(same_bytes(view.data.subspan(i * view.row_bytes, view.row_bytes), row.bytes));
      }
    }
    for (const auto& [place, rows] : model_.rows()) EXPECT_EQ(seen[place], rows.size());
  }
  void check_gaps(const StoreReader& reader) {
    std::map<Model::Place, GapReason> found;
    for (const GapView& gap : all_of(reader.gaps({}))) {
      for (std::uint32_t i = 0; i < gap.rows; ++i) {
        found[{gap.run->number, gap.request, gap.hook->id, gap.ordinal, gap.first_token + i}] =
            gap.reason;
      }
    }
    EXPECT_EQ(found, model_.gaps());
  }
  /// One gather a (request, hook, ordinal), over a random range, against the model's rows.
  void check_gathers(const StoreReader& reader, Random& random) {
    for (const RequestSummary& request : reader.requests()) {
      for (const Hook& hook : request.run->hooks) {
        if (hook.type == "pattern") continue;
        GatherQuery query;
        query.run = request.run->number;
        query.serial = request.serial;
        query.hook = hook.name;
        query.ordinal = static_cast<std::uint16_t>(below(random, hook.ordinals));
        query.begin = static_cast<std::int64_t>(below(random, 6));
        query.end = query.begin + static_cast<std::int64_t>(below(random, 60));
        const Gathered all = reader.gather(query).value_or_throw();
        std::vector<bool> missing(static_cast<std::size_t>(query.end - query.begin), false);
        for (const MissingTokens& range : all.missing) {
          for (std::int64_t t = range.tokens.begin; t < range.tokens.end; ++t) {
            missing.at(static_cast<std::size_t>(t - query.begin)) = true;
          }
        }
        for (std::int64_t token = query.begin; token < query.end; ++token) {
          const Model::Place place{query.run.value(), request.serial, hook.id, query.ordinal,
                                   token};
          const Model::Row* last = nullptr;
          if (const auto rows = model_.rows().find(place); rows != model_.rows().end()) {
            for (const Model::Row& row : rows->second) {
              if (!model_.rejected(place, row)) last = &row;
            }
          }
          const auto i = static_cast<std::size_t>(token - query.begin);
          ASSERT_EQ(missing[i], last == nullptr) << hook.name << " token " << token;
          if (last) {
            EXPECT_TRUE(same_bytes(std::span(all.data).subspan(i * all.row_bytes, all.row_bytes),
                                   last->bytes));
          }
        }
      }
    }
  }
  Model model_;
};

TEST_P(Property, D6_WhateverWasStoredIsReadBackAndNothingElse) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  Random random(GetParam());
  const TempDir dir;
  std::uint64_t seed = GetParam() << 32;
  const std::uint32_t runs = 1 + static_cast<std::uint32_t>(below(random, 3));
  std::uint64_t refused = 0;
  for (std::uint32_t run = 1; run <= runs; ++run) {
    FaultyOps ops;
    const HookTable table = random_table(random);
    StoreOptions options;
    options.segment_bytes = 1 + below(random, 400 << 10);
    const auto sink = store::open_sink(ops, dir.store(), table, options).value_or_throw();
    std::vector<Request> requests;
    std::map<std::uint64_t, std::int64_t> next;
    const std::uint64_t steps = below(random, 40);
    for (std::uint64_t ticket = 1; ticket <= steps; ++ticket) {
      if (requests.size() < 5 && (requests.empty() || below(random, 4) == 0)) {
        const auto serial = static_cast<std::uint64_t>(next.size() + 1);
        requests.push_back(make_request(serial, "request " + std::to_string(serial % 3)));
        next[serial] = 0;
        ASSERT_OK(sink->event({RequestEvent::Kind::begun, requests.back(), 0, 0, true, 0, 0}));
      } else if (requests.size() > 1 && below(random, 9) == 0) {
        requests.erase(requests.begin());
      }
      const OwnedStep step =
          random_step(random, table, ticket, random_slices(random, requests, next), seed);
      if (below(random, 4) == 0) {
        const Fault faults[] = {Fault::refused, Fault::partial, Fault::done};
        ops.fail_once(ops.calls() + below(random, 3), faults[below(random, 3)], EIO);
      }
      Status status = sink->write(step.delivered(table));
      for (int again = 0; again < 5 && !status.ok(); ++again) {
        ++refused;
        status = sink->write(step.delivered(table));
      }
      ASSERT_OK(status);
      ops.heal();
      model_.add(run, step, table);
      if (below(random, 6) == 0) {
        const Request& request = requests[below(random, requests.size())];
        const std::int64_t end = next[request->serial];
        const TokenRange tokens{
            std::max<std::int64_t>(0, end - static_cast<std::int64_t>(below(random, 4))), end};
        ASSERT_OK(sink->event(
            {RequestEvent::Kind::rejected, request, tokens.begin, tokens.end, true, 0, 0}));
        model_.reject(run, request->serial, tokens);
        if (below(random, 2)) next[request->serial] = tokens.begin;
      }
    }
    ASSERT_OK(sink->close());
  }
  const VerifyReport report = verify_store(dir.store(), true).value_or_throw();
  EXPECT_TRUE(report.ok()) << describe(report.findings);
  const auto reader = read_store(dir.store());
  check_rows(*reader);
  check_gaps(*reader);
  check_gathers(*reader, random);
  RecordProperty("refused", static_cast<int>(refused));
}
INSTANTIATE_TEST_SUITE_P(Seeds, Property, testing::Range<std::uint64_t>(1, 41));

}  // namespace
}  // namespace graphtap::store_test
