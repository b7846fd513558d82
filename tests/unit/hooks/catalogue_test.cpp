#include "graphtap/catalogue.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "graphtap/selection.hpp"

namespace graphtap {
namespace {

constexpr std::string_view kSsm = R"({
  "types": [{"name": "ssm_in", "aliases": ["ssm-in"], "number": 24, "scope": "layer", "rows": "tokens",
             "transformer_lens": "blocks.{layer}.ssm.hook_in", "shape": ["hidden"],
             "description": "input of the state space block"},
            {"name": "expert_load", "scope": "global", "rows": "experts", "stage": "last", "sharded": true,
             "shape": [], "description": "rows by expert"}],
  "presets": [{"name": "ssm", "selection": "ssm_in", "description": "state space"},
              {"name": "ssm-late", "selection": "ssm,resid_pre:4-5", "description": "both"}]})";

TEST(Catalogue, B1_HoldsEveryHookOfTheRequirement) {
  const Catalogue& catalogue = Catalogue::builtin();
  for (const char* name : {"resid_pre",
                           "ln1",
                           "q",
                           "k",
                           "v",
                           "z",
                           "attn_scores",
                           "pattern",
                           "attn_out",
                           "resid_mid",
                           "ln2",
                           "mlp_in",
                           "mlp_post",
                           "mlp_out",
                           "resid_final",
                           "final_ln",
                           "embed",
                           "pos_embed",
                           "token_ids",
                           "final_logits",
                           "router_logits",
                           "topk_ids",
                           "topk_weights",
                           "rot_q",
                           "rot_k"}) {
    const HookType* type = catalogue.find(name);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->name, name);
    EXPECT_FALSE(type->description.empty()) << name;
    EXPECT_EQ(type->rows, type->name == "final_logits" ? RowBasis::requests : RowBasis::tokens);
  }
  EXPECT_EQ(catalogue.types().size(), 25U);
}

TEST(Catalogue, B1_TransformerLensNames) {
  const std::pair<const char*, const char*> expected[] = {
      {"resid_pre", "blocks.{layer}.hook_resid_pre"},
      {"q", "blocks.{layer}.attn.hook_q"},
      {"rot_q", "blocks.{layer}.attn.hook_rot_q"},
      {"pattern", "blocks.{layer}.attn.hook_pattern"},
      {"mlp_post", "blocks.{layer}.mlp.hook_post"},
      {"ln1", "blocks.{layer}.ln1.hook_normalized"},
      {"final_ln", "ln_final.hook_normalized"},
      {"embed", "hook_embed"},
  };
  for (const auto& [name, lens] : expected) {
    EXPECT_EQ(Catalogue::builtin().find(name)->transformer_lens, lens);
  }
}

TEST(Catalogue, A3_NumbersOfTheOriginalsTable) {
  const char* by_number[] = {"resid_pre",   "ln1",
                             "attn_out",    "resid_mid",
                             "attn_scores", "pattern",
                             "q",           "k",
                             "v",           "z",
                             nullptr,       "ln2",
                             "mlp_in",      "mlp_out",
                             "resid_final", "embed",
                             "pos_embed",   "final_ln",
                             "token_ids",   "final_logits",
                             "mlp_post",    "router_logits",
                             "topk_ids",    "topk_weights"};
  int number = 0;
  for (const char* name : by_number) {
    const HookType* type = Catalogue::builtin().find_number(number++);
    EXPECT_EQ(type ? type->name : "", name ? name : "") << number - 1;
  }
  EXPECT_EQ(Catalogue::builtin().find_number(24), nullptr);
  EXPECT_EQ(Catalogue::builtin().find_number(-1), nullptr);  // types without a number have -1
}

TEST(Catalogue, B4_StagesAndShards) {
  const auto find = [](const char* name) { return *Catalogue::builtin().find(name); };
  for (const char* name : {"embed", "pos_embed", "token_ids"}) {
    EXPECT_EQ(find(name).stage, Stage::first) << name;
  }
  for (const char* name : {"resid_final", "final_ln", "final_logits"}) {
    EXPECT_EQ(find(name).stage, Stage::last) << name;
  }
  std::set<std::string> sharded;
  for (const HookType& type : Catalogue::builtin().types()) {
    if (type.sharded) sharded.insert(type.name);
    EXPECT_EQ(type.scope == Scope::global, type.stage != Stage::any) << type.name;
  }
  EXPECT_EQ(sharded, (std::set<std::string>{"q", "k", "v", "z", "rot_q", "rot_k", "attn_scores",
                                            "pattern", "mlp_post"}));
}

TEST(Catalogue, B2_AliasesAndPresets) {
  const Catalogue& catalogue = Catalogue::builtin();
  EXPECT_EQ(catalogue.find("hidden_states"), catalogue.find("resid_pre"));
  EXPECT_EQ(catalogue.find("token-ids"), catalogue.find("token_ids"));
  for (const char* preset :
       {"hidden-states", "logits", "full", "hf-only", "vllm-full", "attention", "mlp"}) {
    ASSERT_NE(catalogue.find_preset(preset), nullptr) << preset;
    EXPECT_FALSE(catalogue.find_preset(preset)->description.empty());
  }
  EXPECT_EQ(catalogue.find_preset("resid_pre"), nullptr);
  EXPECT_EQ(catalogue.find("full"), nullptr);
  EXPECT_EQ(catalogue.find(""), nullptr);
}

TEST(Catalogue, B1_AUserAddsATypeWithoutRebuilding) {
  Catalogue catalogue = Catalogue::builtin();
  const Status status = catalogue.extend(kSsm, "ssm.json");
  ASSERT_TRUE(status.ok()) << status.message();
  const HookType* type = catalogue.find("ssm-in");
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->name, "ssm_in");
  EXPECT_EQ(type->number, 24);
  EXPECT_EQ(type->transformer_lens, "blocks.{layer}.ssm.hook_in");
  EXPECT_EQ(catalogue.find_number(24), type);
  const HookType* load = catalogue.find("expert_load");
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(load->rows, RowBasis::experts);
  EXPECT_EQ(load->scope, Scope::global);
  EXPECT_TRUE(load->sharded);
  EXPECT_TRUE(Selection::parse("ssm-in:3,ssm-late", catalogue).ok());
  EXPECT_FALSE(Selection::parse("ssm_in").ok());  // the built-in one is as it was
}

std::string type_with(const std::string& fields) {
  return R"({"types": [{"description": "d", "shape": ["h"], )" + fields + "}]}";
}

TEST(Catalogue, E_BadFilesAreRefusedAndChangeNothing) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "mine.json: not JSON: parse error at line 1"},
      {"{", "not JSON: parse error at line 1, column 2"},
      {"[]", "mine.json: must be an object"},
      {R"({"typos": []})", "unknown field \"typos\"; did you mean \"types\"?"},
      {R"({"types": {}})", "\"types\" must be a list"},
      {R"({"types": [3]})", "types[0]: must be an object"},
      {type_with(R"("scope": "layer", "rows": "tokens")"),
       "types[0]: the field \"name\" is missing"},
      {type_with(R"("name": "a", "rows": "tokens")"),
       "types[0] \"a\": the field \"scope\" is missing"},
      {type_with(R"("name": "a", "scope": "layer")"), "the field \"rows\" is missing"},
      {R"({"types": [{"name": "a", "scope": "layer", "rows": "tokens", "description": "d"}]})",
       "the field \"shape\" is missing"},
      {R"({"types": [{"name": "a", "scope": "layer", "rows": "tokens", "shape": []}]})",
       "the field \"description\" is missing"},
      {type_with(R"("name": 3, "scope": "layer", "rows": "tokens")"), "\"name\" must be a text"},
      {type_with(R"("name": "a", "scope": "layers", "rows": "tokens")"), "one of layer, global"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "token")"),
       "one of tokens, requests, experts, fixed"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "stage": 1)"),
       "one of any, first, last"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "shraded": true)"),
       "unknown field \"shraded\"; did you mean \"sharded\"?"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "sharded": 1)"),
       "\"sharded\" must be true or false"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "aliases": ["b", 1])"),
       "\"aliases\" must be a list of texts"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "number": -1)"),
       "a number from 0 to 65535"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "number": 65536)"),
       "a number from 0 to 65535"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "number": 2.0)"),
       "a number from 0 to 65535"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "number": 6)"),
       "number 6 is already taken by \"q\""},
      {type_with(
           R"("name": "a", "scope": "layer", "rows": "tokens", "transformer_lens": "hook_a")"),
       "must hold {layer}"},
      {type_with(R"("name": "q", "scope": "layer", "rows": "tokens")"),
       "the name \"q\" is already taken by hook type \"q\""},
      {type_with(R"("name": "hidden_states", "scope": "layer", "rows": "tokens")"),
       "already taken by hook type \"resid_pre\""},
      {type_with(R"("name": "full", "scope": "layer", "rows": "tokens")"), "taken by a preset"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "aliases": ["k"])"),
       "the name \"k\" is already taken"},
      {type_with(R"("name": "a", "scope": "layer", "rows": "tokens", "aliases": ["a"])"),
       "\"a\" is given twice"},
      {type_with(R"("name": "none", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {type_with(R"("name": "1st", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {type_with(R"("name": "a.b", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {type_with(R"("name": "a b", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {type_with(R"("name": "a-", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {type_with(R"("name": "", "scope": "layer", "rows": "tokens")"), "cannot be a name"},
      {R"({"presets": [{"name": "p", "description": "d"}]})", "\"selection\" is missing"},
      {R"({"presets": [{"name": "q", "selection": "k", "description": "d"}]})", "already taken"},
      {R"({"presets": [{"name": "p", "selection": "resid_per", "description": "d"}]})",
       "presets[0] \"p\": preset \"p\": unknown hook \"resid_per\""},
      {R"({"presets": [{"name": "p", "selection": "p", "description": "d"}]})",
       "unknown hook \"p\""},
      {R"({"presets": [{"name": "p", "selection": "none", "description": "d"}]})", "not \"none\""},
      {R"({"presets": [{"name": "p", "selection": "", "description": "d"}]})", "must name hooks"},
      {R"({"presets": [{"name": "p", "selection": "q @decode", "description": "d"}]})",
       "must not sample"},
      {R"({"presets": [{"name": "p", "selection": "full,-q:0", "description": "d"}]})",
       "the exclusion \"-q:0\" must not name layers"},
      {R"({"presets": [{"name": "p", "selection": "q,-q", "description": "d"}]})",
       "exclusions leave nothing"},
  };
  for (const auto& [json, says] : cases) {
    Catalogue catalogue = Catalogue::builtin();
    const Status status = catalogue.extend(json, "mine.json");
    EXPECT_EQ(status.code(), Code::invalid_argument) << json;
    EXPECT_NE(status.message().find(says), std::string::npos)
        << json << "\n  said: " << status.message() << "\n  want: " << says;
    EXPECT_EQ(status.message().rfind("mine.json", 0), 0U) << status.message();
    EXPECT_EQ(catalogue.types().size(), Catalogue::builtin().types().size());
    EXPECT_EQ(catalogue.presets().size(), Catalogue::builtin().presets().size());
  }
}

TEST(Catalogue, E_AFileThatFailsLateChangesNothing) {
  Catalogue catalogue = Catalogue::builtin();
  std::string json(kSsm);
  json.replace(json.find("ssm,resid_pre"), 3, "ssn");
  EXPECT_FALSE(catalogue.extend(json, "ssm.json").ok());
  EXPECT_EQ(catalogue.find("ssm_in"), nullptr);
  EXPECT_EQ(catalogue.find_preset("ssm"), nullptr);
}

TEST(Catalogue, E_TheSameFileTwiceIsRefused) {
  Catalogue catalogue;
  EXPECT_TRUE(catalogue.types().empty());
  EXPECT_FALSE(catalogue.extend(kSsm, "a").ok());  // its preset needs resid_pre
  catalogue = Catalogue::builtin();
  EXPECT_TRUE(catalogue.extend(kSsm, "a").ok());
  EXPECT_FALSE(catalogue.extend(kSsm, "b").ok());
}

TEST(Catalogue, B1_RowBasesHaveNames) {
  EXPECT_STREQ(to_string(RowBasis::tokens), "tokens");
  EXPECT_STREQ(to_string(RowBasis::requests), "requests");
  EXPECT_STREQ(to_string(RowBasis::experts), "experts");
  EXPECT_STREQ(to_string(RowBasis::fixed), "fixed");
}

}  // namespace
}  // namespace graphtap
