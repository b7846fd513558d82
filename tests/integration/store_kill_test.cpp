// A writer killed at random moments: what it acknowledged reads back bit for bit, and nothing else
// is claimed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

#include "support/sanitized.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

// Of each durability. Under a sanitizer each takes up to ten times as long.
constexpr int kKills = kThreadSanitizer ? 20 : kAddressSanitizer ? 50 : 500;
constexpr int kKillsAStore = 10;  // runs that follow each other in one store, each of them killed

/// What the step with this ticket of this run holds: both sides make it from nothing but these
/// numbers.
OwnedStep step_of(const HookTable& table, std::uint32_t run, std::uint64_t ticket,
                  const Request& request) {
  Random random(std::uint64_t{run} << 32 | ticket);
  // A large step now and then: a kill is likelier to come while one is being written.
  const auto rows = static_cast<std::uint32_t>(ticket % 4 == 3 ? 100 : 1 + below(random, 40));
  OwnedStep step =
      make_step(table, ticket, request, static_cast<std::int64_t>(ticket * 64), rows, {0, 1, 3});
  for (OwnedRecord& record : step.records) {
    record.payload = bytes_of(random(), record.payload.size());
  }
  if (ticket % 5 == 0) step.gaps.push_back({2, 0, GapReason::not_fired, step.records[0].slices});
  return step;
}

HookTable kill_table() { return small_table(3, 1500); }

Request request_of(std::uint64_t ticket) {
  const std::uint64_t serial = 1 + ticket / 7;
  return make_request(serial, "request " + std::to_string(serial));
}

// What the child says before it writes a step: the ticket with this bit.
constexpr std::uint64_t kBegins = 1ull << 63;

/// The child: writes steps until it is killed, and says so of each that begins and of each that was
/// taken.
[[noreturn]] void write_until_killed(const std::filesystem::path& store, std::uint32_t run,
                                     int acknowledged, Durability durability) {
  const HookTable table = kill_table();
  StoreOptions options;
  options.segment_bytes = 700 << 10;
  options.durability = durability;
  options.sync_interval = std::chrono::milliseconds(5);
  const auto sink = open_store_sink(store, table, options);
  if (!sink.ok()) {
    std::fprintf(stderr, "%s\n", sink.status().message().c_str());
    ::_exit(3);
  }
  for (std::uint64_t ticket = 1;; ++ticket) {
    const Request request = request_of(ticket);
    const OwnedStep step = step_of(table, run, ticket, request);
    const DeliveredStep delivered = step.delivered(table);
    const std::uint64_t begins = ticket | kBegins;
    if (::write(acknowledged, &begins, sizeof(begins)) != sizeof(begins)) ::_exit(5);
    if (!sink.value()->write(delivered).ok()) ::_exit(4);
    if (::write(acknowledged, &ticket, sizeof(ticket)) != sizeof(ticket)) ::_exit(5);
    if (ticket % 7 == 6) {
      const RequestEvent done{RequestEvent::Kind::finished, request, 0, 0, true, 21, 0};
      if (!sink.value()->event(done).ok()) ::_exit(6);
    }
  }
}

/// Lets a child write and kills it; the last ticket that it acknowledged. `after`: kill when this
/// many were, and `delay` after that; aimed: after the next write has begun.
std::uint64_t run_and_kill(const std::filesystem::path& store, std::uint32_t run,
                           std::uint64_t after, bool aimed, std::chrono::microseconds delay,
                           Durability durability) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_ends[0]);
    write_until_killed(store, run, pipe_ends[1], durability);
  }
  ::close(pipe_ends[1]);
  std::uint64_t last = 0;
  std::uint64_t ticket = 0;
  const auto next = [&] {
    const ssize_t got = ::read(pipe_ends[0], &ticket, sizeof(ticket));
    if (got != sizeof(ticket)) return false;
    if ((ticket & kBegins) == 0) last = ticket;
    return true;
  };
  while (last < after && next()) {
  }
  while (aimed && next() && (ticket & kBegins) == 0) {
  }
  // A random moment, not something waited for; sleeping would be too coarse.
  const auto moment = std::chrono::steady_clock::now() + delay;
  while (std::chrono::steady_clock::now() < moment) {
  }
  ::kill(child, SIGKILL);
  while (next()) {  // what it said before it died
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
  return last;
}

void check_store(const std::filesystem::path& path,
                 const std::map<std::uint32_t, std::uint64_t>& acknowledged,
                 std::uint64_t& unacknowledged) {
  const HookTable table = kill_table();
  const auto reader = read_store(path, {ReadOptions::Check::always});
  std::map<std::uint32_t, std::uint64_t> last;
  StepCursor cursor = reader->steps().value_or_throw();
  StepView view;
  while (cursor.next(view)) {
    const std::uint32_t run = view.run->number;
    ASSERT_EQ(view.info.ticket, last[run] + 1)
        << "run " << run << ": a step is missing or there twice";
    last[run] = view.info.ticket;
    const OwnedStep expected = step_of(table, run, view.info.ticket, request_of(view.info.ticket));
    ASSERT_EQ(view.records.size(), expected.records.size());
    for (std::size_t i = 0; i < expected.records.size(); ++i) {
      ASSERT_TRUE(same_bytes(view.records[i].data, expected.records[i].payload))
          << "ticket " << view.info.ticket;
      ASSERT_EQ(view.records[i].slices[0].first_token, expected.records[i].slices[0].first_token);
      ASSERT_EQ(view.records[i].slices[0].request, expected.records[i].slices[0].request->serial);
    }
    ASSERT_EQ(view.gaps.size(), expected.gaps.size());
  }
  for (const auto& [run, ticket] : acknowledged) {
    ASSERT_GE(last[run], ticket) << "run " << run << ": an acknowledged step is lost";
    ASSERT_LE(last[run], ticket + 1)
        << "run " << run << ": more than the one step that was on its way";
    unacknowledged += last[run] - ticket;
  }
  // A killed process leaves torn ends. A frame that says that it is whole and is not would be an
  // error.
  const VerifyReport report = verify_store(path, true).value_or_throw();
  ASSERT_TRUE(report.ok()) << describe(report.findings);
}

class Kill : public testing::TestWithParam<Durability> {};

TEST_P(Kill, D5_WhatWasAcknowledgedReadsBackAndNothingElseIsClaimed) {
  const auto seed = static_cast<std::uint64_t>(::getpid());
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  std::uint64_t torn = 0;
  std::uint64_t steps = 0;
  std::uint64_t unacknowledged = 0;
  int killed = 0;
  // Goes on until a kill has torn a frame, which is up to the machine: with power durability one in
  // eighty does, for the writer spends its time syncing.
  constexpr int kMostKills = 1500;
  while (killed < kKills || (torn == 0 && killed < kMostKills)) {
    const TempDir dir;
    std::map<std::uint32_t, std::uint64_t> acknowledged;
    for (std::uint32_t run = 1; run <= kKillsAStore; ++run, ++killed) {
      const std::uint64_t after = 1 + below(random, below(random, 4) == 0 ? 60 : 6);
      const bool aimed = below(random, 4) != 0;
      const std::uint64_t longest = aimed ? (below(random, 2) == 0 ? 60 : 500) : 3000;
      const std::chrono::microseconds delay(below(random, longest));
      acknowledged[run] = run_and_kill(dir.store(), run, after, aimed, delay, GetParam());
      steps += acknowledged[run];
      if (run % 3 == 1 || run == kKillsAStore)
        check_store(dir.store(), acknowledged, unacknowledged);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const Finding& finding : read_store(dir.store())->findings()) {
      torn += finding.severity == Severity::warning ? 1 : 0;
    }
  }
  std::printf(
      "%d kills, %llu steps acknowledged, %llu torn ends, %llu whole and not acknowledged\n",
      killed, static_cast<unsigned long long>(steps), static_cast<unsigned long long>(torn),
      static_cast<unsigned long long>(unacknowledged));
  EXPECT_GT(torn, 0u) << "no kill came while a frame was being written: the test proves little";
}
INSTANTIATE_TEST_SUITE_P(Durabilities, Kill,
                         testing::Values(Durability::process, Durability::power),
                         [](const auto& test) {
                           return test.param == Durability::process ? "Process" : "Power";
                         });

}  // namespace
}  // namespace graphtap::store_test
