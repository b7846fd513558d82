#include "cli/values.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "graphtap/status.hpp"

namespace graphtap::cli {
namespace {

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Values, E_CountsSayWhatWouldBeRight) {
  EXPECT_EQ(parse_count("--n", "17", 1, 99), 17u);
  EXPECT_EQ(parse_count("--n", "18446744073709551615", 0, UINT64_MAX), UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", "1.5", "0x10", "100", "0", "12 ", " 12", "1e2",
                          "18446744073709551616", "seven"}) {
    EXPECT_EQ(refusal([&] { (void)parse_count("--n", bad, 1, 99); }),
              std::string("--n is \"") + bad + "\"; it must be a whole number from 1 to 99");
  }
}

TEST(Values, E_SizesTakeUnitsAndRefuseTheRest) {
  const auto size = [](const char* text) { return parse_size("--ring", text, 1, 1ull << 40); };
  EXPECT_EQ(size("4096"), 4096u);
  EXPECT_EQ(size("512KiB"), 512u << 10);
  EXPECT_EQ(size("64MiB"), 64u << 20);
  EXPECT_EQ(size("64 mib"), 64u << 20);
  EXPECT_EQ(size("1.5GiB"), 3ull << 29);
  EXPECT_EQ(size("8MB"), 8'000'000u);
  EXPECT_EQ(size("2k"), 2048u);
  for (const char* bad : {"", "MiB", "-1MiB", "1..5MiB", "64MiBs", "64 M iB", "0", "2TiB", "nan",
                          "inf", "1e3000MiB", "."}) {
    EXPECT_NE(refusal([&] { (void)size(bad); }), "") << bad;
  }
  EXPECT_NE(refusal([&] { (void)size("64Mob"); }).find("\"mob\" is no unit"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)parse_size("--ring", "1", 4096, 1 << 20); }).find("4KiB to 1MiB"),
            std::string::npos);
}

TEST(Values, E_TimesHaveAUnit) {
  using std::chrono::milliseconds;
  const auto time = [](const char* text) {
    return parse_time("--retain-age", text, milliseconds(1), std::chrono::hours(24 * 365));
  };
  EXPECT_EQ(time("200ms"), milliseconds(200));
  EXPECT_EQ(time("1.5s"), milliseconds(1500));
  EXPECT_EQ(time("30m"), std::chrono::minutes(30));
  EXPECT_EQ(time("12h"), std::chrono::hours(12));
  EXPECT_EQ(time("7d"), std::chrono::hours(7 * 24));
  for (const char* bad : {"", "7", "d", "-1s", "1w", "1 s", "1S", "0ms", "400d", "nans", "1e300d"})
    EXPECT_NE(refusal([&] { (void)time(bad); }), "") << bad;
  EXPECT_NE(refusal([&] { (void)time("400d"); }).find("from 1ms to 365d"), std::string::npos)
      << refusal([&] { (void)time("400d"); });
}

TEST(Values, E_TokenRangesIncludeBothEnds) {
  const auto span = [](const char* text) { return parse_tokens("--tokens", text); };
  EXPECT_EQ(span("7").begin, 7);
  EXPECT_EQ(span("7").end, 8);
  EXPECT_EQ(span("10-20").end, 21);
  EXPECT_EQ(span("10-").begin, 10);
  EXPECT_EQ(span("10-").end, std::numeric_limits<std::int64_t>::max());
  for (const char* bad :
       {"", "-", "-5", "20-10", "a", "1-b", "1-2-3", "9223372036854775807", "1,2"}) {
    EXPECT_NE(refusal([&] { (void)span(bad); }), "") << bad;
  }
}

TEST(Values, E_WordsNameTheChoices) {
  EXPECT_EQ(parse_word("--policy", "shed", {"lossless", "shed"}), 1u);
  const std::string words = refusal([] {
    (void)parse_word("--policy", "shedd", {"lossless", "shed"});
  });
  EXPECT_NE(words.find("lossless, shed"), std::string::npos);
  EXPECT_NE(words.find("did you mean \"shed\"?"), std::string::npos);
}

TEST(Values, NumbersForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(counted(1, "record"), "1 record");
  EXPECT_EQ(counted(0, "record"), "0 records");
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(utc_time(0), "1970-01-01 00:00:00");
}

}  // namespace
}  // namespace graphtap::cli
