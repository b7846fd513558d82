#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "graphtap/selection.hpp"
#include "unit/hooks/models.hpp"

namespace graphtap {
namespace {

struct Case {
  std::string_view text;
  const char* says;  // null: looks like its neighbours, but is right
};

void expect_refused(const Status& status, const Case& c) {
  EXPECT_EQ(status.code(), Code::invalid_argument) << c.text;
  EXPECT_NE(status.message().find(c.says), std::string::npos)
      << c.text << "\n  said: " << status.message() << "\n  want: " << c.says;
}

TEST(SelectionErrors, E_WhatCannotBeReadIsNamedWithItsPlace) {
  const Case cases[] = {
      {"resid_per",
       "unknown hook \"resid_per\" (character 1 of selection \"resid_per\"); did you mean "
       "\"resid_pre\""},
      {"q, patern:3", "unknown hook \"patern\" (character 4 of"},
      {"Resid_Pre", "did you mean \"resid_pre\""},
      {"hidden-stats", "did you mean \"hidden_states\"?"},
      {"blocks.3.q", "; write \"q:3\""},
      {"zzzzzzzzzz", "unknown hook \"zzzzzzzzzz\" (character 1 of selection \"zzzzzzzzzz\")"},
      {"q,,k", "a hook is missing (character 3"},
      {",q", "a hook is missing (character 1"},
      {"q,", "a hook is missing (character 3"},
      {"q;", "a hook is missing (character 3"},
      {"q, @decode", "a hook is missing (character 4"},
      {":3", "a hook is missing (character 1"},
      {"-", "a hook is missing (character 2"},
      {"--q", "unexpected \"-\" (character 2"},
      {"q:", "unexpected end (character 3"},
      {"q:k", "unexpected \"k\" (character 3 of selection \"q:k\"); expected a layer"},
      {"q:1x", "unexpected \"1x\" (character 3"},
      {"q:0,1x", "unexpected \"1x\" (character 5"},
      {"q:-1", "a negative layer, \"-1\" (character 3"},
      {"q:0,-1", "a negative layer, \"-1\" (character 5"},
      {"q:65536", "\"65536\" is too large (the most is 65535) (character 3"},
      {"q:99999999999999999999999", "is too large"},
      {"q:4-2",
       "the layer range \"4-2\" is reversed (character 3 of selection \"q:4-2\"); write \"2-4\""},
      {"q:4-", "the layer range \"4-\" lacks its end (character 3"},
      {"q:4-k", "the layer range \"4-\" lacks its end (character 3"},
      {"q:0-4-8", "unexpected \"-\" (character 6"},
      {"q:0:1", "unexpected \":\" (character 4"},
      {"q:0,0", "layer \"0\" is given twice (character 5"},
      {"q,q", "\"q\" is given twice (character 3"},
      {"q,query", "\"query\" is given twice (character 3"},
      {"q,k:0,q", nullptr},
      {"q:0;q:0", "\"q\" is given twice (character 5"},
      {"q,q:0", "\"q\" is given twice (character 3"},
      {"*,*", "\"*\" is given twice (character 3"},
      {"full,full", "\"full\" is given twice (character 6"},
      {"-q,-q", "\"q\" is given twice (character 5"},
      {"q k", "unexpected \"k\" (character 3"},
      {"**", "unexpected \"*\" (character 2"},
      {"q%", "unexpected \"%\" (character 2"},
      {"q é", "unexpected \"é\" (character 3"},
      {std::string_view("q\0", 2), "unexpected \"\\x00\" (character 2"},
      {"4", nullptr},
      {"q;4", "\"4\" is not a hook (character 3"},
      {"k,5", "\"5\" is not a hook (character 3"},
      {"-5", "there are no negative layers"},
      {"q:0,1:24", "unexpected \":\" (character 6"},
      {"none,q", "\"none\" must stand alone (character 1"},
      {"q,none", "\"none\" must stand alone (character 3"},
      {"none @decode", "\"none\" must stand alone"},
      {"final_logits:0", "\"final_logits\" is a global hook and takes no layers (character 1"},
      {"q,final_logits:*", "\"final_logits\" is a global hook and takes no layers (character 3"},
      {"logits:0", "\"logits\" has global hooks only and takes no layers"},
      {"10:2", "no hook type has the number \"10\" (character 1"},
      {"0:24,999999", "\"999999\" is too large"},
      {"19:0", "\"final_logits\" is a global hook and takes no layers (character 1"},
      {"0:24,q",
       "unexpected \"q\" (character 6 of selection \"0:24,q\"); expected a hook type's number"},
      {"0:24,-1:2", "unexpected \"-\" (character 6"},
      {"0:24-27", "unexpected \"-\" (character 5"},
      {"0:24,0:24", "\"0\" is given twice (character 6"},
      {"0:-1", "a negative layer, \"-1\" (character 3"},
      {"0:", "unexpected end (character 3"},
      {"@", "unexpected end (character 2"},
      {"@dcode",
       "unknown sampling \"@dcode\" (character 2 of selection \"@dcode\"); did you mean "
       "\"decode\"?"},
      {"@every",
       "unexpected end (character 7 of selection \"@every\"); expected a number, as in "
       "\"@every=4\""},
      {"@every=x", "unexpected \"x\" (character 8"},
      {"@every=0", "\"@every=0\" would take nothing (character 8"},
      {"@every-request=0", "\"@every-request=0\" would take nothing"},
      {"@every=4294967296", "is too large (the most is 4294967295)"},
      {"@every=-1", "unexpected \"-\" (character 8"},
      {"@decode @decode", "\"@decode\" is given twice (character 10"},
      {"@decode @prefill", "exclude each other (character 10"},
      {"@every=2 @every=3", "\"@every\" is given twice"},
      {"@decode q",
       "unexpected \"q\" (character 9 of selection \"@decode q\"); expected \"@\" or the end"},
      {"@decode,q", "unexpected \",\" (character 8"},
      {"@decode=3", "unexpected \"=\" (character 8"},
  };
  for (const Case& c : cases) {
    const Result<Selection> selection = Selection::parse(c.text);
    if (!c.says) {
      EXPECT_TRUE(selection.ok()) << c.text << ": " << selection.status().message();
    } else {
      expect_refused(selection.status(), c);
    }
  }
}

TEST(SelectionErrors, A3_WhatTheModelLacksIsNamedWithNearMatches) {
  const HookTable table = testing::small_model();
  const Case cases[] = {
      {"pattern",
       "model \"small\" has no hook \"pattern\". This model has: token_ids, resid_pre, q, k, v, "
       "mlp_out, router_logits, final_logits"},
      {"resid_mid", "no hook \"resid_mid\"; did you mean \"resid_pre\"? This model has: "},
      {"full,-pattern", "no hook \"pattern\""},
      {"q,pattern:0", "no hook \"pattern\""},
      {"norms", "no hook of the preset \"norms\""},
      {"*,-norms", "no hook of the preset \"norms\""},
      {"norms:0", "no hook of the preset \"norms\""},
      {"q:6", "no layer 6 for \"q:6\": model \"small\" has layers 0-5"},
      {"q:2-9", "no layer 9 for \"q:2-9\""},
      {"q:7-9", "no layer 7 for \"q:7-9\""},
      {"*:6", "no layer 6 for \"*:6\""},
      {"-*:6", "no layer 6 for \"-*:6\""},
      {"hidden-states:6", "no layer 6 for \"hidden-states:6\""},
      {"0:6", "no layer 6 for \"0:6\""},
      {"router_logits:4",
       "\"router_logits\" is not at layer 4: model \"small\" has it at layers 1,3,5 (in "
       "\"router_logits:4\")"},
      {"router_logits:1-3,2", "\"router_logits\" is not at layer 2"},
      {"moe:0", "\"moe\" is not at layer 0: model \"small\" has it at layers 1,3,5"},
      {"q,-q",
       "selection \"q,-q\" matches no hook of model \"small\"; write \"none\" to mean that"},
      {"-*", "matches no hook"},
      {"q:0,-k", nullptr},
  };
  for (const Case& c : cases) {
    const Result<Selection> selection = Selection::parse(c.text);
    ASSERT_TRUE(selection.ok()) << c.text << ": " << selection.status().message();
    const Result<HookSet> set = selection.value().resolve(table);
    if (!c.says) {
      EXPECT_TRUE(set.ok());
    } else {
      expect_refused(set.status(), c);
    }
  }
}

TEST(SelectionErrors, A3_ModelsWithoutLayersOrHooks) {
  HookTable empty("empty");
  EXPECT_TRUE(Selection::parse("").value().resolve(empty).value().empty());
  expect_refused(Selection::parse("*").value().resolve(empty).status(), {"*", "matches no hook"});
  expect_refused(Selection::parse("q").value().resolve(empty).status(),
                 {"q", "This model has: no hooks"});
  HookTable flat("flat");
  testing::must_add(flat, testing::spec("final_logits"));
  expect_refused(Selection::parse("*:0").value().resolve(flat).status(),
                 {"*:0", "no layer 0 for \"*:0\": model \"flat\" has no layers"});
  expect_refused(Selection::parse("*:*").value().resolve(flat).status(), {"*:*", "has no layers"});
  EXPECT_EQ(testing::selected(flat, "*"), std::set<std::string>{"final_logits"});
}

TEST(Schedule, B2_AStepAndASelection) {
  const ScheduleEntry entry = parse_schedule_entry("8:resid_pre:20-29").value();
  EXPECT_EQ(entry.step, 8U);
  EXPECT_EQ(entry.selection.text(), "resid_pre:20-29");
  EXPECT_TRUE(parse_schedule_entry("24:none").value().selection.is_none());
  EXPECT_TRUE(parse_schedule_entry(" 3 :").value().selection.is_default());
  EXPECT_EQ(parse_schedule_entry("0:0:24").value().selection.terms()[0].names[0], "resid_pre");
  EXPECT_EQ(parse_schedule_entry("18446744073709551615:q").value().step,
            std::numeric_limits<std::uint64_t>::max());
}

TEST(Schedule, E_BadEntriesAreNamed) {
  const Case cases[] = {
      {"", "schedule entry \"\" lacks its step; write STEP:SELECTION"},
      {"8", "schedule entry \"8\" lacks its step"},
      {":q", "\"\" is not a step number"},
      {"resid_pre:20", "\"resid_pre\" is not a step number in schedule entry \"resid_pre:20\""},
      {"-1:q", "\"-1\" is not a step number"},
      {"+1:q", "\"+1\" is not a step number"},
      {"8x:q", "\"8x\" is not a step number"},
      {"8.5:q", "\"8.5\" is not a step number"},
      {"18446744073709551616:q", "is not a step number"},
      {"8:qq", "schedule entry \"8:qq\": unknown hook \"qq\" (character 1 of selection \"qq\")"},
  };
  for (const Case& c : cases) expect_refused(parse_schedule_entry(c.text).status(), c);
}

}  // namespace
}  // namespace graphtap
