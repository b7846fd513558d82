#include "cli/graph/checker.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "cli/graph/decoder_maths.hpp"

namespace graphtap::cli {
namespace {

constexpr DecoderShape kShape{3, 8, 4};

/// A step of two requests, and what the decoder's hooks really hold of it. A second way to the
/// numbers: straight from the maths, hook by hook, where the checker goes row by row.
class Delivered {
 public:
  Delivered() : table(decoder_table(kShape)) {
    truth.enabled = table.all();
    truth.rows = {{1, 100, 7}, {2, 200, 0}};
    truth.logit_rows = {0, 1};
    requests = {request(1, "a"), request(2, "b")};
    for (const Hook& hook : table.hooks()) {
      std::vector<std::byte> bytes;
      for (const StepTruth::Row& row : truth.rows) append(bytes, hook, row);
      payloads.push_back(std::move(bytes));
    }
    slices = {{requests[0], 7, 0, 1, RowFlags::none}, {requests[1], 0, 1, 1, RowFlags::none}};
    step.table = &table;
    for (const Hook& hook : table.hooks()) {
      step.records.push_back(
          {&table[hook.id], 0, 2, hook.row_bytes(), 0, payloads[hook.id], slices});
    }
  }

  CheckCounts check(std::vector<std::string>* examples = nullptr) {
    Checker checker(table, kShape);
    checker.expect(truth);
    EXPECT_TRUE(checker.write(step).ok());
    checker.finish();
    if (examples) *examples = checker.examples();
    return checker.counts(0);
  }

  HookTable table;
  StepTruth truth;
  std::vector<Request> requests;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Slice> slices;
  DeliveredStep step;

 private:
  static Request request(std::uint64_t serial, const char* id) {
    RequestInfo info;
    info.serial = serial;
    info.id = id;
    return std::make_shared<const RequestInfo>(info);
  }
  static void append(std::vector<std::byte>& bytes, const Hook& hook, const StepTruth::Row& row) {
    const auto put = [&](const void* data, std::size_t size) {
      const auto* from = static_cast<const std::byte*>(data);
      bytes.insert(bytes.end(), from, from + size);
    };
    if (hook.type == "token_ids") return put(&row.token, sizeof(row.token));
    std::vector<float> resid(8), delta(8), logits(4);
    decoder_maths::embed(row.token, row.position, resid);
    const int last = hook.layer >= 0 ? hook.layer : hook.type == "embed" ? 0 : kShape.layers;
    for (int layer = 0; layer < last; ++layer) {
      decoder_maths::attention(layer, resid, delta);
      decoder_maths::add(resid, delta);
      decoder_maths::mlp(layer, resid, delta);
      decoder_maths::add(resid, delta);
    }
    if (hook.type == "attn_out" || hook.type == "resid_mid" || hook.type == "mlp_out") {
      decoder_maths::attention(hook.layer, resid, delta);
      if (hook.type != "attn_out") decoder_maths::add(resid, delta);
      if (hook.type == "mlp_out") decoder_maths::mlp(hook.layer, resid, delta);
    }
    if (hook.type == "final_logits") {
      decoder_maths::logits(resid, logits);
      return put(logits.data(), logits.size() * sizeof(float));
    }
    const bool adds = hook.type == "attn_out" || hook.type == "mlp_out";
    put(adds ? delta.data() : resid.data(), 8 * sizeof(float));
  }
};

TEST(Checker, I1_WhatIsRightPasses) {
  Delivered delivered;
  const CheckCounts counts = delivered.check();
  EXPECT_EQ(counts.records, delivered.table.size());
  EXPECT_EQ(counts.rows, 2 * delivered.table.size());
  EXPECT_EQ(counts.wrong, 0u);
  EXPECT_EQ(counts.unaccounted, 0u);
}

TEST(Checker, I1_AnyFlippedBitIsFound) {
  for (std::size_t hook = 0; hook < Delivered().table.size(); ++hook) {
    Delivered delivered;
    delivered.payloads[hook].back() ^= std::byte{1};
    EXPECT_EQ(delivered.check().wrong, 1u) << delivered.table[static_cast<HookId>(hook)].name;
  }
}

TEST(Checker, I1_ALayerLabelledAsItsNeighbourIsFound) {
  Delivered delivered;
  for (Record& record : delivered.step.records) {
    if (record.hook->name == "blocks.0.resid_pre") {
      record.hook = &delivered.table[*delivered.table.find("blocks.1.resid_pre")];
    }
  }
  EXPECT_EQ(delivered.check().wrong, 1u);
}

TEST(Checker, I1_SwappedRequestsAreFoundInEveryRecord) {
  Delivered delivered;
  std::swap(delivered.slices[0].request, delivered.slices[1].request);
  std::swap(delivered.slices[0].first_token, delivered.slices[1].first_token);
  std::vector<std::string> examples;
  EXPECT_EQ(delivered.check(&examples).wrong, delivered.table.size());
  EXPECT_EQ(examples.size(), 10u);  // the first ones, in words
}

TEST(Checker, I1_ATokenThatTheStepDidNotComputeIsFound) {
  Delivered delivered;
  delivered.slices[1].first_token = 1;
  EXPECT_EQ(delivered.check().wrong, delivered.table.size());
}

TEST(Checker, I1_RowsOfNobodyAndHooksThatAreOffAreFound) {
  Delivered nobody;
  nobody.slices.pop_back();
  for (Record& record : nobody.step.records) record.slices = nobody.slices;
  EXPECT_EQ(nobody.check().wrong, nobody.table.size());
  Delivered off;
  off.truth.enabled = off.table.none();
  EXPECT_EQ(off.check().wrong, off.table.size());
}

TEST(Checker, I3_WhatNeitherComesNorIsAGapIsUnaccounted) {
  Delivered delivered;
  delivered.step.records.pop_back();
  EXPECT_EQ(delivered.check().unaccounted, 1u);
  const Hook* last = &delivered.table.hooks().back();
  delivered.step.gaps.push_back({last, 0, GapReason::not_fired, delivered.slices});
  CheckCounts counts = delivered.check();
  EXPECT_EQ(counts.unaccounted, 0u);
  EXPECT_EQ(counts.missing, 1u);
  delivered.step.gaps[0].reason = GapReason::shed_ring;
  counts = delivered.check();
  EXPECT_EQ(counts.missing, 0u);
  EXPECT_EQ(counts.shed, 1u);
}

TEST(Checker, I1_AStepThatNeverRanIsFound) {
  Delivered delivered;
  delivered.step.step = 1;
  EXPECT_EQ(delivered.check().wrong, 1u);
}

}  // namespace
}  // namespace graphtap::cli
