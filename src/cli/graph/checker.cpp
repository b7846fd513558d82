#include "cli/graph/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cli/graph/decoder_maths.hpp"

namespace graphtap::cli {
namespace {

constexpr std::size_t kExamples = 10;

}  // namespace

CheckCounts& CheckCounts::operator+=(const CheckCounts& other) noexcept {
  records += other.records;
  rows += other.rows;
  missing += other.missing;
  shed += other.shed;
  wrong += other.wrong;
  unaccounted += other.unaccounted;
  return *this;
}

Checker::Checker(const HookTable& table, const DecoderShape& shape)
    : table_(table), shape_(shape) {}

void Checker::expect(StepTruth truth) {
  const std::lock_guard lock(mutex_);
  phase(truth.phase);
  steps_.push_back({std::move(truth), std::vector<std::uint32_t>(table_.size())});
}

Status Checker::write(const DeliveredStep& step) {
  const std::lock_guard lock(mutex_);
  if (step.step >= steps_.size()) {
    complain(0, fmt::format("step {} was delivered, which the engine never ran", step.step));
    return {};
  }
  Pending& pending = steps_[step.step];
  rows_.clear();
  CheckCounts& counts = phase(pending.truth.phase);
  for (const Record& record : step.records) check_record(step, record, pending);
  for (const Gap& gap : step.gaps) {
    ++(is_shed(gap.reason) ? counts.shed : counts.missing);
    for (const Slice& slice : gap.slices) pending.rows_seen[gap.hook->id] += slice.rows;
  }
  return {};
}

void Checker::check_record(const DeliveredStep& step, const Record& record, Pending& pending) {
  const StepTruth& truth = pending.truth;
  CheckCounts& counts = phase(truth.phase);
  ++counts.records;
  const Hook& hook = *record.hook;
  const auto wrong = [&](const std::string& why) {
    complain(truth.phase, fmt::format("step {}, {}: {}", step.step, hook.name, why));
  };
  pending.rows_seen[hook.id] += record.rows;
  if (!truth.enabled.contains(hook.id)) return wrong("it was switched off");
  if (record.row_bytes != hook.row_bytes() ||
      record.payload.size() != record.rows * record.row_bytes) {
    return wrong(fmt::format("{} rows of {} bytes in {} bytes", record.rows, record.row_bytes,
                             record.payload.size()));
  }
  std::uint32_t attributed = 0;
  for (const Slice& slice : record.slices) {
    for (std::uint32_t i = 0; i < slice.rows; ++i) {
      const std::int64_t position = slice.first_token + i;
      const std::uint64_t serial = slice.request ? slice.request->serial : 0;
      const auto row = std::find_if(truth.rows.begin(), truth.rows.end(), [&](const auto& r) {
        return r.serial == serial && r.position == position;
      });
      if (row == truth.rows.end() || slice.row + i >= record.rows) {
        return wrong(
            fmt::format("row {} is said to be token {} of request {}, which the step did not "
                        "compute",
                        slice.row + i, position, serial));
      }
      if (!row_is_right(record, record.payload.data() + (slice.row + i) * record.row_bytes, *row)) {
        return wrong(
            fmt::format("row {}, token {} of request {}: its values are not those of that "
                        "token in that layer",
                        slice.row + i, position, serial));
      }
      ++attributed;
      ++counts.rows;
    }
  }
  if (attributed != record.rows) wrong("a row belongs to no request");
}

bool Checker::row_is_right(const Record& record, const std::byte* data, const StepTruth::Row& row) {
  if (record.hook->type == "token_ids")
    return std::memcmp(data, &row.token, sizeof(row.token)) == 0;
  const auto key = std::pair(row.token, row.position);
  auto known = rows_.find(key);
  if (known == rows_.end()) known = rows_.emplace(key, compute_row(key.first, key.second)).first;
  const std::vector<float>& expected = known->second[record.hook->id];
  return expected.size() * sizeof(float) == record.row_bytes &&
         std::memcmp(data, expected.data(), record.row_bytes) == 0;
}

// The whole model for one row, hook by hook.
Checker::Seen Checker::compute_row(std::int32_t token, std::int64_t position) const {
  Seen seen(table_.size());
  const auto width = static_cast<std::size_t>(shape_.hidden);
  std::vector<float> resid(width), attn(width), mlp(width);
  const auto see = [&](std::string_view type, int layer, const std::vector<float>& tensor) {
    seen[table_.find(type, layer).value()] = tensor;
  };
  decoder_maths::embed(token, position, resid);
  see("embed", -1, resid);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    see("resid_pre", layer, resid);
    decoder_maths::attention(layer, resid, attn);
    see("attn_out", layer, attn);
    decoder_maths::add(resid, attn);
    see("resid_mid", layer, resid);
    decoder_maths::mlp(layer, resid, mlp);
    see("mlp_out", layer, mlp);
    decoder_maths::add(resid, mlp);
  }
  see("resid_final", -1, resid);
  std::vector<float> logits(static_cast<std::size_t>(shape_.vocabulary));
  decoder_maths::logits(resid, logits);
  see("final_logits", -1, logits);
  return seen;
}

std::uint32_t Checker::rows_of(const StepTruth& truth, const Hook& hook) const {
  return static_cast<std::uint32_t>(hook.rows == RowBasis::requests ? truth.logit_rows.size()
                                                                    : truth.rows.size());
}

void Checker::finish() {
  const std::lock_guard lock(mutex_);
  for (const Pending& pending : steps_) {
    if (!pending.truth.exact) continue;
    for (const HookId id : pending.truth.enabled.ids()) {
      if (pending.rows_seen[id] == rows_of(pending.truth, table_[id])) continue;
      ++phase(pending.truth.phase).unaccounted;
    }
  }
  steps_.clear();
}

void Checker::complain(std::size_t index, const std::string& what) {
  ++phase(index).wrong;
  if (examples_.size() < kExamples) examples_.push_back(what);
}

CheckCounts& Checker::phase(std::size_t index) {
  if (phases_.size() <= index) phases_.resize(index + 1);
  return phases_[index];
}

CheckCounts Checker::counts(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return index < phases_.size() ? phases_[index] : CheckCounts{};
}

std::vector<std::string> Checker::examples() const {
  const std::lock_guard lock(mutex_);
  return examples_;
}

}  // namespace graphtap::cli
