#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <tuple>

#include "store/open_sink.hpp"
#include "unit/store/support/faulty_ops.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

constexpr std::int64_t kWide =
    4096;  // a step takes 24 KiB, a segment (64 KiB at least) two of them
constexpr int kSteps = 7;
constexpr int kAttempts = 4;

/// A short run, every call tried again as a monitor does.
class FaultyRun {
 public:
  explicit FaultyRun(FaultyOps& ops) : ops_(ops), table_(small_table(3, kWide)) {
    for (std::uint64_t ticket = 1; ticket <= kSteps; ++ticket) {
      steps_.push_back(
          make_step(table_, ticket, request_, static_cast<std::int64_t>(ticket), 1, {0, 1, 2}));
    }
  }
  /// False if the store could not be opened at all.
  bool run(const std::filesystem::path& path) {
    std::shared_ptr<Sink> sink;
    for (int i = 0; i < kAttempts && !sink; ++i) {
      auto opened = store::open_sink(ops_, path, table_, {.segment_bytes = 1});
      if (opened.ok()) {
        sink = std::move(opened).value();
      } else {
        failures_.push_back(opened.status());
      }
    }
    if (!sink) return false;
    EXPECT_TRUE(again([&] { return sink->event(event(RequestEvent::Kind::begun)); }));
    for (const OwnedStep& step : steps_) {
      EXPECT_TRUE(again([&] { return sink->write(step.delivered(table_)); }))
          << "step " << step.ticket;
    }
    EXPECT_TRUE(again([&] { return sink->event(event(RequestEvent::Kind::finished)); }));
    EXPECT_TRUE(again([&] { return sink->flush(); }));
    if (const Status s = sink->close(); !s.ok()) failures_.push_back(s);
    return true;
  }
  void check(const std::filesystem::path& path, const std::string& what) {
    const auto reader = read_store(path, {ReadOptions::Check::always});
    std::vector<std::uint64_t> expected;
    for (const OwnedStep& step : steps_) expected.push_back(step.ticket);
    EXPECT_EQ(tickets(*reader), expected) << what;
    const auto views = all_of(reader->read({}));
    ASSERT_EQ(views.size(), steps_.size() * 3) << what;
    for (std::size_t i = 0; i < views.size(); ++i) {
      EXPECT_TRUE(same_bytes(views[i].data, steps_[i / 3].records[i % 3].payload))
          << what << " view " << i;
    }
    const auto requests = reader->requests();
    ASSERT_EQ(requests.size(), 1u) << what;
    EXPECT_TRUE(requests[0].finished) << what;
    EXPECT_EQ(requests[0].steps, static_cast<std::uint64_t>(kSteps)) << what;
    const VerifyReport report = verify_store(path, true).value_or_throw();
    EXPECT_TRUE(report.ok()) << what << "\n" << describe(report.findings);
    EXPECT_EQ(report.events, 2u) << what << ": an event that was tried again is there once";
  }
  const std::vector<Status>& failures() const { return failures_; }

 private:
  template <class Call>
  bool again(Call call) {
    for (int i = 0; i < kAttempts; ++i) {
      const Status status = call();
      if (status.ok()) return true;
      failures_.push_back(status);
    }
    return false;
  }
  RequestEvent event(RequestEvent::Kind kind) const {
    return {kind, request_, 0, 0, true, kind == RequestEvent::Kind::finished ? 3u * kSteps : 0u, 0};
  }
  FaultyOps& ops_;
  const HookTable table_;
  const Request request_ = make_request(1, "a");
  std::vector<OwnedStep> steps_;
  std::vector<Status> failures_;
};

class OneFault : public testing::TestWithParam<std::tuple<Fault, int>> {};

TEST_P(OneFault, D2_WhicheverCallFailsEachStepIsStoredOnce) {
  const auto [fault, error] = GetParam();
  std::uint64_t calls = 0;
  {
    FaultyOps ops;
    const TempDir dir;
    ASSERT_TRUE(FaultyRun(ops).run(dir.store()));
    calls = ops.calls();
  }
  ASSERT_GT(calls, 20u);
  int failed = 0;
  for (std::uint64_t call = 0; call < calls; ++call) {
    FaultyOps ops;
    ops.fail_once(call, fault, error);
    const TempDir dir;
    FaultyRun run(ops);
    const std::string what = "call " + std::to_string(call) + " of " + std::to_string(calls);
    ASSERT_TRUE(run.run(dir.store())) << what;
    run.check(dir.store(), what);
    if (testing::Test::HasFailure()) break;
    for (const Status& status : run.failures()) {
      const Code expected = error == ENOSPC ? Code::exhausted : Code::io_error;
      EXPECT_TRUE(status.code() == expected || status.code() == Code::unavailable)
          << status.message();
      EXPECT_NE(status.message().find(dir.store().string()), std::string::npos) << status.message();
    }
    failed += run.failures().empty() ? 0 : 1;
  }
  EXPECT_GT(failed, static_cast<int>(calls) / 2) << "a fault that nobody saw proves nothing";
}

std::string fault_name(const testing::TestParamInfo<std::tuple<Fault, int>>& test) {
  const char* names[] = {"Refused", "Partial", "Done"};
  const auto [fault, error] = test.param;
  return std::string(names[static_cast<int>(fault)]) + (error == EIO ? "Eio" : "Enospc");
}
INSTANTIATE_TEST_SUITE_P(Faults, OneFault,
                         testing::Combine(testing::Values(Fault::refused, Fault::partial,
                                                          Fault::done),
                                          testing::Values(EIO, ENOSPC)),
                         fault_name);

TEST(SinkFaults, D2_ShortWritesAreGoneOnWith) {
  FaultyOps ops;
  ops.short_writes(1000);
  const TempDir dir;
  FaultyRun run(ops);
  ASSERT_TRUE(run.run(dir.store()));
  EXPECT_TRUE(run.failures().empty());
  run.check(dir.store(), "short writes");
}

TEST(SinkFaults, E_AFullDiskRefusesEveryStepUntilThereIsRoomAndLeavesNoLitter) {
  FaultyOps ops;
  const TempDir dir;
  const HookTable table = small_table();
  const Request a = make_request(1, "a");
  const auto sink = store::open_sink(ops, dir.store(), table, {}).value_or_throw();
  const auto write = [&](std::uint64_t ticket) {
    return sink->write(make_step(table, ticket, a, 0, 1, {0}).delivered(table));
  };
  ASSERT_OK(write(1));
  ops.fail_writes(Fault::partial, ENOSPC);
  for (int attempt = 0; attempt < 50; ++attempt) {
    const Status status = write(2);
    EXPECT_EQ(status.code(), Code::exhausted) << status.message();
  }
  ops.heal();
  ASSERT_OK(write(2));
  ASSERT_OK(write(2));  // asked again, it is stored already
  ASSERT_OK(sink->close());
  EXPECT_EQ(tickets(*read_store(dir.store())), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(segment_files(dir.store()).size(), 2u)
      << "the one with the torn end, and the one after it";
  EXPECT_TRUE(verify_store(dir.store(), true).value_or_throw().ok());
}

TEST(SinkFaults, E_OnARealFullDiskWhatWasStoredStaysAndRoomIsUsedAgain) {
  const TempDir dir;
  const auto mount_point = dir.path() / "small";
  const SmallDisk disk(mount_point, "2m");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a small disk";
  const HookTable table = small_table(1, 32 << 10);  // 64 KiB a row
  const Request a = make_request(1, "a");
  const auto filler = mount_point / "filler";
  write_bytes(filler, std::vector<std::byte>(512 << 10));
  const auto store = mount_point / "store";
  std::uint64_t ticket = 0;
  Status status;
  {
    const auto sink = open_store(store, table);
    while (status.ok() && ticket < 100) {
      ++ticket;
      const auto token = static_cast<std::int64_t>(ticket);
      status = sink->write(make_step(table, ticket, a, token, 1, {0}).delivered(table));
    }
    EXPECT_EQ(status.code(), Code::exhausted) << status.message();
    const auto reader = read_store(store);
    EXPECT_EQ(tickets(*reader).size(), ticket - 1);
    std::filesystem::remove(filler);
    const auto token = static_cast<std::int64_t>(ticket);
    ASSERT_OK(sink->write(make_step(table, ticket, a, token, 1, {0}).delivered(table)));
    ASSERT_OK(sink->close());
  }
  EXPECT_EQ(tickets(*read_store(store)).size(), ticket);
  const VerifyReport report = verify_store(store, true).value_or_throw();
  EXPECT_TRUE(report.ok()) << describe(report.findings);
}

TEST(SinkFaults, E_ADiskThatTurnsReadOnlyIsTrouble) {
  FaultyOps ops;
  const TempDir dir;
  const HookTable table = small_table();
  const auto sink = store::open_sink(ops, dir.store(), table, {}).value_or_throw();
  ops.fail_always(Fault::refused, EROFS);
  const Status status =
      sink->write(make_step(table, 1, make_request(1, "a"), 0, 1, {0}).delivered(table));
  EXPECT_EQ(status.code(), Code::io_error) << status.message();
  EXPECT_NE(status.message().find("000001.gts"), std::string::npos) << status.message();
}

TEST(SinkFaults, D2_AFailedSyncIsToldOnceAndAWriteAfterItIsTaken) {
  FaultyOps ops;
  const TempDir dir;
  const HookTable table = small_table();
  const Request a = make_request(1, "a");
  StoreOptions options;
  options.durability = Durability::power;
  options.sync_interval = std::chrono::hours(1);  // only flush() syncs
  const auto sink = store::open_sink(ops, dir.store(), table, options).value_or_throw();
  ASSERT_OK(sink->write(make_step(table, 1, a, 0, 1, {0}).delivered(table)));
  ops.fail_syncs(EIO);
  const Status status = sink->flush();
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("power"), std::string::npos) << status.message();
  ops.heal();
  ASSERT_OK(sink->write(make_step(table, 2, a, 1, 1, {0}).delivered(table)));
  ASSERT_OK(sink->flush());
  EXPECT_EQ(tickets(*read_store(dir.store())), (std::vector<std::uint64_t>{1, 2}));
}

TEST(SinkFaults, D_DurabilityDecidesWhoSyncs) {
  const HookTable table = small_table();
  const Request a = make_request(1, "a");
  for (const Durability durability : {Durability::process, Durability::power}) {
    FaultyOps ops;
    const TempDir dir;
    StoreOptions options;
    options.durability = durability;
    const auto sink = store::open_sink(ops, dir.store(), table, options).value_or_throw();
    const std::uint64_t before = ops.syncs();
    ASSERT_OK(sink->write(make_step(table, 1, a, 0, 1, {0}).delivered(table)));
    ASSERT_OK(sink->flush());
    if (durability == Durability::process) {
      EXPECT_EQ(ops.syncs(), before);
    } else {
      EXPECT_GE(ops.syncs(), before + 2) << "the segment and its directory";
    }
  }
}

TEST(SinkFaults, D_WithPowerDurabilityAnIdleStoreIsSyncedWithinTheInterval) {
  FaultyOps ops;
  const TempDir dir;
  const HookTable table = small_table();
  StoreOptions options;
  options.durability = Durability::power;
  options.sync_interval = std::chrono::milliseconds(20);
  const auto sink = store::open_sink(ops, dir.store(), table, options).value_or_throw();
  const std::uint64_t before = ops.syncs();
  ASSERT_OK(sink->write(make_step(table, 1, make_request(1, "a"), 0, 1, {0}).delivered(table)));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ops.syncs() < before + 2 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_GE(ops.syncs(), before + 2) << "nobody called anything, and still it must be synced";
}

}  // namespace
}  // namespace graphtap::store_test
