#include "base/near_match.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace graphtap {
namespace {

using Words = std::vector<std::string>;
constexpr std::string_view kHooks[] = {"resid_pre", "resid_mid", "resid_final", "q",
                                       "k",         "pattern",   "mlp_out",     "attn_out"};

TEST(NearMatch, E_DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("pattern", "pattern"), 0U);
  EXPECT_EQ(edit_distance("patern", "pattern"), 1U);
  EXPECT_EQ(edit_distance("pattrn", "pattern"), 1U);
  EXPECT_EQ(edit_distance("paXtern", "pattern"), 1U);
  EXPECT_EQ(edit_distance("pattenr", "pattern"), 1U);  // neighbours swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("MLP-Out", "mlp_out"), 0U);
}

TEST(NearMatch, E_DistanceIsSymmetricAndBounded) {
  constexpr unsigned kSeed = 20240601;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto word = [&] {
    std::string text(random() % 8, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word();
    const std::string b = word();
    const std::size_t distance = edit_distance(a, b);
    EXPECT_EQ(distance, edit_distance(b, a)) << a << ' ' << b;
    EXPECT_EQ(distance == 0, a == b) << a << ' ' << b;
    EXPECT_LE(distance, std::max(a.size(), b.size()));
    EXPECT_GE(distance, std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }
}

TEST(NearMatch, E_NearestFirst) {
  EXPECT_EQ(near_matches("resid_mod", kHooks), (Words{"resid_mid", "resid_pre"}));
  EXPECT_EQ(near_matches("patern", kHooks), Words{"pattern"});
  EXPECT_EQ(near_matches("Resid-Pre", kHooks).front(), "resid_pre");
}

TEST(NearMatch, E_AWordBegunIsNear) {
  EXPECT_EQ(near_matches("resid", kHooks), (Words{"resid_pre", "resid_mid", "resid_final"}));
  EXPECT_EQ(near_matches("resid", kHooks, 1), Words{"resid_pre"});
}

TEST(NearMatch, E_FarWordsAreNotOffered) {
  EXPECT_TRUE(near_matches("x", kHooks).empty());
  EXPECT_TRUE(near_matches("completely_else", kHooks).empty());
  EXPECT_TRUE(near_matches("", kHooks).empty());
  EXPECT_TRUE(near_matches(std::string(100'000, 'q'), kHooks).empty());
  EXPECT_EQ(did_you_mean("completely_else", kHooks), "");
}

TEST(NearMatch, E_Wording) {
  EXPECT_EQ(did_you_mean("patern", kHooks), "; did you mean \"pattern\"?");
  EXPECT_EQ(did_you_mean("resid", kHooks),
            "; did you mean \"resid_pre\", \"resid_mid\" or \"resid_final\"?");
}

TEST(NearMatch, E_QuotedTextIsFitForATerminal) {
  EXPECT_EQ(in_quotes("q:0"), "\"q:0\"");
  EXPECT_EQ(in_quotes("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(in_quotes(std::string_view("\x1b[31m\0\xff", 7)), "\"\\x1b[31m\\x00\\xff\"");
  EXPECT_EQ(in_quotes("größe ✓ 😀"), "\"größe ✓ 😀\"");
  // Truncated, overlong, surrogate, beyond Unicode, and a control character above ASCII.
  EXPECT_EQ(in_quotes("\xe2\x9c"), "\"\\xe2\\x9c\"");
  EXPECT_EQ(in_quotes("\xc0\xaf"), "\"\\xc0\\xaf\"");
  EXPECT_EQ(in_quotes("\xe0\x80\xaf"), "\"\\xe0\\x80\\xaf\"");
  EXPECT_EQ(in_quotes("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");
  EXPECT_EQ(in_quotes("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");
  EXPECT_EQ(in_quotes("\xc2\x9b"), "\"\\xc2\\x9b\"");
  EXPECT_EQ(in_quotes("aé", 2), "\"a...\"");  // never half a character
  EXPECT_EQ(in_quotes("abcdef", 3), "\"abc...\"");
}

}  // namespace
}  // namespace graphtap
