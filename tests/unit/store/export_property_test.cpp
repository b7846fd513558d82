// D6 over random stores: an export holds what gathers give, and an import gives it back.
#include <gtest/gtest.h>

#include <map>

#include "graphtap/store_import.hpp"
#include "store/coverage.hpp"
#include "support/seeds.hpp"
#include "unit/store/support/exports.hpp"
#include "unit/store/support/faulty_ops.hpp"

namespace graphtap::store_test {
namespace {

using Why = MissingTokens::Why;

/// What Coverage should know, a token at a time, by the rules of gather().
class Tokens {
 public:
  std::uint64_t add(TokenRange range) {
    std::uint64_t before = 0;
    for (std::int64_t t = range.begin; t < range.end; ++t)
      before += std::exchange(at(t).there, true);
    return before;
  }
  void mark(TokenRange range, Why why, GapReason reason) {
    const std::map<Why, int> rank{{Why::not_captured, 0},
                                  {Why::not_computed, 1},
                                  {Why::rejected, 2},
                                  {Why::gap, 3},
                                  {Why::damaged, 4}};
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      Token& token = at(t);
      if (rank.at(why) < rank.at(token.why)) continue;
      token.why = why;
      token.reason = why == Why::gap ? reason : GapReason::not_fired;
    }
  }
  void expect(const store::Coverage& coverage) {
    if (tokens_.empty()) return;
    const TokenRange range{tokens_.begin()->first, tokens_.rbegin()->first + 1};
    EXPECT_EQ(coverage.tokens(), range);
    std::map<std::int64_t, std::pair<Why, GapReason>> missing, told;
    std::uint64_t present = 0;
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      const auto token = tokens_.find(t);
      const Token known = token == tokens_.end() ? Token{} : token->second;
      present += known.there ? 1 : 0;
      if (!known.there) missing[t] = {known.why, known.reason};
    }
    std::int64_t end = range.begin - 1;
    const MissingTokens* last = nullptr;
    const auto ranges = coverage.missing(range);
    for (const MissingTokens& each : ranges) {
      EXPECT_GE(each.tokens.begin, end);
      if (last && each.tokens.begin == end) {
        EXPECT_FALSE(last->why == each.why && last->reason == each.reason) << "not joined";
      }
      for (std::int64_t t = each.tokens.begin; t < each.tokens.end; ++t) {
        told[t] = {each.why, each.reason};
      }
      end = each.tokens.end;
      last = &each;
    }
    EXPECT_EQ(told, missing);
    EXPECT_EQ(coverage.present(), present);
  }

 private:
  struct Token {
    bool there = false;
    Why why = Why::not_captured;
    GapReason reason = GapReason::not_fired;
  };
  Token& at(std::int64_t token) { return tokens_[token]; }
  std::map<std::int64_t, Token> tokens_;
};

TEST(ExportProperty, D6_CoverageKnowsWhatAGatherWould) {
  for (std::uint64_t seed = 1; seed <= graphtap::testing::seeds(2000); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    store::Coverage coverage;
    Tokens tokens;
    for (std::uint64_t i = 1 + below(random, 25); i > 0; --i) {
      const auto begin = static_cast<std::int64_t>(below(random, 40));
      const TokenRange range{begin, begin + static_cast<std::int64_t>(below(random, 12))};
      if (below(random, 2)) {
        EXPECT_EQ(coverage.add(range), tokens.add(range));
        continue;
      }
      const Why all[] = {Why::not_computed, Why::gap, Why::rejected, Why::damaged};
      const Why why = all[below(random, 4)];
      const GapReason reason = below(random, 2) ? GapReason::wrong_head : GapReason::shed_ring;
      coverage.mark(range, why, reason);
      tokens.mark(range, why, reason);
    }
    tokens.expect(coverage);
    if (::testing::Test::HasFailure()) return;
  }
}

/// A run of random steps: a few requests that go on, step back, draft, and lose rows.
void fill(Sink& sink, const HookTable& table, Random& random) {
  const std::vector<Request> requests{make_request(1, "a/b", 3), make_request(2, "same", 1),
                                      make_request(7, "same", 0)};
  std::map<std::uint64_t, std::int64_t> next;
  using Kind = RequestEvent::Kind;
  if (below(random, 2)) {
    EXPECT_OK(sink.event({Kind::not_computed, requests[0], 0, 4}));
    next[1] = 4;
  }
  std::uint64_t seed = random();
  for (std::uint64_t ticket = 1; ticket <= 5 + below(random, 20); ++ticket) {
    std::vector<Slice> slices;
    std::uint32_t row = 0;
    for (const Request& request : requests) {
      if (below(random, 3) == 0) continue;
      std::int64_t& token = next[request->serial];
      if (below(random, 7) == 0) token = std::max<std::int64_t>(0, token - 3);
      const auto rows = static_cast<std::uint32_t>(1 + below(random, below(random, 4) ? 1 : 9));
      const RowFlags flags = below(random, 6) ? RowFlags::none : RowFlags::speculative;
      slices.push_back({request, token, row, rows, flags});
      row += rows;
      token += rows;
    }
    if (slices.empty()) continue;
    OwnedStep step;
    step.ticket = step.step = ticket;
    std::vector<HookId> wanted;
    for (const Hook& hook : table.hooks()) {
      if (below(random, 3) == 0) continue;
      wanted.push_back(hook.id);
      for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
        if (below(random, 6) == 0) {
          step.gaps.push_back({hook.id, ordinal,
                               below(random, 2) ? GapReason::wrong_head : GapReason::shed_ring,
                               slices});
          continue;
        }
        step.records.push_back(make_record(table, hook.id, slices, ++seed));
        step.records.back().ordinal = ordinal;
      }
    }
    step.wanted = HookSet::of(table.size(), wanted);
    EXPECT_OK(sink.write(step.delivered(table)));
    if (below(random, 6) == 0) {
      const Slice& slice = slices[below(random, slices.size())];
      EXPECT_OK(sink.event(
          {Kind::rejected, slice.request, slice.first_token, slice.first_token + slice.rows}));
    }
  }
}

TEST(ExportProperty, D6_RandomStoresExportWhatGathersGiveAndComeBack) {
  for (std::uint64_t seed = 1; seed <= graphtap::testing::seeds(30); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    HookTable table("random");
    for (int layer = 0; layer < 1 + static_cast<int>(below(random, 3)); ++layer) {
      const auto ordinals = static_cast<std::uint16_t>(1 + below(random, 2));
      static_cast<void>(table
                            .add({"resid_pre",
                                  layer,
                                  kAllTypes[below(random, 15)],
                                  {static_cast<std::int64_t>(1 + below(random, 9))},
                                  ordinals,
                                  1})
                            .value_or_throw());
    }
    const TempDir dir;
    const std::uint64_t runs = 1 + below(random, 2);
    for (std::uint64_t run = 0; run < runs; ++run) {
      const auto sink = open_store(dir.store(), table);
      fill(*sink, table, random);
      EXPECT_OK(sink->close());
    }
    const auto reader = read_store(dir.store());
    ExportOptions options;
    options.format = formats()[below(random, formats().size())];
    options.compress = below(random, 2) != 0;
    options.max_file_bytes = below(random, 3) ? 1 << 30 : 200;
    options.buffer_bytes = 1 + below(random, 300);
    FaultyOps ops;
    ops.skip_syncs();
    const auto exported = store::Exporter(ops, *reader, {}, options).run(dir.path() / "out");
    if (!exported.ok()) {
      EXPECT_EQ(exported.status().code(), Code::not_found) << exported.status().message();
      continue;
    }
    expect_as_gathered(*reader, exported.value());
    ImportOptions how;
    how.buffer_bytes = 1 + below(random, 300);
    const ImportReport back =
        import_files(exported.value().files, dir.path() / "back", how).value_or_throw();
    EXPECT_EQ(back.tensors, exported.value().tensors);
    EXPECT_EQ(back.missing_rows, exported.value().missing_rows);
    const VerifyReport verified = verify_store(dir.path() / "back", true).value_or_throw();
    EXPECT_EQ(verified.count(Severity::error), 0u) << describe(verified.findings);
    const auto copy = read_store(dir.path() / "back");
    EXPECT_EQ(back.runs.size(), runs);
    if (runs == 1) expect_same_rows(*reader, *copy, 1);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace graphtap::store_test
