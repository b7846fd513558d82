#include "cli/exit_codes.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "unit/cli/support.hpp"

namespace graphtap::cli {
namespace {

std::string source(const std::string& path) {
  std::ifstream file(std::string(GRAPHTAP_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ExitCodes, E_TheDocumentAndTheCodeHaveTheSameTable) {
  const std::string page = source("docs/exit-codes.md");
  ASSERT_FALSE(page.empty());
  std::map<int, std::pair<std::string, std::string>> documented;
  const std::regex row(R"(\| (\d+) \| (\w+) \| ([^|]+) \|)");
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at) {
    documented[std::stoi((*at)[1])] = {(*at)[2], (*at)[3]};
  }
  ASSERT_EQ(documented.size(), exit_meanings().size());
  for (const ExitMeaning& meaning : exit_meanings()) {
    const auto line = documented.find(static_cast<int>(meaning.exit));
    ASSERT_NE(line, documented.end()) << meaning.name;
    EXPECT_EQ(line->second.first, meaning.name);
    EXPECT_EQ(line->second.second, meaning.meaning);
  }
}

TEST(ExitCodes, E_EveryErrorKindHasItsOwnCode) {
  std::map<Exit, std::string> seen;
  for (int code = 0; code <= static_cast<int>(Code::device_error); ++code) {
    const Exit exit = exit_for(static_cast<Code>(code));
    EXPECT_NE(exit, Exit::internal) << to_string(static_cast<Code>(code));
    EXPECT_TRUE(seen.emplace(exit, to_string(static_cast<Code>(code))).second)
        << to_string(static_cast<Code>(code)) << " shares its exit code with " << seen[exit];
  }
  EXPECT_EQ(exit_for(Code::device_lost), Exit::device);
}

TEST(ExitCodes, E_TheHelpNamesThemAll) {
  const CommandResult help = call({"--help"});
  EXPECT_EQ(help.exit, Exit::ok);
  for (const ExitMeaning& meaning : exit_meanings()) {
    EXPECT_NE(help.out.find(std::string(meaning.name)), std::string::npos) << meaning.name;
  }
}

}  // namespace
}  // namespace graphtap::cli
