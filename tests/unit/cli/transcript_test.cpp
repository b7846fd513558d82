#include "cli/transcript.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "unit/cli/support.hpp"

namespace graphtap::cli {
namespace {

TEST(Transcript, ComesBackAsItWas) {
  const TempDir dir;
  Transcript written;
  written.model = "a model";
  written.requests[3] = {"chat \"7\"", 2, {1, 2, 3}, {"<|im_start|>", "\xc3", "\xa9\n"}, "length"};
  ASSERT_TRUE(write_transcript(dir / "s", "abc", written).ok());
  const auto read = read_transcript(dir / "s", "abc");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().model, "a model");
  ASSERT_EQ(read.value().requests.size(), 1u);
  const RequestText& text = read.value().requests.at(3);
  EXPECT_EQ(text.id, "chat \"7\"");
  EXPECT_EQ(text.prompt_tokens, 2u);
  EXPECT_EQ(text.tokens, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(text.pieces, (std::vector<std::string>{"<|im_start|>", "\xc3", "\xa9\n"}));
  EXPECT_EQ(text.finish, "length");
}

TEST(Transcript, NoneIsNoError) {
  const TempDir dir;
  const auto read = read_transcript(dir / "s", "abc");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read.value().requests.empty());
}

TEST(Transcript, E_WhatIsNoTranscriptIsCorrupt) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "s/transcripts");
  for (const char* content :
       {"", "{", "[]", "{\"format\": \"graphtap-transcript\", \"version\": 1}",
        R"({"format": "graphtap-transcript", "version": 1, "model": 7, "requests": []})"}) {
    std::ofstream(dir / "s/transcripts/abc.json") << content;
    const auto read = read_transcript(dir / "s", "abc");
    ASSERT_FALSE(read.ok()) << content;
    EXPECT_EQ(read.status().code(), Code::corrupt) << content;
  }
}

}  // namespace
}  // namespace graphtap::cli
