// Bad input to the llama.cpp adapter: each error says what was wrong, where, and what would be
// right.
#include <fstream>
#include <functional>

#include "graphtap/host_device.hpp"
#include "integration/support/llama_support.hpp"

namespace graphtap::llama::test {
namespace {

TEST(LlamaErrors, E_WhatCannotBeOpenedSaysWhy) {
  const auto temporary = std::filesystem::path(testing::TempDir());
  const auto text_file = temporary / "not_a_model.gguf";
  std::ofstream(text_file) << "this is not a GGUF file, only its name says so";
  const auto cut = temporary / "cut.gguf";
  {
    std::ifstream in(default_model_path(), std::ios::binary);
    std::vector<char> head(1 << 20);
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    std::ofstream(cut, std::ios::binary).write(head.data(), in.gcount());
  }
  const auto other_map = temporary / "other.json";
  std::ofstream(other_map) << R"({"format": 1, "name": "other", "architectures": ["mamba"],
      "hooks": [{"type": "embed", "rows": 1, "nodes": [{"tensor": "embd", "op": "GET_ROWS"}]}]})";
  struct Case {
    std::function<void(SessionOptions&)> change;
    Code code;
    const char* message;
  };
  const Case cases[] = {
      {[](SessionOptions& o) { o.model = "/nowhere/model.gguf"; }, Code::not_found,
       "/nowhere/model.gguf: no such file"},
      {[](SessionOptions& o) { o.model = testing::TempDir(); }, Code::not_found, "no such file"},
      {[&](SessionOptions& o) { o.model = text_file; }, Code::corrupt, "a GGUF file is needed"},
      {[&](SessionOptions& o) { o.model = cut; }, Code::corrupt, "cut.gguf"},
      {[](SessionOptions& o) { o.map = "/nowhere/map.json"; }, Code::not_found,
       "/nowhere/map.json"},
      {[&](SessionOptions& o) { o.map = other_map; }, Code::invalid_argument, "is for mamba"},
      {[](SessionOptions& o) { o.max_sequences = 0; }, Code::invalid_argument,
       "max_sequences is 0"},
      {[](SessionOptions& o) { o.max_sequences = 999; }, Code::invalid_argument, "1 to 256"},
      {[](SessionOptions& o) { o.batch_tokens = 2; }, Code::invalid_argument, "batch_tokens is 2"},
      {[](SessionOptions& o) { o.context_tokens = 16; }, Code::invalid_argument,
       "context_tokens is 16"},
      {[](SessionOptions& o) { o.threads = 100'000; }, Code::invalid_argument, "threads is 100000"},
      {[](SessionOptions& o) { o.poll = 101; }, Code::invalid_argument, "poll is 101"},
  };
  for (const Case& each : cases) {
    SessionOptions options = small_options();
    each.change(options);
    const auto session = LlamaSession::open(options);
    ASSERT_FALSE(session.ok()) << each.message;
    EXPECT_EQ(session.status().code(), each.code) << session.status().message();
    EXPECT_NE(session.status().message().find(each.message), std::string::npos)
        << session.status().message();
  }
}

TEST(LlamaErrors, E_PromptsThatCannotRunAreRefusedAndOthersGoOn) {
  auto session = LlamaSession::open(small_options()).value_or_throw();
  const auto refused = [&](const Prompt& prompt, const char* message) {
    const auto number = session->submit(prompt);
    ASSERT_FALSE(number.ok()) << message;
    EXPECT_EQ(number.status().code(), Code::invalid_argument);
    EXPECT_NE(number.status().message().find(message), std::string::npos)
        << number.status().message();
    EXPECT_NE(number.status().message().find(prompt.id), std::string::npos);
  };
  refused(ask("empty", "", 4), "no tokens");
  refused(ask("none", "Hello", 0), "max_new_tokens must be at least 1");
  refused(ask("long", "Hello", 5000), "do not fit a context of 512");
  Prompt stranger = ask("stranger", "", 4);
  stranger.tokens = {5, 49'152};
  refused(stranger, "token 49152 is not in the vocabulary of 49152");
  stranger.tokens = {-1};
  refused(stranger, "token -1");
  ASSERT_TRUE(session->submit(ask("fine", "Hello", 2)).ok());
  EXPECT_TRUE(session->run().ok());
  ASSERT_EQ(session->generations().size(), 1u);
  EXPECT_EQ(session->generations()[0].finish, Finish::length);
}

TEST(LlamaErrors, E_AMonitorOverAnotherTableIsRefused) {
  auto session = LlamaSession::open(small_options()).value_or_throw();
  HookTable table("another");
  ASSERT_TRUE(table.add({"embed", -1, DType::f32, {8}, 1, 1}).ok());
  MonitorOptions small;
  small.ring_bytes = 1 << 20;
  Monitor other(make_host_device(), table, small);
  const Status status = session->attach(other);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("another"), std::string::npos) << status.message();
  Monitor right(make_host_device(), session->table(), small);
  EXPECT_TRUE(session->attach(right).ok());
  EXPECT_FALSE(session->attach(right).ok());

  SessionOptions plain = small_options();
  plain.instrument = false;
  auto unwatched = LlamaSession::open(plain).value_or_throw();
  EXPECT_EQ(unwatched->table().size(), 0u);
  EXPECT_EQ(unwatched->attach(right).code(), Code::invalid_argument);
}

TEST(LlamaErrors, E_AHookTheModelLacksIsNamed) {
  auto session = LlamaSession::open(small_options()).value_or_throw();
  const auto experts = session->resolve(Selection::parse("router_logits").value_or_throw());
  ASSERT_FALSE(experts.ok());
  EXPECT_NE(experts.status().message().find("router_logits"), std::string::npos);
  const auto layer = session->resolve(Selection::parse("resid_pre:30").value_or_throw());
  ASSERT_FALSE(layer.ok());
  EXPECT_NE(layer.status().message().find("30"), std::string::npos);
}

TEST(LlamaErrors, E_ProgressOfLoadingReachesItsEnd) {
  SessionOptions options = small_options();
  float last = -1;
  options.on_load = [&last](float progress) {
    EXPECT_GE(progress, last);
    last = progress;
    if (progress > 0.5F) throw std::runtime_error("a broken progress bar");
  };
  EXPECT_TRUE(LlamaSession::open(options).ok());
  EXPECT_EQ(last, 1.0F);
}

}  // namespace
}  // namespace graphtap::llama::test
