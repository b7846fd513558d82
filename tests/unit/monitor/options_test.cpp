// What a monitor refuses, in words, and that it leaves nothing behind.
#include <gtest/gtest.h>

#include <functional>

#include "unit/monitor/monitor_rig.hpp"

namespace graphtap {
namespace {

using testing::KeepingSink;
using testing::layered_table;
using testing::Rig;
using testing::RigOptions;
using testing::small_options;

struct BadOptions {
  const char* what;
  std::function<void(MonitorOptions&)> spoil;
  std::vector<std::string> words;  // that the message must hold
};

std::vector<BadOptions> bad_options() {
  return {
      {"ring smaller than a step",
       [](auto& o) { o.ring_bytes = 64; },
       {"ring_bytes", "64", "at least", "4 hooks"}},
      {"ring not in 16-byte units",
       [](auto& o) { o.ring_bytes = 65537; },
       {"ring_bytes", "65537", "multiple of 16"}},
      {"staging smaller than a step",
       [](auto& o) { o.staging_bytes = 16; },
       {"staging_bytes", "16"}},
      {"no header slot", [](auto& o) { o.header_slots = 0; }, {"header_slots", "at least 1"}},
      {"negative timeout",
       [](auto& o) { o.space_timeout = std::chrono::seconds(-1); },
       {"space_timeout", "negative"}},
      {"active set of another model",
       [](auto& o) { o.active = HookSet::all(9); },
       {"active", "another hook table"}},
      {"unknown hook", [](auto& o) { o.selection = "resid_pro"; }, {"resid_pro", "resid_pre"}},
      {"unknown layer", [](auto& o) { o.selection = "resid_pre:17"; }, {"17"}},
      {"only hooks that are not active",
       [](auto& o) {
         o.active = HookSet::of(4, std::vector<HookId>{0});
         o.selection = "resid_pre:2-3";
       },
       {"none of its hooks is active"}},
      {"sampling of nothing", [](auto& o) { o.selection = "resid_pre @every=0"; }, {"every"}},
  };
}

TEST(Options, E_EachMistakeIsNamedAndLeavesNothingBehind) {
  for (const BadOptions& bad : bad_options()) {
    SCOPED_TRACE(bad.what);
    const auto engine = testing::make_engine();
    MonitorOptions options = small_options();
    bad.spoil(options);
    try {
      const Monitor monitor(engine->device(), layered_table(4), options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      for (const std::string& word : bad.words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << '"' << word << "\" is not in: " << error.what();
      }
    }
    EXPECT_EQ(engine->live_allocations(), 0u);
  }
}

TEST(Options, E_ANullSinkIsRefusedBeforeAnythingIsMade) {
  const auto engine = testing::make_engine();
  EXPECT_THROW(Monitor(engine->device(), layered_table(2), small_options(),
                       {std::make_shared<KeepingSink>(), nullptr}),
               Error);
  EXPECT_EQ(engine->live_allocations(), 0u);
  EXPECT_EQ(engine->calls(Call::create_stream), 0u) << "a stream that nobody would destroy";
}

TEST(Options, E_ADeviceWithoutRoomSaysSo) {
  testing::EngineOptions small;
  small.memory_limit = 4096;
  const auto engine = testing::make_engine(small);
  try {
    const Monitor monitor(engine->device(), layered_table(2), small_options());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
    EXPECT_NE(std::string(error.what()).find("cudaErrorMemoryAllocation"), std::string::npos);
  }
  EXPECT_EQ(engine->live_allocations(), 0u);
}

TEST(Options, A3_TheDefaultLease) {
  const auto enabled = [](const char* selection, HookSet active = {}) {
    RigOptions options;
    options.monitor.selection = selection;
    options.monitor.active = std::move(active);
    const Rig rig(options);
    return rig.monitor->enabled().ids();
  };
  using Ids = std::vector<HookId>;
  EXPECT_EQ(enabled(""), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(enabled("none"), Ids{});
  EXPECT_EQ(enabled("resid_pre:1,3"), (Ids{1, 3}));
  EXPECT_EQ(enabled("", HookSet::of(4, Ids{0, 2})), (Ids{0, 2}));
  EXPECT_EQ(enabled("resid_pre:1-2", HookSet::of(4, Ids{0, 2})), (Ids{2}));
}

TEST(Switching, A3_E_AWrongSelectionThrowsAndChangesNothing) {
  RigOptions options;
  options.monitor.active = HookSet::of(4, std::vector<HookId>{0, 1});
  const Rig rig(options);
  ASSERT_TRUE(rig.monitor->enable("resid_pre:1").ok());
  const std::uint64_t version = rig.monitor->stats().set_version;
  for (const char* wrong : {"resid_pro", "resid_pre:9", "resid_pre:2", "resid_pre:", "embed"}) {
    EXPECT_THROW((void)rig.monitor->enable(wrong), Error) << wrong;
    EXPECT_THROW((void)rig.monitor->enable(wrong, Apply::now), Error) << wrong;
  }
  EXPECT_THROW((void)rig.monitor->enable(HookSet::all(3)), Error) << "a set of another model";
  EXPECT_THROW((void)rig.monitor->watch(LeaseSpec{}), Error) << "a set of no model";
  EXPECT_EQ(rig.monitor->enabled().ids(), std::vector<HookId>{1});
  EXPECT_EQ(rig.monitor->stats().set_version, version);
  EXPECT_EQ(rig.monitor->stats().switches, 1u);
}

TEST(Options, E_RingSizesAreChecked) {
  const Rig rig;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{65537}}) {
    const Status status = rig.monitor->resize_ring(bytes);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(std::to_string(bytes)), std::string::npos);
  }
  rig.engine->faults().fail_next(Call::allocate, 1, FaultMode::before);
  EXPECT_EQ(rig.monitor->resize_ring(32 << 10).code(), Code::exhausted);
  EXPECT_EQ(rig.monitor->stats().ring_bytes, 64u << 10) << "the old ring stays";
  EXPECT_TRUE(rig.monitor->resize_ring(32 << 10).ok());
  EXPECT_EQ(rig.monitor->stats().ring_bytes, 32u << 10);
}

}  // namespace
}  // namespace graphtap
