#include "graphtap/hook_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "unit/hooks/models.hpp"

namespace graphtap {
namespace {

using testing::must_add;
using testing::spec;

TEST(HookTable, B1_NamesIdsAndSlotsFollowTheOrderOfAdding) {
  HookTable table("m");
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.layers(), 0);
  HookSpec twice = spec("resid_pre", 24);
  twice.ordinals = 3;
  must_add(table, spec("token_ids"));
  must_add(table, twice);
  must_add(table, spec("final_logits"));
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table[0].name, "token_ids");
  EXPECT_EQ(table[1].name, "blocks.24.resid_pre");
  EXPECT_EQ(table[1].id, 1);
  EXPECT_EQ(table[1].type, "resid_pre");
  EXPECT_EQ(table[1].layer, 24);
  EXPECT_EQ(table[2].rows, RowBasis::requests);
  EXPECT_EQ(table[1].first_slot, 1U);
  EXPECT_EQ(table[2].first_slot, 4U);
  EXPECT_EQ(table.slots(), 5U);
  EXPECT_EQ(table.layers(), 25);
  EXPECT_EQ(table.all().count(), 3U);
  EXPECT_EQ(table.none(), HookSet::none(3));
}

TEST(HookTable, B1_FindsByNameAndByTypeAndLayer) {
  const HookTable table = testing::small_model();
  const auto q = table.find("blocks.3.q");
  ASSERT_TRUE(q);
  EXPECT_EQ(table[*q].name, "blocks.3.q");
  EXPECT_EQ(table.find("q", 3), q);
  EXPECT_EQ(table.find("query", 3), q);
  EXPECT_EQ(table.find("final_logits", -1), table.find("final_logits"));
  EXPECT_TRUE(table.find("final_logits"));
  EXPECT_FALSE(table.find("q"));
  EXPECT_FALSE(table.find("q", 6));
  EXPECT_FALSE(table.find("q", -1));
  EXPECT_FALSE(table.find("q", -2));
  EXPECT_FALSE(table.find("final_logits", -2));
  EXPECT_FALSE(table.find("router_logits", 2));
  EXPECT_FALSE(table.find("nothing", 0));
}

TEST(HookTable, B1_AnAliasBecomesTheName) {
  HookTable table("m");
  must_add(table, spec("hidden_states", 0));
  EXPECT_EQ(table[0].name, "blocks.0.resid_pre");
  EXPECT_FALSE(table.add(spec("resid_pre", 0)).ok());
}

TEST(HookTable, B3_RowBytes) {
  HookTable table("m");
  HookSpec hook{"q", 0, DType::bf16, {9, 64}, 1, 1};
  must_add(table, hook);
  EXPECT_EQ(table[0].row_bytes(), 9U * 64 * 2);
  must_add(table, {"token_ids", -1, DType::i64, {}, 1, 1});  // one element a row
  EXPECT_EQ(table[1].row_bytes(), 8U);
  must_add(table, {"pattern", 0, DType::f16, {9, kPerStepColumns}, 1, 1});
  EXPECT_EQ(table[2].row_bytes(10), 9U * 10 * 2);
  EXPECT_EQ(table[2].row_bytes(0), 0U);
  EXPECT_EQ(table[2].row_bytes(-5), 0U);
  EXPECT_EQ(table[2].row_bytes(std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(table[0].row_bytes(10), 9U * 64 * 2);  // no per-step dimension: columns do not matter
}

TEST(HookTable, E_BadHooksAreRefusedAndChangeNothing) {
  struct Case {
    HookSpec hook;
    const char* says;
  };
  const HookSpec good = spec("resid_pre", 1);
  const auto with = [&](auto change) {
    HookSpec hook = good;
    change(hook);
    return hook;
  };
  Catalogue catalogue = Catalogue::builtin();
  ASSERT_TRUE(catalogue
                  .extend(R"({"types": [{"name": "probe", "scope": "global", "rows": "fixed",
                               "shape": [], "description": "d"}]})",
                          "test")
                  .ok());
  HookTable table("m", catalogue);
  must_add(table, spec("resid_pre", 0));
  const Case cases[] = {
      {spec("resid_per", 1), "unknown type; did you mean \"resid_pre\""},
      {spec("full", 1), "unknown type"},
      {spec("resid_pre"), "model \"m\", hook \"resid_pre\": it needs a layer"},
      {spec("resid_pre", -7), "it needs a layer"},
      {spec("final_logits", 0), "a global hook takes no layer (-1), not 0"},
      {spec("final_logits", -2), "a global hook takes no layer (-1), not -2"},
      {spec("resid_pre", 0), "hook \"blocks.0.resid_pre\": it is already there"},
      {spec("resid_pre", kMaxLayer + 1), "layers end at 65535"},
      {with([](HookSpec& h) {
         h.row_shape = {8, 0};
       }),
       "a row has zero bytes"},
      {with([](HookSpec& h) { h.row_shape = {-3}; }), "row dimension -3 is negative"},
      {with([](HookSpec& h) {
         h.row_shape = {-1, -1};
       }),
       "one per-step dimension only"},
      {with([](HookSpec& h) {
         h.row_shape = {1LL << 40, 1LL << 40};
       }),
       "more than 2^63 bytes"},
      {with([](HookSpec& h) { h.ordinals = 0; }), "ordinals must be >= 1"},
      {with([](HookSpec& h) { h.dtype = static_cast<DType>(77); }), "77 is no element type"},
      {HookSpec{"probe", -1, DType::f32, {1}, 1, 0}, "fixed_rows must be >= 1"},
  };
  for (const Case& c : cases) {
    const Result<HookId> id = table.add(c.hook);
    ASSERT_FALSE(id.ok()) << c.says;
    EXPECT_EQ(id.status().code(), Code::invalid_argument);
    EXPECT_NE(id.status().message().find(c.says), std::string::npos) << id.status().message();
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.slots(), 1U);
    EXPECT_EQ(table.layers(), 1);
  }
  must_add(table, good);
}

TEST(HookTable, E_AModelHas65535HooksAtMost) {
  HookTable table("deep");
  for (int layer = 0; layer < 65'535; ++layer) ASSERT_TRUE(table.add(spec("q", layer)).ok());
  const Result<HookId> id = table.add(spec("k", 0));
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.status().message().find("65535 hooks at most"), std::string::npos);
  EXPECT_EQ(table.all().count(), 65'535U);
}

}  // namespace
}  // namespace graphtap
