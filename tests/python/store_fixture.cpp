// usage: graphtap_store_fixture DIR: a store with every dtype. Byte i of hook h is (31 h + 7 i) mod
// 256 (a bool: i mod 2); request "a" has tokens 0-2 as a step, 3 as a gap, 4-5 as a step.
#include "graphtap/store_sink.hpp"
#include "unit/store/support/steps.hpp"

using namespace graphtap;
using namespace graphtap::store_test;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  HookTable table("fixture");
  std::vector<HookId> ids;
  for (int d = 1; d <= 15; ++d) {
    ids.push_back(
        table.add({"resid_pre", d - 1, static_cast<DType>(d), {2, 3}, 1, 1}).value_or_throw());
  }
  auto sink = open_store_sink(argv[1], table).value_or_throw();
  const Request a = make_request(1, "a", 3);
  const auto write = [&](std::uint64_t ticket, std::int64_t first, std::uint32_t rows, bool lost) {
    OwnedStep step = make_step(table, ticket, a, first, rows, ids);
    for (OwnedRecord& record : step.records) {
      for (std::size_t i = 0; i < record.payload.size(); ++i) {
        const bool boolean = table[record.hook].dtype == DType::boolean;
        record.payload[i] =
            static_cast<std::byte>(boolean ? i % 2 : (31u * record.hook + 7 * i) % 256);
      }
      if (lost) step.gaps.push_back({record.hook, 0, GapReason::shed_ring, record.slices});
    }
    if (lost) step.records.clear();
    const Status status = sink->write(step.delivered(table));
    if (!status.ok()) throw Error(status);
  };
  write(1, 0, 3, false);
  write(2, 3, 1, true);
  write(3, 4, 2, false);
  return sink->close().ok() ? 0 : 1;
}
