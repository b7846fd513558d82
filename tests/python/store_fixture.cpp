// usage: graphtap_store_fixture DIR [runs | live]: a store with every dtype. Byte i of hook h is
// (31 h + 7 i) mod 256 (a bool: i mod 2); request "a" has tokens 0-2 as a step, 3 as a gap, 4-5 as
// a step.
//
// runs: two runs of the tensor ranks 0 and 1 of 2, of a model of 3 layers. "a" has tokens 0-3, and
// 2-3 again, recomputed; "b" token 0 and the drafts 1 and 2, of which 2 was rejected; a row of
// nobody's. Rank 1 lost its second step.
// live: for each line of standard input the next token of "a", and "ok" when it is stored.
#include <iostream>
#include <string>

#include "graphtap/store_sink.hpp"
#include "unit/store/support/steps.hpp"

using namespace graphtap;
using namespace graphtap::store_test;

namespace {

void check(const Status& status) {
  if (!status.ok()) throw Error(status);
}

int write_runs(const char* folder) {
  const HookTable table = small_table();
  const Request a = make_request(1, "a", 3), b = make_request(2, "b", 1);
  for (int rank = 0; rank < 2; ++rank) {
    StoreOptions options;
    options.run_name = "rank " + std::to_string(rank);
    options.ranks.tensor = rank;
    options.world.tensor = 2;
    auto sink = open_store_sink(folder, table, options).value_or_throw();
    const auto write = [&](std::uint64_t ticket, std::vector<Slice> slices, bool lost = false) {
      OwnedStep step = make_step(table, ticket, a, 0, 0, {});
      step.ranks.tensor = rank;
      step.wanted = HookSet::of(table.size(), std::vector<HookId>{0, 1, 2});
      for (HookId hook = 0; hook < 3; ++hook) {
        if (lost) {
          step.gaps.push_back({hook, 0, GapReason::shed_ring, slices});
        } else {
          step.records.push_back(make_record(table, hook, slices, ticket * 1000 + hook));
        }
      }
      check(sink->write(step.delivered(table)));
    };
    write(1, {{a, 0, 0, 4, RowFlags::none}, {b, 0, 4, 1, RowFlags::none}, {nullptr, 0, 5, 1}});
    write(2, {{a, 2, 0, 2, RowFlags::recomputed}}, rank == 1);
    write(3, {{b, 1, 0, 2, RowFlags::speculative}});
    check(sink->event({RequestEvent::Kind::rejected, b, 2, 3}));
    check(sink->close());
  }
  return 0;
}

int write_live(const char* folder) {
  const HookTable table = small_table();
  const Request a = make_request(1, "a");
  auto sink = open_store_sink(folder, table).value_or_throw();
  std::cout << "ok" << std::endl;
  std::string line;
  for (std::uint64_t ticket = 1; std::getline(std::cin, line); ++ticket) {
    const auto token = static_cast<std::int64_t>(ticket) - 1;
    check(sink->write(make_step(table, ticket, a, token, 1, {0, 1, 2}).delivered(table)));
    std::cout << "ok" << std::endl;
  }
  check(sink->close());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[2] == std::string("runs")) return write_runs(argv[1]);
  if (argc == 3 && argv[2] == std::string("live")) return write_live(argv[1]);
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
