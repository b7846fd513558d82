#pragma once
// Stores whose every row is known, and what exports of them should say.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/store_export.hpp"
#include "store/export/exporter.hpp"
#include "store/export/tensor_file.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {

inline constexpr DType kAllTypes[] = {DType::f16,     DType::bf16,    DType::f32,    DType::f64,
                                      DType::f8_e4m3, DType::f8_e5m2, DType::i8,     DType::i16,
                                      DType::i32,     DType::i64,     DType::u8,     DType::u16,
                                      DType::u32,     DType::u64,     DType::boolean};

/// Those that this build knows.
inline std::vector<ExportFormat> formats() {
  std::vector<ExportFormat> known{ExportFormat::safetensors};
  if (store::has_npz()) known.push_back(ExportFormat::npz);
  return known;
}

/// One layer of resid_pre for each element type, in rows of three values; two ordinals in layer 0.
inline HookTable table_of_all_types() {
  HookTable table("every type");
  int layer = 0;
  for (const DType dtype : kAllTypes) {
    const std::uint16_t ordinals = layer == 0 ? 2 : 1;
    static_cast<void>(table.add({"resid_pre", layer++, dtype, {3}, ordinals, 1}).value_or_throw());
  }
  return table;
}

/// Three requests in a store that has everything an export must tell: random bits (so NaNs of every
/// kind), a recomputed range, gaps of two reasons, a cached prefix, a draft that was rejected, a
/// second ordinal, rows of nobody, and ids that no file name could hold.
class MixedStore {
 public:
  MixedStore() : table(table_of_all_types()), sink(open_store(dir.store(), table)) {
    using Kind = RequestEvent::Kind;
    tell(Kind::begun, a);
    tell(Kind::not_computed, a, 0, 2);
    std::vector<HookId> all;
    for (HookId hook = 0; hook < table.size(); ++hook) all.push_back(hook);
    put(a, 2, 4, all);
    put(a, 4, 2, all, RowFlags::recomputed);
    put(b, 0, 3, {0, 1});
    put(c, 7, 1, {1});
    OwnedStep gap = step(a, 6, 2, {0});
    gap.gaps.push_back({1, 0, GapReason::shed_ring, {{a, 6, 0, 2, RowFlags::none}}});
    gap.gaps.push_back({2, 0, GapReason::wrong_head, {{a, 6, 0, 1, RowFlags::none}}});
    write(gap);
    put(a, 8, 3, {1}, RowFlags::speculative);
    tell(Kind::rejected, a, 9, 11);
    put(a, 9, 1, {1});
    OwnedStep twice = step(a, 12, 1, {0});
    twice.records.push_back(make_record(table, 0, {{a, 12, 0, 1, RowFlags::none}}, 99));
    twice.records.back().ordinal = 1;
    write(twice);
    OwnedStep nobody = step(a, 13, 1, {3});
    nobody.records[0].slices.clear();
    write(nobody);
    tell(Kind::finished, b);
  }

  void put(const Request& request, std::int64_t first, std::uint32_t rows,
           const std::vector<HookId>& hooks, RowFlags flags = RowFlags::none) {
    OwnedStep made = step(request, first, rows, hooks);
    for (OwnedRecord& record : made.records) record.slices[0].flags = flags;
    write(made);
  }
  void close() { EXPECT_OK(sink->close()); }
  [[nodiscard]] std::shared_ptr<StoreReader> reader() const { return read_store(dir.store()); }

  const TempDir dir;
  const HookTable table;
  const std::shared_ptr<Sink> sink;
  const Request a = make_request(1, "chat/7 \xe4\xbd\xa0%", 5);
  const Request b = make_request(2, "..", 2);
  const Request c = make_request(3, std::string("bad\xff"), 1);

 private:
  OwnedStep step(const Request& request, std::int64_t first, std::uint32_t rows,
                 const std::vector<HookId>& hooks) {
    return make_step(table, ++ticket_, request, first, rows, hooks);
  }
  void write(const OwnedStep& made) { EXPECT_OK(sink->write(made.delivered(table))); }
  void tell(RequestEvent::Kind kind, const Request& request, std::int64_t begin = 0,
            std::int64_t end = 0) {
    const bool done = kind == RequestEvent::Kind::finished;
    EXPECT_OK(sink->event({kind, request, begin, end, true, done ? 2u : 0u, 0}));
  }
  std::uint64_t ticket_ = 0;
};

inline std::unique_ptr<store::TensorFile> open_file(const std::filesystem::path& path) {
  return store::open_tensor_file(path).value_or_throw();
}

inline std::vector<std::byte> all_bytes(store::TensorFile& file, std::size_t tensor) {
  std::vector<std::byte> bytes(file.tensors()[tensor].bytes);
  EXPECT_OK(file.read(tensor, bytes));
  return bytes;
}

/// The place of a tensor; fails the test if there is none.
inline std::size_t find_tensor(const store::TensorFile& file, const std::string& name) {
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    if (file.tensors()[i].name == name) return i;
  }
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

inline std::string hook_of(const store::Document& document, const store::DocumentTensor& tensor) {
  for (const store::RunHeader& run : document.runs) {
    if (run.info.number == tensor.run) return run.info.hooks.at(tensor.hook).name;
  }
  return "(no run)";
}

/// Every tensor of every file says and holds what gather() gives for the same tokens.
inline void expect_as_gathered(const StoreReader& reader, const ExportReport& report) {
  std::size_t tensors = 0;
  for (const std::filesystem::path& path : report.files) {
    const auto file = open_file(path);
    const store::Document document = store::parse_document(file->document(), path).value_or_throw();
    EXPECT_EQ(document.tensors.size(), file->tensors().size());
    for (const store::DocumentTensor& tensor : document.tensors) {
      SCOPED_TRACE(tensor.name);
      const std::size_t at = find_tensor(*file, tensor.name);
      GatherQuery query;
      query.run = tensor.run;
      query.serial = tensor.serial;
      query.ordinal = tensor.ordinal;
      query.hook = hook_of(document, tensor);
      query.begin = tensor.tokens.begin;
      query.end = tensor.tokens.end;
      const Gathered gathered = reader.gather(query).value_or_throw();
      EXPECT_EQ(file->tensors()[at].shape, gathered.shape());
      EXPECT_EQ(file->tensors()[at].dtype, tensor.stored_as);
      EXPECT_EQ(all_bytes(*file, at), gathered.data);
      ASSERT_EQ(tensor.missing.size(), gathered.missing.size());
      for (std::size_t i = 0; i < gathered.missing.size(); ++i) {
        EXPECT_EQ(tensor.missing[i].tokens, gathered.missing[i].tokens);
        EXPECT_EQ(tensor.missing[i].why, gathered.missing[i].why);
        EXPECT_EQ(tensor.missing[i].reason, gathered.missing[i].reason);
      }
      ++tensors;
    }
  }
  EXPECT_EQ(tensors, report.tensors);
}

/// Every row that `from` gives, `to` gives too, bit for bit; what one lacks the other lacks.
inline void expect_same_rows(const StoreReader& from, const StoreReader& to, std::uint32_t run) {
  using Why = MissingTokens::Why;
  ASSERT_GE(to.runs().size(), run);
  const RunInfo& source = *from.runs().front();
  std::size_t compared = 0;
  for (const RequestSummary& request : from.requests()) {
    RequestFilter filter;
    filter.run = run;
    filter.serial = request.serial;
    const auto there = to.requests(filter);
    ASSERT_EQ(there.size(), 1u);
    EXPECT_EQ(there[0].id, request.id);
    EXPECT_EQ(there[0].prompt_tokens, request.prompt_tokens);
    EXPECT_EQ(there[0].finished, request.finished);
    EXPECT_EQ(there[0].not_computed, request.not_computed);
    EXPECT_EQ(there[0].rejected, request.rejected);
    for (const Hook& hook : source.hooks) {
      for (std::uint16_t ordinal = 0; ordinal < hook.ordinals; ++ordinal) {
        SCOPED_TRACE(request.id + " " + hook.name);
        GatherQuery query;
        query.run = source.number;
        query.serial = request.serial;
        query.hook = hook.name;
        query.ordinal = ordinal;
        query.end = 80;
        const Gathered a = from.gather(query).value_or_throw();
        query.run = run;
        const Gathered b = to.gather(query).value_or_throw();
        EXPECT_EQ(a.data, b.data);
        // What is not a gap comes back as absent.
        const auto told = [](const Gathered& g) {
          std::vector<std::pair<std::int64_t, int>> tokens;
          for (const MissingTokens& m : g.missing) {
            const bool absent = m.why == Why::rejected || m.why == Why::damaged;
            const int why = absent ? 0 : static_cast<int>(m.why) * 100 + static_cast<int>(m.reason);
            const int plain =
                static_cast<int>(Why::not_captured) * 100 + static_cast<int>(GapReason::not_fired);
            for (std::int64_t t = m.tokens.begin; t < m.tokens.end; ++t) {
              tokens.emplace_back(t, absent ? plain : why);
            }
          }
          return tokens;
        };
        EXPECT_EQ(told(a), told(b));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0u);
}

/// A MixedStore, and what its exports in one format are called.
class EachFormat : public ::testing::TestWithParam<ExportFormat> {
 protected:
  EachFormat() { options_.format = GetParam(); }
  [[nodiscard]] std::string ending() const { return std::string(".") + to_string(GetParam()); }
  [[nodiscard]] std::filesystem::path place(const std::string& name = "out") const {
    return store_.dir.path() / (name + ending());
  }

  MixedStore store_;
  ExportOptions options_;
};

}  // namespace graphtap::store_test
