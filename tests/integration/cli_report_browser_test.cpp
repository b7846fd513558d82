// What a real browser draws of a store whose every value is known: the pixels are compared with
// what was written (support/report_picture.py), never with what the report says of itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "graphtap/store_sink.hpp"
#include "integration/cli_process.hpp"

namespace graphtap::testing {
namespace {

using Json = nlohmann::json;

constexpr int kLayers = 6;
constexpr std::int64_t kTokens = 24;
constexpr std::int64_t kBegan = 1'700'000'000'000'000'000, kApart = 10'000'000;

/// Two requests. Of the second, "drawn": tokens 10-12 with nothing on, 13-15 with resid_pre of
/// layers 2-3 only; layer 4 shed at tokens 6-7, layer 1 not fired at token 17; token 20 rejected,
/// token 5 computed again at the end.
class KnownStore {
 public:
  explicit KnownStore(const std::filesystem::path& path) : table_("known") {
    for (const char* type : {"resid_pre", "mlp_out"}) {
      for (int layer = 0; layer < kLayers; ++layer) {
        HookSpec spec;
        spec.type = type;
        spec.layer = layer;
        spec.row_shape = {2};
        (void)table_.add(spec).value_or_throw();
      }
    }
    for (std::uint64_t i = 0; i < 2; ++i) {
      RequestInfo info;
      info.serial = i + 1;
      info.id = i == 0 ? "plain" : "drawn";
      info.prompt_tokens = 4;
      requests_.push_back(std::make_shared<const RequestInfo>(info));
    }
    StoreOptions options;
    options.run_name = "known run";
    sink_ = open_store_sink(path, table_, options).value_or_throw();
    for (int i = 0; i < 2; ++i) event(RequestEvent::Kind::begun, i, 0, 0);
    for (std::int64_t token = 0; token < kTokens; ++token) step(token, token, RowFlags::none);
    step(kTokens, 5, RowFlags::recomputed);
    event(RequestEvent::Kind::rejected, 1, 20, 21);
    EXPECT_TRUE(sink_->close().ok());
  }

  static double norm(int request, int layer, std::int64_t token, bool again) {
    return (request == 0 ? 12 : 10) + 8.0 * layer + static_cast<double>(token * 5 % 7) +
           (again ? 30 : 0);
  }
  static bool on(int layer, bool resid, std::int64_t step) {
    if (step >= 10 && step <= 12) return false;
    if (step >= 13 && step <= 15) return resid && (layer == 2 || layer == 3);
    return true;
  }
  static const char* lost(int layer, bool resid, std::int64_t step) {
    if (resid && layer == 4 && (step == 6 || step == 7)) return "shed_ring";
    if (resid && layer == 1 && step == 17) return "not_fired";
    return nullptr;
  }

  /// What is to be seen of resid_pre of "drawn": by layer, then token.
  static Json expected() {
    Json cells = Json::array(), on_at = Json::array(), lost_at = Json::array();
    for (int layer = 0; layer < kLayers; ++layer) {
      Json row = Json::array();
      for (std::int64_t token = 0; token < kTokens; ++token) {
        if (lost(layer, true, token)) {
          row.push_back("gap");
        } else if (!on(layer, true, token) || token == 20) {
          row.push_back("off");
        } else {
          row.push_back(norm(1, layer, token, token == 5));
        }
      }
      cells.push_back(row);
      Json line = Json::array();
      for (std::int64_t step = 0; step <= kTokens; ++step) line.push_back(on(layer, true, step));
      on_at.push_back(line);
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      for (std::int64_t step = 0; step <= kTokens; ++step) {
        if (const char* reason = lost(layer, true, step)) {
          lost_at.push_back({{"reason", reason}, {"step", step}});
        }
      }
    }
    return {{"request", "2"},    {"hook", "resid_pre"}, {"cells", cells},
            {"on", on_at},       {"steps", kTokens},    {"lost", lost_at},
            {"recomputed", {5}}, {"rejected", {20}},    {"bytes", bytes()}};
  }
  /// Of each type.
  static Json bytes() {
    std::map<std::string, int> rows;
    for (std::int64_t step = 0; step <= kTokens; ++step) {
      for (int layer = 0; layer < kLayers; ++layer) {
        for (const bool resid : {true, false}) {
          if (on(layer, resid, step) && !lost(layer, resid, step)) {
            rows[resid ? "resid_pre" : "mlp_out"] += 2 * 2 * 4;  // requests, values, bytes
          }
        }
      }
    }
    return rows;
  }

 private:
  void event(RequestEvent::Kind kind, int request, std::int64_t begin, std::int64_t end) {
    RequestEvent event;
    event.kind = kind;
    event.request = requests_[static_cast<std::size_t>(request)];
    event.begin = begin;
    event.end = end;
    EXPECT_TRUE(sink_->event(event).ok());
  }

  void step(std::int64_t number, std::int64_t token, RowFlags flags) {
    const std::vector<Slice> slices{{requests_[0], token, 0, 1, flags},
                                    {requests_[1], token, 1, 1, flags}};
    std::vector<std::vector<float>> payloads(table_.size());
    std::vector<HookId> wanted;
    DeliveredStep step;
    step.table = &table_;
    step.ticket = static_cast<std::uint64_t>(number) + 1;
    step.step = static_cast<std::uint64_t>(number);
    step.kind = StepKind::graph;
    step.set_version = number < 10 ? 1 : number < 16 ? 3 : 4;
    step.end_unix_ns = kBegan + number * kApart;
    for (const Hook& hook : table_.hooks()) {
      const bool resid = hook.type == "resid_pre";
      if (!on(hook.layer, resid, number)) continue;
      wanted.push_back(hook.id);
      if (const char* reason = lost(hook.layer, resid, number)) {
        const bool shed = std::string(reason) == "shed_ring";
        step.gaps.push_back({&hook, 0, shed ? GapReason::shed_ring : GapReason::not_fired, slices});
        continue;
      }
      auto& values = payloads[hook.id];
      for (int request = 0; request < 2; ++request) {
        const double wanted_norm =
            norm(request, hook.layer, token, has(flags, RowFlags::recomputed));
        values.push_back(static_cast<float>(0.6 * wanted_norm));
        values.push_back(static_cast<float>(-0.8 * wanted_norm));
      }
      step.records.push_back(
          {&hook, 0, 2, hook.row_bytes(), 0, std::as_bytes(std::span(values)), slices});
    }
    if (wanted.empty()) return;  // such steps are not delivered
    step.wanted = HookSet::of(table_.size(), wanted);
    EXPECT_TRUE(sink_->write(step).ok());
  }

  HookTable table_;
  std::vector<Request> requests_;
  std::shared_ptr<Sink> sink_;
};

TEST(ReportInABrowser, D6_ThePixelsAreWhatWasStored) {
  if (std::system("command -v chromium >/dev/null && /usr/bin/python3 -c 'import PIL'") != 0) {
    GTEST_SKIP() << "needs chromium and python3-pil (scripts/packages.txt, group test)";
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("graphtap-browser-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const struct Gone {
    std::filesystem::path path;
    ~Gone() { std::filesystem::remove_all(path); }
  } gone{folder};
  { const KnownStore store(folder / "store"); }
  Process report({"report", folder / "store", "--out", folder / "page.html"});
  const Ended ended = report.wait();
  ASSERT_EQ(ended.exit, 0) << ended.err;
  std::ofstream(folder / "expected.json") << KnownStore::expected().dump();
  const std::string command =
      "/usr/bin/python3 " GRAPHTAP_TESTS "/integration/support/report_picture.py '" +
      (folder / "page.html").string() + "' '" + (folder / "expected.json").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace graphtap::testing
