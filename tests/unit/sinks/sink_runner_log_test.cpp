#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "fake_sink.hpp"
#include "sinks/sink_runner.hpp"

namespace graphtap {
namespace {

using namespace std::chrono_literals;
using test::FakeSink;
using test::make_step;

// Thousands of deliberate failures in this binary: only the test below wants to see what is logged.
class Quiet final : public testing::Environment {
 public:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};
const testing::Environment* const quiet = testing::AddGlobalTestEnvironment(new Quiet);

class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>(
        "capture", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

TEST(SinkRunnerLog, D2_AnErrorIsLoggedOncePerChange) {
  const LogCapture log;
  auto sink = std::make_shared<FakeSink>("store");
  SinkRunner runner(sink, RetryPolicy{2, 0ms, 0ms}, 1 << 20, true, [] { return 1u; });
  std::uint64_t ticket = 0;
  for (const char* message : {"disk full", "disk full", "server gone", "disk full"}) {
    sink->fail_next(2, FakeSink::Fault::status, message);
    ASSERT_TRUE(runner.offer(make_step(++ticket)));
    while (runner.pump()) {
    }
  }
  EXPECT_EQ(log.text(),
            "warning: sink store: disk full\n"
            "warning: sink store: server gone\n"
            "warning: sink store: disk full\n");
  EXPECT_EQ(runner.stats().last_error, "disk full");
}

}  // namespace
}  // namespace graphtap
