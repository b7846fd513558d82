// D6: reading takes memory for one step, however large the store is. Mapped pages do not count: the
// system takes them back when it needs them.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/sanitized.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

/// Memory of the process's own, in bytes.
std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib << 10;
  }
  return 0;
}

TEST(Memory, D6_ReadingALargeStoreTakesMemoryForOneStep) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is in the way";
  constexpr std::uint64_t kSteps = 400, kRows = 16;
  const TempDir dir;
  const HookTable table = small_table(8, 2048);  // 8 × 16 × 4 KiB a step, 200 MiB in all
  {
    const auto sink = open_store(dir.store(), table, {.segment_bytes = 32 << 20});
    for (std::uint64_t ticket = 1; ticket <= kSteps; ++ticket) {
      const Request request = make_request(1 + ticket % 10, "r" + std::to_string(ticket % 10));
      ASSERT_OK(
          sink->write(make_step(table, ticket, request, static_cast<std::int64_t>(ticket * kRows),
                                kRows, {0, 1, 2, 3, 4, 5, 6, 7})
                          .delivered(table)));
    }
    ASSERT_OK(sink->close());
  }
  const std::uint64_t before = anonymous_bytes();
  ASSERT_GT(before, 0u);
  const auto reader = read_store(dir.store(), {ReadOptions::Check::always});
  std::uint64_t bytes = 0;
  RecordCursor records = reader->read({}).value_or_throw();
  for (RecordView view; records.next(view);) bytes += view.data.size();
  EXPECT_EQ(bytes, kSteps * 8 * kRows * 4096);
  const std::uint64_t grown = anonymous_bytes() - std::min(before, anonymous_bytes());
  EXPECT_LT(grown, bytes / 25) << "of a store of " << bytes;
}

}  // namespace
}  // namespace graphtap::store_test
