#include "graphtap/selection.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "unit/hooks/models.hpp"

namespace graphtap {
namespace {

using testing::at;
using testing::selected;
using testing::small_model;
using Names = std::set<std::string>;

Names operator+(Names a, const Names& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Names operator-(Names a, const Names& b) {
  for (const std::string& name : b) a.erase(name);
  return a;
}

class SelectionMeaning : public ::testing::Test {
 protected:
  Names operator()(std::string_view text) const { return selected(table, text); }
  const HookTable table = small_model();
  const Names all = testing::names(table, table.all());
  const std::vector<int> every{0, 1, 2, 3, 4, 5};
  const std::vector<int> odd{1, 3, 5};
};

TEST_F(SelectionMeaning, A3_NothingGivenMeansAllActiveHooks) {
  EXPECT_EQ((*this)(""), all);
  EXPECT_EQ((*this)(" \t\n"), all);
  EXPECT_EQ((*this)("@decode"), all);
  EXPECT_TRUE(Selection::parse("").value().is_default());
  EXPECT_FALSE(Selection::parse("full").value().is_default());
}

TEST_F(SelectionMeaning, A3_NoneIsExplicitlyEmpty) {
  EXPECT_EQ((*this)("none"), Names{});
  EXPECT_EQ((*this)(" none "), Names{});
  EXPECT_TRUE(Selection::parse("none").value().is_none());
  EXPECT_FALSE(Selection::parse("none").value().is_default());
}

TEST_F(SelectionMeaning, A3_ALayerLeftOutMeansAllLayers) {
  EXPECT_EQ((*this)("resid_pre"), at({"resid_pre"}, every));
  EXPECT_EQ((*this)("final_logits"), Names{"final_logits"});
  EXPECT_EQ((*this)("router_logits"), at({"router_logits"}, odd));
}

TEST_F(SelectionMeaning, B2_Ranges) {
  EXPECT_EQ((*this)("resid_pre:2-4"), at({"resid_pre"}, {2, 3, 4}));
  EXPECT_EQ((*this)("resid_pre:5-5"), at({"resid_pre"}, {5}));
  EXPECT_EQ((*this)("resid_pre:0,2-3,5"), at({"resid_pre"}, {0, 2, 3, 5}));
  EXPECT_EQ((*this)("resid_pre:*"), at({"resid_pre"}, every));
  EXPECT_EQ((*this)("resid_pre:0-3,2"), at({"resid_pre"}, {0, 1, 2, 3}));
  EXPECT_EQ((*this)("router_logits:0-3"), at({"router_logits"}, {1, 3}));
}

TEST_F(SelectionMeaning, B2_Star) {
  EXPECT_EQ((*this)("*"), all);
  EXPECT_EQ((*this)("*:0"), at({"resid_pre", "q", "k", "v", "mlp_out"}, {0}));
  EXPECT_EQ((*this)("*:0-1"),
            at({"resid_pre", "q", "k", "v", "mlp_out"}, {0, 1}) + at({"router_logits"}, {1}));
  EXPECT_EQ((*this)("*:*"), all - Names({"token_ids", "final_logits"}));
  EXPECT_EQ((*this)("q:0,*"), all);  // "*" after a layer list is a new term
}

TEST_F(SelectionMeaning, B2_NamesBeforeLayersShareThem) {
  EXPECT_EQ((*this)("q,k,v:0,4"), at({"q", "k", "v"}, {0, 4}));
  EXPECT_EQ((*this)("q,k:0,4,v"), at({"q", "k"}, {0, 4}) + at({"v"}, every));
  EXPECT_EQ((*this)("q,k:0;v:1"), at({"q", "k"}, {0}) + at({"v"}, {1}));
  EXPECT_EQ((*this)("q,k:0,v,mlp_out:1"), at({"q", "k"}, {0}) + at({"v", "mlp_out"}, {1}));
}

TEST_F(SelectionMeaning, B2_ASemicolonEndsAGroup) {
  EXPECT_EQ((*this)("q;k:0"), at({"q"}, every) + at({"k"}, {0}));
  EXPECT_EQ((*this)("q,k;v:0"), at({"q", "k"}, every) + at({"v"}, {0}));
}

TEST_F(SelectionMeaning, B2_GlobalHooksPresetsAndStarNeverJoinAGroup) {
  EXPECT_EQ((*this)("final_logits,q:0"), Names{"final_logits"} + at({"q"}, {0}));
  EXPECT_EQ((*this)("q,final_logits,k:0"),
            at({"q"}, every) + Names{"final_logits"} + at({"k"}, {0}));
  EXPECT_EQ((*this)("hidden-states,q:0"), at({"resid_pre"}, every) + at({"q"}, {0}));
  EXPECT_EQ((*this)("hidden_states,q:0"), at({"resid_pre", "q"}, {0}));  // an alias is a name
  EXPECT_EQ((*this)("q,*:0"), at({"q"}, every) + at({"resid_pre", "k", "v", "mlp_out"}, {0}));
  EXPECT_EQ((*this)("q,hidden-states:0"), at({"q"}, every) + at({"resid_pre"}, {0}));
}

TEST_F(SelectionMeaning, B2_OnlyNamesOfOneSignShareLayers) {
  EXPECT_EQ((*this)("-q,k:0"), at({"k"}, {0}));
  EXPECT_EQ((*this)("q,-k:0"), at({"q"}, every));
  EXPECT_EQ((*this)("*,-q,-k:0"), all - at({"q", "k"}, {0}));
}

TEST_F(SelectionMeaning, B2_ExclusionsSubtractFromTheUnion) {
  EXPECT_EQ((*this)("full,-q"), all - at({"q"}, every));
  EXPECT_EQ((*this)("-q,full"), all - at({"q"}, every));  // in any order
  EXPECT_EQ((*this)("resid_pre:0-3,-resid_pre:1-2"), at({"resid_pre"}, {0, 3}));
  EXPECT_EQ((*this)("-q,-final_logits"), all - at({"q"}, every) - Names{"final_logits"});
  const Names last_layer = at({"resid_pre", "q", "k", "v", "mlp_out", "router_logits"}, {5});
  EXPECT_EQ((*this)("-*:0-4"), last_layer + Names({"token_ids", "final_logits"}));
  EXPECT_EQ((*this)("*,-qkv"), all - at({"q", "k", "v"}, every));
}

TEST_F(SelectionMeaning, B2_PresetsTakeWhatTheModelHas) {
  EXPECT_EQ((*this)("logits"), Names{"final_logits"});
  EXPECT_EQ((*this)("full"), all);
  EXPECT_EQ((*this)("attention"), at({"q", "k", "v"}, every));
  EXPECT_EQ((*this)("attention:2"), at({"q", "k", "v"}, {2}));
  EXPECT_EQ((*this)("hf-only"), at({"resid_pre"}, every) + Names{"final_logits"});
  EXPECT_EQ((*this)("hf-only:3"), at({"resid_pre"}, {3}));  // its layered hooks
  EXPECT_EQ((*this)("vllm-full"), all);
  EXPECT_EQ((*this)("full:1"), (*this)("*:1"));
}

TEST_F(SelectionMeaning, B2_PresetsOfAUserMayNameLayersAndExclude) {
  Catalogue catalogue = Catalogue::builtin();
  const Status status = catalogue.extend(
      R"({"presets": [
        {"name": "late", "selection": "q,k:4-5;mlp_out,moe", "description": "d"},
        {"name": "rest", "selection": "-q,-token_ids", "description": "d"},
        {"name": "some", "selection": "late,router_logits:1,rest", "description": "d"},
        {"name": "absent-here", "selection": "pattern:0;ln1", "description": "d"}]})",
      "test");
  ASSERT_TRUE(status.ok()) << status.message();
  HookTable mine("small", catalogue);
  for (const Hook& hook : table.hooks())
    testing::must_add(mine, testing::spec(hook.type, hook.layer));
  const Names late = at({"q", "k"}, {4, 5}) + at({"mlp_out"}, every) + at({"router_logits"}, odd);
  EXPECT_EQ(selected(mine, "late"), late);
  EXPECT_EQ(selected(mine, "rest"), all - at({"q"}, every) - Names{"token_ids"});
  EXPECT_EQ(selected(mine, "rest,q:0"),
            selected(mine, "rest") + at({"q"}, {0}));  // its own exclusions only
  EXPECT_EQ(selected(mine, "*,-late"), all - late);
  EXPECT_EQ(selected(mine, "some"), all - at({"q"}, {0, 1, 2, 3}) - Names{"token_ids"});
  EXPECT_NE(selected(mine, "absent-here").begin()->find("no hook of the preset"),
            std::string::npos);
  EXPECT_NE(selected(mine, "late:2").begin()->find("names its layers itself"), std::string::npos);
}

TEST_F(SelectionMeaning, A3_TheNumericFormOfTheOriginal) {
  EXPECT_EQ((*this)("0:2,0:3,19"), at({"resid_pre"}, {2, 3}) + Names{"final_logits"});
  EXPECT_EQ((*this)("6:0,7"), at({"q"}, {0}) + at({"k"}, every));  // 7 is a type, not a layer
  EXPECT_EQ((*this)("18"), Names{"token_ids"});
  EXPECT_EQ((*this)("0:2,0:3 @decode"), at({"resid_pre"}, {2, 3}));
}

TEST_F(SelectionMeaning, B2_BlanksAreFree) {
  EXPECT_EQ((*this)(" q , k : 0 , 4 - 5 ; - q : 0 "), at({"q", "k"}, {4, 5}) + at({"k"}, {0}));
}

TEST(SelectionParse, B2_Sampling) {
  const auto sampling = [](std::string_view text) {
    const Result<Selection> selection = Selection::parse(text);
    EXPECT_TRUE(selection.ok()) << selection.status().message();
    return selection.ok() ? selection.value().sampling() : Sampling{};
  };
  EXPECT_EQ(sampling("q"), Sampling{});
  EXPECT_EQ(sampling("q @decode"), (Sampling{1, 1, Sampling::Phase::decode}));
  EXPECT_EQ(sampling("q:0 @prefill @every=4"), (Sampling{4, 1, Sampling::Phase::prefill}));
  EXPECT_EQ(sampling("q@every-request=3@every=2"), (Sampling{2, 3, Sampling::Phase::any}));
  EXPECT_EQ(sampling("@every = 4294967295"), (Sampling{4294967295U, 1, Sampling::Phase::any}));
}

TEST(SelectionParse, B2_TermsAreReadable) {
  const Selection selection = Selection::parse("query,k:0,4-5;-full @decode").value();
  EXPECT_EQ(selection.text(), "query,k:0,4-5;-full @decode");
  ASSERT_EQ(selection.terms().size(), 2U);
  const Selection::Term& group = selection.terms()[0];
  EXPECT_EQ(group.names, (std::vector<std::string>{"q", "k"}));
  EXPECT_EQ(group.layers, (std::vector<Selection::LayerRange>{{0, 0}, {4, 5}}));
  EXPECT_EQ(group.text, "query,k:0,4-5");
  EXPECT_EQ(group.preset, "");
  const Selection::Term& full = selection.terms()[1];
  EXPECT_TRUE(full.exclude);
  EXPECT_EQ(full.names, std::vector<std::string>{"*"});
  EXPECT_EQ(full.text, "-full");
  EXPECT_EQ(full.preset, "full");
}

}  // namespace
}  // namespace graphtap
