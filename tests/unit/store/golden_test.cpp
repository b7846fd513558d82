// E: a store that the first version of the format wrote reads back today, bit for bit, and a newer
// writer may go on with it.
#include <gtest/gtest.h>

#include "store/format.hpp"
#include "unit/store/support/golden.hpp"
#include "unit/store/support/places.hpp"

namespace graphtap::store_test {
namespace {

class Golden : public testing::Test {
 protected:
  Golden() {
    std::filesystem::copy(std::filesystem::path(GRAPHTAP_TEST_DATA) / "store-1.0", dir_.store(),
                          std::filesystem::copy_options::recursive);
  }
  void expect_content(const StoreReader& reader) {
    const std::vector<OwnedStep> expected = golden_steps(table_);
    Query query;
    query.run = 1;
    StepCursor cursor = reader.steps(query).value_or_throw();
    StepView view;
    for (const OwnedStep& step : expected) {
      ASSERT_TRUE(cursor.next(view));
      EXPECT_EQ(view.info.ticket, step.ticket);
      EXPECT_EQ(view.info.kind, step.kind);
      EXPECT_EQ(view.info.set_version, step.set_version);
      EXPECT_EQ(view.info.end_unix_ns, step.end_unix_ns);
      ASSERT_EQ(view.records.size(), step.records.size());
      for (std::size_t i = 0; i < step.records.size(); ++i) {
        EXPECT_EQ(view.records[i].hook->id, step.records[i].hook);
        EXPECT_EQ(view.records[i].hook->dtype, table_[step.records[i].hook].dtype);
        EXPECT_EQ(view.records[i].ordinal, step.records[i].ordinal);
        EXPECT_EQ(view.records[i].columns, step.records[i].columns);
        EXPECT_TRUE(same_bytes(view.records[i].data, step.records[i].payload));
        ASSERT_EQ(view.records[i].slices.size(), 2u);
        EXPECT_EQ(view.records[i].slices[0].flags, step.records[i].slices[0].flags);
        EXPECT_EQ(view.records[i].slices[0].first_token, step.records[i].slices[0].first_token);
        EXPECT_EQ(view.records[i].slices[1].request, 2u);
      }
      ASSERT_EQ(view.gaps.size(), step.gaps.size());
      for (const StoredGap& gap : view.gaps) EXPECT_EQ(gap.reason, GapReason::wrong_head);
    }
    EXPECT_FALSE(cursor.next(view));
    const std::vector<RequestSummary> requests = reader.requests({.run = 1});
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[0].not_computed, (std::vector<TokenRange>{{0, 2}}));
    EXPECT_EQ(requests[0].rejected, (std::vector<TokenRange>{{13, 14}}));
    EXPECT_EQ(requests[0].gaps, 1u);
    EXPECT_EQ(requests[1].id, "b/ü");
  }
  std::filesystem::path segment() const { return segment_files(dir_.store()).front(); }

  const TempDir dir_;
  const HookTable table_ = golden_table();
};

TEST_F(Golden, E_TheFirstVersionReadsBack) {
  const auto reader = read_store(dir_.store(), {ReadOptions::Check::always});
  ASSERT_EQ(reader->runs().size(), 1u);
  const RunInfo& run = *reader->runs()[0];
  EXPECT_EQ(run.format_major, 1);
  EXPECT_EQ(run.format_minor, 0);
  EXPECT_EQ(run.name, "golden");
  EXPECT_EQ(run.world, Ranks{}) << "what that version did not know";
  expect_content(*reader);
  EXPECT_TRUE(verify_store(dir_.store(), true).value_or_throw().ok());
}

TEST_F(Golden, E_WithoutItsFooterToo) {
  // As if its writer had been killed: cut within the footer.
  std::filesystem::resize_file(segment(), std::filesystem::file_size(segment()) - 40);
  expect_content(*read_store(dir_.store(), {ReadOptions::Check::always}));
}

TEST_F(Golden, E_ANewerWriterGoesOnWithIt) {
  const auto sink = open_store(dir_.store(), table_);
  ASSERT_OK(
      sink->write(make_step(table_, 1, make_request(1, "c"), 0, 1, {0, 1}).delivered(table_)));
  ASSERT_OK(sink->close());
  const auto reader = read_store(dir_.store());
  ASSERT_EQ(reader->runs().size(), 2u);
  EXPECT_EQ(reader->runs()[1]->format_minor, store::kMinor);
  expect_content(*reader);
  const VerifyReport report = verify_store(dir_.store(), true).value_or_throw();
  EXPECT_EQ(describe(report.findings), "") << "the index was built of both";
}

}  // namespace
}  // namespace graphtap::store_test
