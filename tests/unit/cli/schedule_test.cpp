#include "cli/schedule.hpp"

#include <gtest/gtest.h>

#include "cli/graph/decoder.hpp"
#include "graphtap/status.hpp"

namespace graphtap::cli {
namespace {

const HookTable& table() {
  static const HookTable made = decoder_table({6, 8, 8});
  return made;
}
Schedule schedule(const std::optional<std::string>& hooks, const std::vector<std::string>& at) {
  return {hooks, at, table(),
          [](const Selection& selection) { return selection.resolve(table()); }};
}
std::string refusal(const std::optional<std::string>& hooks, const std::vector<std::string>& at) {
  try {
    (void)schedule(hooks, at);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Schedule, A3_NothingGivenIsEveryHookFromTheStart) {
  const Schedule made = schedule({}, {});
  ASSERT_EQ(made.switches().size(), 1u);
  EXPECT_EQ(made.switches()[0].hooks, table().all());
  EXPECT_EQ(in_words(made.switches()[0].selection), "every hook");
  EXPECT_EQ(schedule("", {}).switches()[0].hooks, table().all());
  EXPECT_EQ(schedule("none", {}).switches()[0].hooks, table().none());
}

TEST(Schedule, A3_SwitchesHoldFromTheirStepToTheNext) {
  const Schedule made = schedule({}, {"24:none", "8:resid_pre:2-3", "40:"});
  EXPECT_EQ(made.phase(0), 0u);
  EXPECT_EQ(made.phase(7), 0u);
  EXPECT_EQ(made.phase(8), 1u);
  EXPECT_EQ(made.phase(23), 1u);
  EXPECT_EQ(made.phase(24), 2u);
  EXPECT_EQ(made.phase(1'000'000), 3u);
  EXPECT_EQ(made.at(9), nullptr);
  ASSERT_NE(made.at(8), nullptr);
  EXPECT_EQ(made.at(8)->hooks.count(), 2u);
  EXPECT_EQ(made.at(40)->hooks, table().all());
  ASSERT_EQ(made.unreached(24).size(), 2u);
  EXPECT_EQ(made.unreached(24)[0]->step, 24u);
  EXPECT_TRUE(made.unreached(41).empty());
}

TEST(Schedule, A3_StepZeroCanBeGivenEitherWay) {
  EXPECT_EQ(schedule({}, {"0:none"}).switches().size(), 1u);
  EXPECT_NE(refusal("resid_pre", {"0:none"}).find("step 0 is given twice (--hooks is for step 0)"),
            std::string::npos);
  EXPECT_NE(refusal({}, {"8:none", "8:resid_pre"}).find("step 8 is given twice"),
            std::string::npos);
}

TEST(Schedule, E_ErrorsNameTheOptionAndTheWord) {
  EXPECT_NE(refusal("resid_prw", {}).find("--hooks: "), std::string::npos);
  EXPECT_NE(refusal("resid_prw", {}).find("resid_pre"), std::string::npos);
  EXPECT_NE(refusal({}, {"8:resid_pre:9"}).find("--at 8:resid_pre:9: "), std::string::npos);
  EXPECT_NE(refusal({}, {"eight:none"}), "");
  EXPECT_NE(refusal({}, {"none"}), "");
  EXPECT_NE(refusal({}, {"-8:none"}), "");
}

TEST(Schedule, B2_SamplingIsPartOfTheWords) {
  EXPECT_EQ(in_words(schedule("@decode", {}).switches()[0].selection), "every hook @decode");
}

}  // namespace
}  // namespace graphtap::cli
