// The report of a store of many requests and runs: bounded in memory and size, and right.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graphtap/store_sink.hpp"
#include "integration/cli_process.hpp"
#include "support/sanitized.hpp"

namespace graphtap::testing {
namespace {

constexpr std::uint64_t kRequests = 1000;
constexpr std::uint64_t kSteps = kSanitized ? 2'000 : 100'000;  // of the large run
constexpr std::uint64_t kAtOnce = 4;                            // requests in a step
constexpr int kLayers = 8;
constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kBegan = 1'700'000'000'000'000'000;
constexpr std::uint64_t kAnonymousMemory = 160u << 20;  // the report may take so much

/// resid_pre and mlp_out of eight layers. Every 50th step sheds mlp_out of layer 5; each thousand
/// steps the set is switched between everything and resid_pre; every hundredth step ends late (2 ms
/// instead of 1 ms).
class LargeStore {
 public:
  explicit LargeStore(const std::filesystem::path& path) : path_(path), table_("large") {
    for (const char* type : {"resid_pre", "mlp_out"}) {
      for (int layer = 0; layer < kLayers; ++layer) {
        HookSpec spec;
        spec.type = type;
        spec.layer = layer;
        spec.row_shape = {kWidth};
        (void)table_.add(spec).value_or_throw();
      }
    }
    values_.assign(static_cast<std::size_t>(kWidth) * kAtOnce, 1.0F);
    write("short", 10, 4);
    write("large", kSteps, kRequests);
    write("empty", 0, 0);
  }
  std::uint64_t shed = 0;  // of the large run

 private:
  void write(const std::string& name, std::uint64_t steps, std::uint64_t requests) {
    StoreOptions options;
    options.run_name = name;
    options.segment_bytes = 64u << 20;
    const auto sink = open_store_sink(path_, table_, options).value_or_throw();
    std::vector<Request> all;
    for (std::uint64_t i = 0; i < requests; ++i) {
      RequestInfo info;
      info.serial = i + 1;
      info.id = "request-" + std::to_string(i);
      info.prompt_tokens = 1;
      all.push_back(std::make_shared<const RequestInfo>(info));
    }
    std::vector<std::int64_t> tokens(requests);
    shed = 0;
    std::int64_t end = kBegan;
    for (std::uint64_t i = 0; i < steps; ++i) {
      std::vector<Slice> slices;
      for (std::uint64_t k = 0; k < kAtOnce; ++k) {
        // Groups of requests go on for a while, then the next group.
        const std::uint64_t group = i * (requests / kAtOnce) / steps;
        const std::uint64_t which = group * kAtOnce + k;
        slices.push_back({all[which], tokens[which]++, static_cast<std::uint32_t>(k), 1, {}});
      }
      const bool everything = i / 1000 % 2 == 0;
      DeliveredStep step;
      step.table = &table_;
      step.ticket = i + 1;
      step.step = i;
      step.kind = StepKind::graph;
      step.set_version = 1 + i / 1000;
      end += i % 100 == 99 ? 2'000'000 : 1'000'000;
      step.end_unix_ns = end;
      std::vector<HookId> wanted;
      for (HookId id = 0; id < (everything ? 2 * kLayers : kLayers); ++id) wanted.push_back(id);
      step.wanted = HookSet::of(table_.size(), wanted);
      for (const HookId id : wanted) {
        if (everything && i % 50 == 0 && id == kLayers + 5) {
          step.gaps.push_back({&table_[id], 0, GapReason::shed_ring, slices});
          ++shed;
          continue;
        }
        step.records.push_back({&table_[id], 0, static_cast<std::uint32_t>(kAtOnce),
                                table_[id].row_bytes(), 0, std::as_bytes(std::span(values_)),
                                slices});
      }
      ASSERT_TRUE(sink->write(step).ok()) << i;
    }
    ASSERT_TRUE(sink->close().ok());
    if (steps != kSteps) return;
    last_shed_ = shed;
  }

  const std::filesystem::path path_;
  HookTable table_;
  std::vector<float> values_;

 public:
  std::uint64_t last_shed_ = 0;
};

/// A sanitizer's own memory would not fit.
Ended run_in_little(const std::vector<std::string>& arguments) {
  return Process(arguments, "/dev/null", kSanitized ? RLIM_INFINITY : kAnonymousMemory).wait();
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReportOfALargeStore, D6_IsBoundedInMemoryAndSizeAndCountsAreThoseWritten) {
  const Scratch folder;
  const std::string store = folder / "store", page = folder / "page.html";
  const LargeStore large(store);
  if (HasFatalFailure()) return;

  const auto began = std::chrono::steady_clock::now();
  const Ended made = run_in_little({"report", store, "--run", "2", "--out", page, "--json"});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  ASSERT_EQ(made.exit, 0) << made.err;
  const std::string html = read(page);
  std::printf("%.2f s, %ld KiB resident (mapped pages included), page of %zu bytes\n", seconds,
              made.resident_kib, html.size());
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LE(html.size(), 5'000'000u);
  EXPECT_GT(html.size(), 100'000u);

  const auto data = nlohmann::json::parse(made.out);
  ASSERT_EQ(data["runs"].size(), 3u);
  const auto& run_2 = data["runs"][1];
  EXPECT_EQ(run_2["requests"], kRequests);
  EXPECT_EQ(run_2["steps"], kSteps);
  EXPECT_EQ(run_2["shed"], large.last_shed_);
  // The table shows some and counts the rest; the maps too.
  EXPECT_EQ(data["requests"].size() + data["requests_left_out"].get<std::size_t>(), kRequests);
  EXPECT_EQ(data["maps"].size() + data["maps_left_out"].get<std::size_t>(), kRequests);
  EXPECT_GE(data["requests"][0]["lost"].get<std::uint64_t>(), data["requests"][1]["lost"]);
  EXPECT_GT(data["requests"][0]["lost"].get<std::uint64_t>(), 0u);
  EXPECT_NE(html.find("further requests; graphtap ls lists all"), std::string::npos);
  EXPECT_NE(html.find("further requests not drawn"), std::string::npos);
  // What was lost when, and the versions: as switched.
  std::uint64_t lost = 0;
  for (const auto& count : data["history"]["lost"]["shed_ring"]) lost += count.get<std::uint64_t>();
  EXPECT_EQ(lost, large.last_shed_);
  EXPECT_EQ(data["history"]["set_versions"].size(), kSteps / 1000);
  const auto& intervals = data["history"]["intervals"];
  EXPECT_EQ(intervals["count"], kSteps - 1);
  EXPECT_NEAR(intervals["p50_ns"].get<double>(), 1e6, 1.2e4);
  EXPECT_EQ(intervals["most_ns"], 2'000'000);
  const std::string always = data["history"]["on"]["blocks.0.resid_pre"];
  EXPECT_EQ(always.find_first_not_of('#'), std::string::npos) << always;
  const std::string half = data["history"]["on"]["blocks.0.mlp_out"];
  EXPECT_NEAR(static_cast<double>(std::count(half.begin(), half.end(), '.')),
              static_cast<double>(half.size()) / 2, static_cast<double>(half.size()) / 4)
      << half;

  // One request, some tokens; a run without steps is no crash.
  const Ended one = run_in_little(
      {"report", store, "--run", "2", "--request", "request-7", "--tokens", "1-3", "--json"});
  ASSERT_EQ(one.exit, 0) << one.err;
  const auto chosen = nlohmann::json::parse(one.out);
  ASSERT_EQ(chosen["maps"].size(), 1u);
  EXPECT_EQ(chosen["maps"][0]["maps"][0]["first_token"], 1);
  EXPECT_EQ(chosen["maps"][0]["maps"][0]["tokens"], 3);
  EXPECT_NEAR(chosen["maps"][0]["maps"][0]["norms"][2][1].get<double>(), 4.0, 1e-3);
  const Ended none = run_in_little({"report", store, "--out", page});
  EXPECT_EQ(none.exit, 0);
  EXPECT_NE(read(page).find("This run stored no step"), std::string::npos);
}

}  // namespace
}  // namespace graphtap::testing
