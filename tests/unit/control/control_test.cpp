#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "control/unix_socket.hpp"
#include "graphtap/control.hpp"
#include "graphtap/host_device.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Control : public ::testing::Test {
 protected:
  Control() {
    char name[] = "/tmp/graphtap-control-XXXXXX";
    folder_ = ::mkdtemp(name);
    HookTable table("model");
    for (int layer = 0; layer < 4; ++layer) {
      (void)table.add({"resid_pre", layer, DType::f32, {4}}).value_or_throw();
    }
    MonitorOptions options;
    options.ring_bytes = 1 << 20;
    monitor_ = std::make_unique<Monitor>(make_host_device(), std::move(table), options,
                                         std::vector{make_null_sink()});
  }
  ~Control() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  void start(const std::string& token = "") {
    server_ = ControlServer::start(*monitor_, {socket(), token}).value_or_throw();
  }
  [[nodiscard]] fs::path socket() const { return folder_ / "control"; }
  Json ask(const Json& request) const {
    return Json::parse(
        control_request(socket(), request.dump(), std::chrono::seconds(10)).value_or_throw());
  }

  fs::path folder_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(Control, A19_SwitchesHooksFromOutside) {
  start();
  EXPECT_EQ(monitor_->enabled().count(), 4u);
  const Json answer =
      ask({{"command", "enable"}, {"selection", "resid_pre:1-2"}, {"apply", "now"}});
  EXPECT_TRUE(answer.at("ok"));
  EXPECT_EQ(answer.at("enabled"), Json({"blocks.1.resid_pre", "blocks.2.resid_pre"}));
  EXPECT_EQ(monitor_->enabled().ids(), (std::vector<HookId>{1, 2}));
  EXPECT_TRUE(ask({{"command", "enable"}, {"selection", "none"}}).at("ok"));
  EXPECT_TRUE(monitor_->enabled().empty());
}

TEST_F(Control, A19_A18_NamedLeasesLastUntilTheyAreGivenBack) {
  start();
  ask({{"command", "enable"}, {"selection", "none"}});
  const Json watched = ask({{"command", "watch"},
                            {"name", "probe"},
                            {"selection", "resid_pre:3"},
                            {"requests", {"r1"}},
                            {"windows", {{0, 10, "response"}}}});
  EXPECT_TRUE(watched.at("ok")) << watched;
  EXPECT_EQ(monitor_->enabled().ids(), std::vector<HookId>{3});
  EXPECT_TRUE(ask({{"command", "unwatch"}, {"name", "probe"}}).at("ok"));
  EXPECT_TRUE(monitor_->enabled().empty());
  const Json again = ask({{"command", "unwatch"}, {"name", "probe"}});
  EXPECT_FALSE(again.at("ok"));
  EXPECT_EQ(again.at("code"), "not_found");
}

TEST_F(Control, A19_WithoutTheTokenNothingChanges) {
  start("secret");
  for (const char* token : {"", "secre", "secret1", "Secret"}) {
    const Json answer = ask({{"command", "enable"}, {"selection", "none"}, {"token", token}});
    EXPECT_FALSE(answer.at("ok")) << token;
    EXPECT_EQ(answer.at("code"), "unavailable");
  }
  EXPECT_FALSE(ask({{"command", "enable"}, {"selection", "none"}}).at("ok"));
  EXPECT_EQ(monitor_->enabled().count(), 4u);
  EXPECT_TRUE(ask({{"command", "enable"}, {"selection", "none"}, {"token", "secret"}}).at("ok"));
  EXPECT_TRUE(monitor_->enabled().empty());
}

TEST_F(Control, A19_OnlyItsUserMayOpenTheSocket) {
  start();
  struct stat info {};
  ASSERT_EQ(::stat(socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const FileDescriptor a(pair[0]), b(pair[1]);
  EXPECT_TRUE(peer_is_ours(a.get()));
  EXPECT_FALSE(peer_is_ours(-1));
}

TEST_F(Control, E_EveryBadRequestSaysWhatIsWrong) {
  start();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"no json", "one JSON object"},
      {"[1,2]", "one JSON object"},
      {"{}", "lacks \"command\""},
      {R"({"command":7})", "wrong type"},
      {R"({"command":"enabel"})", "unknown command \"enabel\""},
      {R"({"command":"enable"})", "lacks \"selection\""},
      {R"({"command":"enable","selection":"resid_pr"})", "resid_pre"},
      {R"({"command":"enable","selection":"resid_pre:9"})", "9"},
      {R"({"command":"enable","selection":"none","apply":"soon"})", "at_next_launch"},
      {R"({"command":"watch","selection":"resid_pre"})", "lacks \"name\""},
      {R"({"command":"watch","name":"x","selection":"resid_pre","windows":[[5]]})", "a window is"},
      {R"({"command":"watch","name":"x","selection":"resid_pre","windows":[[9,2]]})", "window"},
      {R"({"command":"watch","name":"x","selection":"resid_pre","requests":"r"})", "wrong type"},
  };
  for (const auto& [request, words] : cases) {
    const Json answer =
        Json::parse(control_request(socket(), request, std::chrono::seconds(10)).value_or_throw());
    EXPECT_FALSE(answer.at("ok")) << request;
    EXPECT_NE(answer.at("error").get<std::string>().find(words), std::string::npos)
        << request << " → " << answer;
  }
  EXPECT_EQ(monitor_->enabled().count(), 4u);
  EXPECT_TRUE(ask({{"command", "flush"}, {"timeout_ms", 1000}}).at("ok"));
  EXPECT_EQ(ask({{"command", "stats"}}).at("stats").at("planned"), 0);
  EXPECT_EQ(ask({{"command", "hooks"}}).at("hooks").size(), 4u);
}

TEST_F(Control, E_ALineWithoutEndIsCutOff) {
  start();
  const auto answer = control_request(socket(), std::string(70'000, 'x'), std::chrono::seconds(10));
  if (answer.ok()) {  // else it hung up before the answer could be read: as good
    EXPECT_FALSE(Json::parse(answer.value()).at("ok"));
  }
  EXPECT_TRUE(ask({{"command", "enabled"}}).at("ok"));
}

TEST_F(Control, E_ASecondServerIsRefusedAndADeadOnesSocketReplaced) {
  start();
  const auto second = ControlServer::start(*monitor_, {socket(), ""});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::unavailable);
  server_.reset();
  EXPECT_FALSE(fs::exists(socket()));

  const auto file = folder_ / "file";
  std::ofstream(file) << "mine";
  const auto on_file = ControlServer::start(*monitor_, {file, ""});
  ASSERT_FALSE(on_file.ok());
  EXPECT_NE(on_file.status().message().find("not a socket"), std::string::npos);
  EXPECT_TRUE(fs::exists(file));

  { const FileDescriptor dead = listen_at(socket()).value_or_throw(); }  // closed, but not removed
  ASSERT_TRUE(fs::exists(socket()));
  start();
  EXPECT_TRUE(ask({{"command", "enabled"}}).at("ok"));

  const auto too_long = ControlServer::start(*monitor_, {folder_ / std::string(200, 'x'), ""});
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.status().code(), Code::invalid_argument);
  const auto nobody = control_request(folder_ / "none", "{}", std::chrono::seconds(1));
  EXPECT_EQ(nobody.status().code(), Code::not_found);
}

}  // namespace
}  // namespace graphtap
