#include "graphtap/status.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace graphtap {
namespace {

TEST(Status, E_EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Code::device_lost); ++i) {
    const std::string name = to_string(static_cast<Code>(i));
    EXPECT_NE(name, "unknown") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_STREQ(to_string(static_cast<Code>(99)), "unknown");
}

TEST(Status, E_DefaultIsOk) {
  EXPECT_TRUE(Status{}.ok());
  EXPECT_FALSE(Status(Code::timeout, "late").ok());
}

TEST(Result, E_HoldsAValueOrTheReason) {
  const Result<int> good = 7;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 7);
  EXPECT_TRUE(good.status().ok());
  const Result<int> bad = Status(Code::not_found, "no such store");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::not_found);
  EXPECT_EQ(bad.status().message(), "no such store");
}

TEST(Result, E_ValueOrThrowCarriesTheCode) {
  EXPECT_EQ(*Result<std::unique_ptr<int>>(std::make_unique<int>(3)).value_or_throw(), 3);
  try {
    (void)Result<int>(Status(Code::corrupt, "bad checksum")).value_or_throw();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_STREQ(error.what(), "bad checksum");
  }
}

}  // namespace
}  // namespace graphtap
