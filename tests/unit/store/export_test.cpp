// D6: a query's result as safetensors and npz files.
#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "store/export/names.hpp"
#include "store/export/npy.hpp"
#include "unit/store/support/exports.hpp"
#include "unit/store/support/faulty_ops.hpp"

namespace graphtap::store_test {
namespace {

namespace fs = std::filesystem;

class Export : public EachFormat {
 protected:
  Result<ExportReport> export_all(const fs::path& to, const Query& query = {}) {
    return export_store(*store_.reader(), query, to, options_);
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, Export, testing::ValuesIn(formats()),
                         [](const auto& format) { return to_string(format.param); });

TEST_P(Export, D6_EveryTypeIsBitwiseWhatAGatherGives) {
  const ExportReport report = export_all(place()).value_or_throw();
  EXPECT_EQ(report.files, std::vector{place()});
  EXPECT_EQ(report.tensors, 16u + 2u + 1u);  // a has a second ordinal
  EXPECT_EQ(report.unattributed_rows, 1u);
  EXPECT_GT(report.missing_rows, 0u);
  expect_as_gathered(*store_.reader(), report);
  std::set<fs::path> there;
  for (const auto& entry : fs::directory_iterator(store_.dir.path())) there.insert(entry.path());
  EXPECT_EQ(there, (std::set<fs::path>{store_.dir.store(), place()}));  // nothing is left over
}

TEST_P(Export, D6_SmallBuffersManyFilesAndCompressionChangeNothing) {
  options_.buffer_bytes = 1;
  options_.max_file_bytes = 40;
  options_.compress = true;
  const ExportReport report = export_all(place()).value_or_throw();
  EXPECT_GT(report.files.size(), 3u);
  expect_as_gathered(*store_.reader(), report);
  const auto text = read_bytes(report.index);
  const auto index =
      nlohmann::json::parse(reinterpret_cast<const char*>(text.data()),
                            reinterpret_cast<const char*>(text.data()) + text.size());
  EXPECT_EQ(index["weight_map"].size(), report.tensors);
  EXPECT_EQ(index["metadata"]["total_size"], report.bytes);
  for (const auto& [name, file] : index["weight_map"].items()) {
    static_cast<void>(find_tensor(*open_file(store_.dir.path() / file.get<std::string>()), name));
  }
}

TEST_P(Export, D6_NamesAreReversibleAndFitForFiles) {
  const ExportReport report = export_all(place()).value_or_throw();
  const auto file = open_file(report.files[0]);
  static_cast<void>(find_tensor(*file, "chat%2F7%20%E4%BD%A0%25/blocks.0.resid_pre"));
  static_cast<void>(find_tensor(*file, "chat%2F7%20%E4%BD%A0%25/blocks.0.resid_pre#1"));
  static_cast<void>(find_tensor(*file, "%2E%2E/blocks.0.resid_pre"));
  static_cast<void>(find_tensor(*file, "bad%FF/blocks.1.resid_pre"));
  EXPECT_EQ(store::unescape_name("chat%2F7%20%E4%BD%A0%25"), store_.a->id);
  EXPECT_EQ(store::unescape_name("%2E%2E"), "..");
  for (const char* wrong : {"%", "%4", "%4g", "%41", "a/b", "..", "%2f"}) {
    EXPECT_FALSE(store::unescape_name(wrong)) << wrong;
  }
  const store::Document document = store::parse_document(file->document(), "it").value_or_throw();
  ASSERT_EQ(document.requests.size(), 3u);
  EXPECT_EQ(document.requests[2].id, store_.c->id);
}

TEST_P(Export, C3_RequestsOfOneIdStayApart) {
  const Request again = make_request(9, "..", 2);
  store_.put(again, 0, 1, {0});
  store_.put(make_request(10, std::string(300, 'x'), 2), 0, 1, {0});
  const auto file = open_file(export_all(place()).value_or_throw().files[0]);
  static_cast<void>(find_tensor(*file, "%2E%2E@1.2/blocks.0.resid_pre"));
  static_cast<void>(find_tensor(*file, "%2E%2E@1.9/blocks.0.resid_pre"));
  static_cast<void>(find_tensor(*file, "@1.10/blocks.0.resid_pre"));  // too long for a file name
}

TEST_P(Export, D6_AQueryNarrowsItDown) {
  Query query;
  query.request = store_.a->id;
  query.hooks = "resid_pre:0-1";
  query.begin = 4;
  query.end = 8;
  const ExportReport report = export_all(place(), query).value_or_throw();
  EXPECT_EQ(report.tensors, 2u);
  EXPECT_EQ(report.rows, 8u);
  expect_as_gathered(*store_.reader(), report);
}

TEST_P(Export, D6_SmallFloatsWidenExactly) {
  options_.float32 = true;
  const auto file = open_file(export_all(place()).value_or_throw().files[0]);
  options_.float32 = false;
  const auto plain = open_file(export_all(place("plain")).value_or_throw().files[0]);
  for (int layer = 0; layer < 6; ++layer) {
    const std::string name =
        "chat%2F7%20%E4%BD%A0%25/blocks." + std::to_string(layer) + ".resid_pre";
    const std::size_t at = find_tensor(*file, name);
    const DType dtype = kAllTypes[layer];
    EXPECT_EQ(file->tensors()[at].dtype, dtype == DType::f64 ? DType::f64 : DType::f32);
    const auto bits = all_bytes(*plain, find_tensor(*plain, name));
    EXPECT_EQ(all_bytes(*file, at), store::can_widen(dtype) ? store::widened(dtype, bits) : bits);
  }
}

TEST_P(Export, E_WhatIsThereIsNotReplacedUnasked) {
  options_.max_file_bytes = 40;
  const ExportReport many = export_all(place()).value_or_throw();
  options_.max_file_bytes = 1 << 20;
  const Status refused = export_all(place()).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("--overwrite"), std::string::npos) << refused.message();
  options_.overwrite = true;
  const ExportReport one = export_all(place()).value_or_throw();
  EXPECT_TRUE(fs::exists(one.files[0]));
  for (const fs::path& stale : many.files) EXPECT_FALSE(fs::exists(stale)) << stale;
  EXPECT_FALSE(fs::exists(many.index));
}

TEST_P(Export, E_WhatCannotBeExportedSaysWhy) {
  Query nothing;
  nothing.hooks = "resid_pre:1";
  nothing.begin = 500;
  EXPECT_EQ(export_all(place(), nothing).status().code(), Code::not_found);
  Query unknown;
  unknown.hooks = "resid_prx";
  EXPECT_EQ(export_all(place(), unknown).status().code(), Code::invalid_argument);
  const Status ending = export_all(store_.dir.path() / "out.txt").status();
  EXPECT_EQ(ending.code(), Code::invalid_argument);
  EXPECT_EQ(export_all(store_.dir.path() / "no" / "such" / place().filename()).status().code(),
            Code::not_found);
  EXPECT_FALSE(fs::exists(place()));
}

TEST_P(Export, D6_StoppedItGoesOnWhereItStopped) {
  options_.max_file_bytes = 60;
  const ExportReport whole = export_all(place("whole")).value_or_throw();
  std::size_t stops = 0;
  for (std::uint64_t after = 0;; ++after) {
    std::uint64_t calls = 0;
    options_.progress = [&](const ExportProgress&) { return calls++ < after; };
    const ExportReport report = export_all(place("out")).value_or_throw();
    if (!report.stopped) {
      EXPECT_EQ(report.files.size(), report.kept_files + report.written_files);
      EXPECT_GT(report.kept_files, 0u);
      break;
    }
    ++stops;
    for (const auto& entry : fs::directory_iterator(store_.dir.path())) {
      EXPECT_NE(entry.path().extension(), ".part") << "after call " << after;
    }
    ASSERT_LT(after, 1000u);
  }
  EXPECT_GT(stops, 2u);
  for (const fs::path& path : whole.files) {
    const std::string name = path.filename().string();
    const fs::path other = store_.dir.path() / ("out" + name.substr(std::string("whole").size()));
    EXPECT_EQ(read_bytes(path), read_bytes(other)) << name;
  }
}

TEST_P(Export, D6_AnotherQueryOrAChangedStoreIsNotGoneOnWith) {
  options_.max_file_bytes = 60;
  int calls = 0;
  options_.progress = [&](const ExportProgress&) { return ++calls < 6; };
  ASSERT_TRUE(export_all(place()).value_or_throw().stopped);
  options_.progress = nullptr;
  Query query;
  query.hooks = "resid_pre:0";
  const Status other = export_all(place(), query).status();
  EXPECT_EQ(other.code(), Code::invalid_argument);
  EXPECT_NE(other.message().find("another query"), std::string::npos) << other.message();
  store_.put(store_.b, 1, 1, {0}, RowFlags::recomputed);
  const Status changed = export_all(place()).status();
  EXPECT_EQ(changed.code(), Code::invalid_argument);
  EXPECT_NE(changed.message().find("has changed"), std::string::npos) << changed.message();
  options_.overwrite = true;
  expect_as_gathered(*store_.reader(), export_all(place()).value_or_throw());
}

TEST_P(Export, E_EveryFailingSystemCallIsToldAndTheNextCallGoesOn) {
  options_.max_file_bytes = 400;
  const ExportReport whole = export_all(place("whole")).value_or_throw();
  ASSERT_GT(whole.files.size(), 1u);
  const auto reader = store_.reader();
  for (const Fault fault : {Fault::refused, Fault::partial, Fault::done}) {
    std::uint64_t told = 0;
    for (std::uint64_t call = 0;; ++call) {
      FaultyOps ops;
      ops.skip_syncs();
      ops.fail_once(call, fault, ENOSPC);
      const fs::path to = place("out");
      const auto failed = store::Exporter(ops, *reader, {}, options_).run(to);
      const bool reached = ops.calls() > call;
      if (!failed.ok()) {
        ++told;
        EXPECT_EQ(failed.status().code(), Code::exhausted) << failed.status().message();
        // Whatever has its final name is whole.
        for (const fs::path& path :
             store::ExportTarget::of(to, GetParam()).value_or_throw().existing().value_or_throw()) {
          static_cast<void>(open_file(path));
        }
        ops.heal();
        const auto again = store::Exporter(ops, *reader, {}, options_).run(to);
        ASSERT_TRUE(again.ok()) << "call " << call << ": " << again.status().message();
      }
      for (const fs::path& path : whole.files) {
        const std::string name = "out" + path.filename().string().substr(5);
        ASSERT_EQ(read_bytes(path), read_bytes(store_.dir.path() / name)) << name;
        fs::remove(store_.dir.path() / name);
      }
      fs::remove(place("out").string() + ".index.json");
      fs::remove(store_.dir.path() / "out.graphtap-export.json");
      if (!reached) break;
    }
    EXPECT_GT(told, whole.files.size() * 3);
  }
}

/// Changes a byte of what was written before it is read back.
class LyingOps final : public store::FileOps {
 public:
  int sync_data(int fd) override {
    const off_t end = ::lseek(fd, 0, SEEK_END);
    const char wrong = '\x5a';
    if (end > 1000 && syncs_++ == 1) {
      EXPECT_EQ(::pwrite(fd, &wrong, 1, end - at_), 1);
    }
    return FileOps::sync_data(fd);
  }
  explicit LyingOps(off_t at) : at_(at) {}

 private:
  const off_t at_;
  int syncs_ = 1;
};

TEST_P(Export, D6_WhatDoesNotReadBackNeverGetsItsName) {
  const off_t at = GetParam() == ExportFormat::safetensors ? 2 : 4000;
  const auto reader = store_.reader();
  LyingOps ops(at);
  const auto report = store::Exporter(ops, *reader, {}, options_).run(place());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::io_error);
  EXPECT_NE(report.status().message().find("read back"), std::string::npos);
  EXPECT_FALSE(fs::exists(place()));
}

TEST(ExportColumns, D6_RowsOfOneWidthMakeATensorAndOthersARefusal) {
  HookTable table("columns");
  static_cast<void>(
      table.add({"pattern", 0, DType::f32, {2, kPerStepColumns}, 1, 1}).value_or_throw());
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const Request request = make_request(1, "a", 1);
  OwnedStep step;
  for (const std::int64_t columns : {4, 4, 5}) {
    step.ticket = step.step = step.ticket + 1;
    step.wanted = HookSet::of(table.size(), std::vector<HookId>{0});
    step.records = {make_record(
        table, 0, {{request, static_cast<std::int64_t>(step.ticket) - 1, 0, 1, RowFlags::none}},
        step.ticket, columns)};
    EXPECT_OK(sink->write(step.delivered(table)));
  }
  const auto reader = read_store(dir.store());
  const Status refused = export_store(*reader, {}, dir.path() / "all.safetensors").status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("full,-pattern"), std::string::npos) << refused.message();
  Query query;
  query.end = 2;
  const auto report = export_store(*reader, query, dir.path() / "two.safetensors").value_or_throw();
  const auto file = open_file(report.files[0]);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<std::int64_t>{2, 2, 4}));
  expect_as_gathered(*reader, report);
}

TEST(ExportWiden, D6_EveryCodeOfEverySmallFloatIsRight) {
  const auto value = [](DType dtype, std::uint16_t code) {
    const auto bytes =
        store::widened(dtype, std::as_bytes(std::span(&code, 1)).first(size_of(dtype)));
    float out = 0;
    std::memcpy(&out, bytes.data(), sizeof(out));
    return out;
  };
  EXPECT_EQ(value(DType::f16, 0x3c00), 1.0f);
  EXPECT_EQ(value(DType::f16, 0xfbff), -65504.0f);
  EXPECT_EQ(value(DType::f16, 0x0001), 0x1p-24f);
  EXPECT_EQ(value(DType::bf16, 0x3f80), 1.0f);
  EXPECT_EQ(value(DType::bf16, 0x0001), 0x1p-133f);
  EXPECT_EQ(value(DType::f8_e4m3, 0x7e), 448.0f);
  EXPECT_EQ(value(DType::f8_e4m3, 0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(value(DType::f8_e4m3, 0xff)));
  EXPECT_EQ(value(DType::f8_e5m2, 0x7b), 57344.0f);
  EXPECT_TRUE(std::isinf(value(DType::f8_e5m2, 0x7c)));
  // A NaN keeps its bits: bf16 is the upper half of a float32, whatever it holds.
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value(DType::bf16, bits)), code << 16);
  }
}

}  // namespace
}  // namespace graphtap::store_test
