#include <gtest/gtest.h>

#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

TEST(StoreRoundTrip, D6_EveryDtypeAndShapeComesBackBitwise) {
  HookTable table("every dtype");
  constexpr DType kAll[] = {DType::f16,     DType::bf16, DType::f32, DType::f64, DType::f8_e4m3,
                            DType::f8_e5m2, DType::i8,   DType::i16, DType::i32, DType::i64,
                            DType::u8,      DType::u16,  DType::u32, DType::u64, DType::boolean};
  int layer = 0;
  for (DType dtype : kAll) {
    ASSERT_TRUE(table.add({"resid_pre", layer, dtype, {7}, 1, 1}).ok());
    ASSERT_TRUE(table.add({"q", layer++, dtype, {3, 5}, 1, 1}).ok());
  }
  ASSERT_TRUE(table.add({"token_ids", -1, DType::i32, {}, 1, 1}).ok());
  ASSERT_TRUE(table.add({"pattern", 0, DType::f16, {2, kPerStepColumns}, 1, 1}).ok());
  const TempDir dir;
  const Request request = make_request(1, "r", 2);
  OwnedStep step;
  step.ticket = 9;
  step.wanted = table.all();
  for (const Hook& hook : table.hooks()) {
    const std::int64_t columns = hook.type == "pattern" ? 11 : 0;
    step.records.push_back(
        make_record(table, hook.id, {{request, 4, 0, 3, RowFlags::none}}, hook.id + 1u, columns));
  }
  {
    const auto sink = open_store(dir.store(), table);
    ASSERT_OK(sink->write(step.delivered(table)));
    ASSERT_OK(sink->close());
  }
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({}));
  ASSERT_EQ(views.size(), table.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const RecordView& view = views[i];
    const Hook& hook = table[static_cast<HookId>(i)];
    EXPECT_EQ(view.hook->name, hook.name);
    EXPECT_EQ(view.hook->dtype, hook.dtype);
    EXPECT_EQ(view.hook->row_shape, hook.row_shape);
    EXPECT_TRUE(same_bytes(view.data, step.records[i].payload)) << hook.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data.data()) % 16, 0u)
        << "a view must be usable as it is";
  }
  EXPECT_EQ(views[0].shape(), (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(views[1].shape(), (std::vector<std::int64_t>{3, 3, 5}));
  EXPECT_EQ(views[views.size() - 2].shape(), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(views.back().shape(), (std::vector<std::int64_t>{3, 2, 11}));
}

TEST(StoreRoundTrip, D6_AViewSaysEverythingOfItsRows) {
  const HookTable table = small_table();
  const TempDir dir;
  const Request request = make_request(7, "chat-\xc3\xa9\x01", 5);
  OwnedStep step = make_step(table, 42, request, 10, 4, {1});
  step.step = 17;
  step.lane = 3;
  step.part = 2;
  step.kind = StepKind::eager;
  step.ranks = {1, 2, 3, 4};
  step.set_version = 99;
  step.records[0].ordinal = 6;
  step.records[0].slices = {{request, 10, 0, 2, RowFlags::recomputed},
                            {request, 12, 2, 2, RowFlags::recomputed | RowFlags::speculative}};
  {
    StoreOptions options;
    options.run_name = "a name";
    options.ranks = {5, 6, 7, 8};
    const auto sink = open_store(dir.store(), table, options);
    ASSERT_OK(sink->write(step.delivered(table)));
  }
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({}));
  ASSERT_EQ(views.size(), 2u);
  const RecordView& view = views[1];
  EXPECT_EQ(view.run->number, 1u);
  EXPECT_EQ(view.run->name, "a name");
  EXPECT_EQ(view.run->model, "tiny");
  EXPECT_EQ(view.run->ranks, (Ranks{5, 6, 7, 8}));
  EXPECT_EQ(view.hook->name, "blocks.1.resid_pre");
  EXPECT_EQ(view.step.ticket, 42u);
  EXPECT_EQ(view.step.step, 17u);
  EXPECT_EQ(view.step.lane, 3u);
  EXPECT_EQ(view.step.part, 2u);
  EXPECT_EQ(view.step.kind, StepKind::eager);
  EXPECT_EQ(view.step.ranks, (Ranks{1, 2, 3, 4}));
  EXPECT_EQ(view.step.set_version, 99u);
  EXPECT_EQ(view.step.end_unix_ns, step.end_unix_ns);
  EXPECT_EQ(view.ordinal, 6u);
  EXPECT_EQ(view.request, 7u);
  EXPECT_EQ(view.request_id, request->id);
  EXPECT_EQ(view.first_token, 12);
  EXPECT_EQ(view.row, 2u);
  EXPECT_EQ(view.rows, 2u);
  EXPECT_EQ(view.record_rows, 4u);
  EXPECT_EQ(view.flags, RowFlags::recomputed | RowFlags::speculative);
  EXPECT_FALSE(view.rejected);
  EXPECT_TRUE(
      same_bytes(view.data, std::span(step.records[0].payload).subspan(2 * view.row_bytes)));
  EXPECT_EQ(views[0].flags, RowFlags::recomputed);
}

TEST(StoreRoundTrip, D6_AWholeStepComesBackAsItWasDelivered) {
  const HookTable table = small_table();
  const TempDir dir;
  const Request a = make_request(1, "a");
  const Request b = make_request(2, "b");
  OwnedStep step = make_step(table, 1, a, 0, 5, {0, 2});
  step.records[0].slices = {{a, 0, 0, 2, RowFlags::none}, {b, 7, 2, 3, RowFlags::speculative}};
  step.records[1].slices = step.records[0].slices;
  step.wanted = HookSet::of(table.size(), std::vector<HookId>{0, 1, 2, 3});
  step.gaps = {{1, 0, GapReason::wrong_head, step.records[0].slices},
               {3, 0, GapReason::shed_ring, {}}};
  {
    const auto sink = open_store(dir.store(), table);
    ASSERT_OK(sink->write(step.delivered(table)));
  }
  const auto reader = read_store(dir.store());
  const auto steps = all_of(reader->steps());
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].wanted.ids(), step.wanted.ids());
  ASSERT_EQ(steps[0].records.size(), 2u);
  EXPECT_TRUE(same_bytes(steps[0].records[1].data, step.records[1].payload));
  ASSERT_EQ(steps[0].gaps.size(), 2u);
  EXPECT_EQ(steps[0].gaps[0].hook->id, 1u);
  EXPECT_EQ(steps[0].gaps[0].reason, GapReason::wrong_head);
  EXPECT_EQ(steps[0].gaps[1].reason, GapReason::shed_ring);
  EXPECT_TRUE(steps[0].gaps[1].slices.empty());

  const auto gaps = all_of(reader->gaps({}));
  ASSERT_EQ(gaps.size(), 3u);
  EXPECT_EQ(gaps[1].request_id, "b");
  EXPECT_EQ(gaps[1].first_token, 7);
  EXPECT_EQ(gaps[1].rows, 3u);
  EXPECT_EQ(gaps[2].request, 0u);
  const auto totals = reader->totals(1).value_or_throw();
  EXPECT_EQ(totals[0].records, 1u);
  EXPECT_EQ(totals[0].tokens, 5u);
  EXPECT_EQ(totals[0].bytes, step.records[0].payload.size());
  EXPECT_EQ(totals[1].missing(), 1u);
  EXPECT_EQ(totals[3].shed(), 1u);
  EXPECT_EQ(totals[3].missing(), 0u);
}

TEST(StoreRoundTrip, C2_UnattributedRowsAreThereAndSaySo) {
  const HookTable table = small_table();
  const TempDir dir;
  const Request a = make_request(1, "a");
  OwnedStep step = make_step(table, 1, a, 0, 8, {0});
  step.records[0].slices = {{a, 3, 1, 2, RowFlags::none}, {nullptr, 0, 3, 1, RowFlags::none}};
  {
    const auto sink = open_store(dir.store(), table);
    ASSERT_OK(sink->write(step.delivered(table)));
  }
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({}));
  ASSERT_EQ(views.size(), 4u);
  const std::uint32_t rows[] = {0, 1, 3, 4};
  const std::uint32_t counts[] = {1, 2, 1, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(views[i].row, rows[i]);
    EXPECT_EQ(views[i].rows, counts[i]);
    EXPECT_EQ(views[i].request, i == 1 ? 1u : 0u);
  }
  Query of_a;
  of_a.request = "a";
  EXPECT_EQ(all_of(reader->read(of_a)).size(), 1u) << "unattributed rows are nobody's";
}

TEST(StoreRoundTrip, D6_AChunkedRecordGivesTheRowsItHas) {
  const HookTable table = small_table();
  const TempDir dir;
  const Request a = make_request(1, "a");
  OwnedStep step = make_step(table, 1, a, 0, 5, {0});
  step.records[0].payload.resize(3 * table[0].row_bytes());
  {
    const auto sink = open_store(dir.store(), table);
    ASSERT_OK(sink->write(step.delivered(table)));
  }
  const auto reader = read_store(dir.store());
  const auto views = all_of(reader->read({}));
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].rows, 3u);
  EXPECT_EQ(views[0].record_rows, 5u);
  EXPECT_TRUE(same_bytes(views[0].data, step.records[0].payload));
}

TEST(StoreRoundTrip, E_AStepThatContradictsItselfIsRefusedAndNothingIsStored) {
  const HookTable table = small_table();
  const TempDir dir;
  const Request a = make_request(1, "a");
  const auto sink = open_store(dir.store(), table);
  const auto refused = [&](const DeliveredStep& step, std::string_view word) {
    const Status status = sink->write(step);
    EXPECT_EQ(status.code(), Code::invalid_argument) << word;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  OwnedStep step = make_step(table, 1, a, 0, 2, {0});
  step.records[0].slices[0].rows = 3;
  refused(step.delivered(table), "slice ends at row 3 of 2");
  step = make_step(table, 1, a, 0, 2, {0});
  step.records[0].payload.resize(1000);
  refused(step.delivered(table), "1000 bytes for 2 rows of 16");
  step = make_step(table, 1, a, std::numeric_limits<std::int64_t>::max() - 1, 2, {0});
  refused(step.delivered(table), "slice");
  const HookTable other = small_table(9);
  step = make_step(other, 1, a, 0, 2, {8});
  refused(step.delivered(other), "a model with 10 hooks, the store of one with 4");
  DeliveredStep bare = make_step(table, 1, a, 0, 2, {0}).delivered(table);
  bare.records[0].hook = nullptr;
  refused(bare, "hook table");
  ASSERT_OK(sink->write(make_step(table, 1, a, 0, 2, {0}).delivered(table)));
  ASSERT_OK(sink->close());
  EXPECT_EQ(tickets(*read_store(dir.store())), std::vector<std::uint64_t>{1});
  EXPECT_TRUE(verify_store(dir.store(), true).value_or_throw().findings.empty());
}

}  // namespace
}  // namespace graphtap::store_test
