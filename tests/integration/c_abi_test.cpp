// A whole life through the C interface alone: an eager engine on the host device.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "graphtap/c/graphtap.h"

namespace {

struct Heard {
  std::vector<std::string> slices;
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, int>> finished;
  std::vector<float> values;
};

void on_slice(const gt_slice* slice, void* user) {
  auto& heard = *static_cast<Heard*>(user);
  heard.slices.push_back(std::string(slice->hook) + " " + slice->request + " " +
                         std::to_string(slice->first_token) + "+" + std::to_string(slice->rows));
  const std::size_t count = slice->rows * slice->row_bytes / sizeof(float);
  const std::size_t before = heard.values.size();
  heard.values.resize(before + count);
  std::memcpy(heard.values.data() + before, slice->data, count * sizeof(float));
}
void on_gap(const char* hook, uint64_t, const char* reason, void* user) {
  static_cast<Heard*>(user)->gaps.push_back(std::string(hook) + " " + reason);
}
void on_finished(const char* request, uint64_t, int valid, void* user) {
  static_cast<Heard*>(user)->finished.emplace_back(request, valid);
}

class CAbi : public ::testing::Test {
 protected:
  CAbi() {
    const int64_t shape[] = {2};
    EXPECT_EQ(gt_table_new("model", &table_), GT_OK);
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(gt_table_add(table_, "resid_pre", layer, "f32", shape, 1, 1, nullptr), GT_OK);
    }
    EXPECT_EQ(gt_host_device_new(&device_), GT_OK);
    gt_monitor_options options;
    gt_monitor_options_init(&options);
    options.ring_bytes = 1 << 20;
    options.on_slice = on_slice;
    options.on_gap = on_gap;
    options.on_finished = on_finished;
    options.user = &heard_;
    EXPECT_EQ(gt_monitor_new(device_, table_, &options, &monitor_), GT_OK) << gt_last_error();
    EXPECT_EQ(gt_lane_new(monitor_, &lane_), GT_OK);
  }
  ~CAbi() override {
    gt_lane_free(lane_);
    gt_monitor_free(monitor_);
    gt_device_free(device_);
    gt_table_free(table_);
  }

  Heard heard_;
  gt_table* table_ = nullptr;
  gt_device* device_ = nullptr;
  gt_monitor* monitor_ = nullptr;
  gt_lane* lane_ = nullptr;
};

TEST_F(CAbi, D1_CapturesSwitchesAndCompletes) {
  gt_request* request = nullptr;
  ASSERT_EQ(gt_request_begin(monitor_, "mine", 1, &request), GT_OK);
  for (int64_t token = 0; token < 3; ++token) {
    if (token == 1) {
      ASSERT_EQ(gt_monitor_enable(monitor_, "resid_pre:1", 1), GT_OK);
    }
    const gt_span span{request, token, 1};
    gt_step* step = nullptr;
    ASSERT_EQ(gt_step_begin(lane_, 1, &span, 1, gt_inline_stream(), &step), GT_OK);
    for (uint16_t hook = 0; hook < 2; ++hook) {
      const float row[] = {static_cast<float>(token), static_cast<float>(hook)};
      gt_source source;
      gt_source_init(&source, row, 1, sizeof(row));
      if (token < 2) gt_lane_produce(lane_, hook, &source, gt_inline_stream());
    }
    gt_step_end(step);
  }
  ASSERT_EQ(gt_request_finish(monitor_, request), GT_OK);
  ASSERT_EQ(gt_monitor_flush(monitor_, 10'000), GT_OK) << gt_last_error();
  EXPECT_EQ(heard_.slices,
            (std::vector<std::string>{"blocks.0.resid_pre mine 0+1", "blocks.1.resid_pre mine 0+1",
                                      "blocks.1.resid_pre mine 1+1"}));
  EXPECT_EQ(heard_.values, (std::vector<float>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(heard_.gaps, std::vector<std::string>{"blocks.1.resid_pre not_fired"});
  ASSERT_EQ(heard_.finished.size(), 1u);
  EXPECT_EQ(heard_.finished[0], (std::pair<std::string, int>{"mine", 0}));
  gt_counts counts;
  ASSERT_EQ(gt_monitor_counts(monitor_, &counts), GT_OK);
  EXPECT_EQ(counts.planned, 4u);
  EXPECT_EQ(counts.delivered, 3u);
  EXPECT_EQ(counts.missing, 1u);
  EXPECT_EQ(gt_monitor_close(monitor_, 5000), GT_OK);
}

TEST_F(CAbi, E_ErrorsAreCodesAndWords) {
  EXPECT_EQ(gt_monitor_enable(monitor_, "resid_pr", 0), GT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gt_last_error()).find("resid_pre"), std::string::npos);
  EXPECT_EQ(gt_monitor_enable(nullptr, "none", 0), GT_INVALID_ARGUMENT);
  const int64_t shape[] = {2};
  EXPECT_EQ(gt_table_add(table_, "resid_pre", 0, "float99", shape, 1, 1, nullptr),
            GT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gt_last_error()).find("float99"), std::string::npos);
  gt_monitor_options options{};
  gt_monitor* monitor = nullptr;
  EXPECT_EQ(gt_monitor_new(device_, table_, &options, &monitor), GT_INVALID_ARGUMENT);
  EXPECT_EQ(monitor, nullptr);
  gt_table_free(nullptr);
  gt_step_end(nullptr);
}

TEST_F(CAbi, A5_AnAbortedStepIsAGap) {
  gt_request* request = nullptr;
  ASSERT_EQ(gt_request_begin(monitor_, "mine", 0, &request), GT_OK);
  const gt_span span{request, 0, 1};
  gt_step* step = nullptr;
  ASSERT_EQ(gt_step_begin(lane_, 1, &span, 1, gt_inline_stream(), &step), GT_OK);
  gt_step_abort(step);
  ASSERT_EQ(gt_request_finish(monitor_, request), GT_OK);
  ASSERT_EQ(gt_monitor_flush(monitor_, 10'000), GT_OK);
  EXPECT_EQ(heard_.gaps.size(), 2u);
  EXPECT_EQ(heard_.gaps[0], "blocks.0.resid_pre aborted");
}

}  // namespace
