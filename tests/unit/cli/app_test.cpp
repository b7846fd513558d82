#include "cli/app.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/subcommands.hpp"
#include "unit/cli/support.hpp"

namespace graphtap::cli {
namespace {

TEST(App, E_NothingAtAllIsUsage) {
  const CommandResult result = call({});
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("A tour:"), std::string::npos);
  EXPECT_EQ(result.out, "");
}

TEST(App, E_AMistypedSubcommandNamesTheNearOne) {
  const CommandResult result = call({"reprot", "store"});
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("\"reprot\" is no subcommand; did you mean \"report\"?"),
            std::string::npos)
      << result.err;
}

TEST(App, E_AMistypedOptionNamesTheNearOne) {
  const CommandResult result = call({"graph", "--polcy", "shed"});
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("no option \"--polcy\"; did you mean \"--policy\""), std::string::npos)
      << result.err;
}

TEST(App, EverySubcommandExplainsItselfWithExamples) {
  const std::string all = call({"--help"}).out;
  for (const Subcommand& subcommand : subcommands()) {
    const std::string name(subcommand.name);
    EXPECT_NE(all.find(std::string(subcommand.summary)), std::string::npos) << name;
    for (const std::vector<std::string>& form :
         {std::vector<std::string>{name, "--help"}, {"help", name}}) {
      const CommandResult help = call(form);
      EXPECT_EQ(help.exit, Exit::ok) << name;
      EXPECT_NE(help.out.find(std::string(subcommand.summary)), std::string::npos) << name;
      EXPECT_NE(help.out.find("Examples:\n  graphtap " + name), std::string::npos) << help.out;
      EXPECT_EQ(help.err, "");
    }
  }
}

TEST(App, HelpFitsATerminal) {
  for (const Subcommand& subcommand : subcommands()) {
    std::istringstream lines(call({std::string(subcommand.name), "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 110u) << subcommand.name << ": " << line;
    }
  }
}

TEST(App, VersionIsOneLine) {
  const CommandResult result = call({"--version"});
  EXPECT_EQ(result.exit, Exit::ok);
  EXPECT_EQ(result.out.substr(0, 9), "graphtap ");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST(App, ValuesMayLookLikeOptions) {
  // A selection that begins with "-", a negative number, an empty value: all reach the reader of
  // the option.
  EXPECT_NE(call({"graph", "--hooks", "-resid_pre:77"}).err.find("no layer 77"), std::string::npos);
  EXPECT_NE(call({"graph", "--steps", "-5"}).err.find("--steps is \"-5\""), std::string::npos);
  EXPECT_NE(call({"graph", "--steps="}).err.find("--steps is \"\""), std::string::npos);
  EXPECT_NE(call({"graph", "--steps", ""}).err.find("--steps is \"\""), std::string::npos);
}

TEST(App, E_AnOptionWithoutItsValueDoesNotEatTheNext) {
  const CommandResult result = call({"graph", "--store", "--json"});
  EXPECT_EQ(result.exit, Exit::usage);
  EXPECT_NE(result.err.find("--store lacks its value"), std::string::npos) << result.err;
}

TEST(App, E_OptionsGivenTwiceAndFlagsWithValuesAreRefused) {
  EXPECT_NE(call({"graph", "--seed", "1", "--seed", "2"}).err.find("--seed is given twice"),
            std::string::npos);
  EXPECT_NE(call({"graph", "--json=yes"}).err.find("--json takes no value"), std::string::npos);
  EXPECT_EQ(call({"graph", "surplus"}).exit, Exit::usage);
  EXPECT_EQ(call({"ls"}).exit, Exit::usage);
}

TEST(App, E_AnOutputThatCannotBeWrittenIsAnError) {
  std::istringstream in;
  std::ostringstream err;
  std::ostream broken(nullptr);
  Console console{in, broken, err, false};
  EXPECT_EQ(run_command({"--version"}, console), Exit::io_error);
  EXPECT_NE(err.str().find("could not be written"), std::string::npos);
}

}  // namespace
}  // namespace graphtap::cli
