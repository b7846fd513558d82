// D6: exported files come back as runs of a store, and what is not such a file is refused by name.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <random>

#include "graphtap/store_import.hpp"
#include "store/export/importer.hpp"
#include "store/export/npy.hpp"
#include "store/export/safetensors.hpp"
#include "unit/store/support/exports.hpp"
#include "unit/store/support/faulty_ops.hpp"

namespace graphtap::store_test {
namespace {

namespace fs = std::filesystem;

class Import : public EachFormat {
 protected:
  ExportReport export_all(const std::string& name = "out") {
    return export_store(*store_.reader(), {}, place(name), options_).value_or_throw();
  }
  [[nodiscard]] fs::path other() const { return store_.dir.path() / "other"; }
};

INSTANTIATE_TEST_SUITE_P(Formats, Import, testing::ValuesIn(formats()),
                         [](const auto& format) { return to_string(format.param); });

TEST_P(Import, D6_ARoundTripIsBitwiseForEveryType) {
  const ExportReport exported = export_all();
  const ImportReport imported = import_files(exported.files, other()).value_or_throw();
  EXPECT_EQ(imported.runs, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(imported.requests, 3u);
  EXPECT_EQ(imported.tensors, exported.tensors);
  EXPECT_EQ(imported.rows + imported.missing_rows, exported.rows);
  EXPECT_EQ(imported.missing_rows, exported.missing_rows);
  const auto reader = read_store(other());
  expect_same_rows(*store_.reader(), *reader, 1);
  const VerifyReport verified = verify_store(other(), true).value_or_throw();
  EXPECT_TRUE(verified.findings.empty()) << describe(verified.findings);
  EXPECT_EQ(reader->runs()[0]->model, "every type");
}

TEST_P(Import, D6_ManyFilesByTheirIndexAndInSmallBuffers) {
  options_.max_file_bytes = 50;
  options_.compress = true;
  const ExportReport exported = export_all();
  ASSERT_GT(exported.files.size(), 3u);
  ImportOptions options;
  options.buffer_bytes = 1;
  options.run_name = "again";
  // Into the store that they come from: a second run beside the first.
  store_.close();
  const ImportReport imported =
      import_files({exported.index}, store_.dir.store(), options).value_or_throw();
  EXPECT_EQ(imported.runs, (std::vector<std::uint32_t>{2}));
  const auto reader = store_.reader();
  expect_same_rows(*reader, *reader, 2);
  EXPECT_EQ(reader->runs()[1]->name, "again");
  const VerifyReport verified = verify_store(store_.dir.store(), true).value_or_throw();
  EXPECT_EQ(verified.count(Severity::error), 0u) << describe(verified.findings);
}

TEST_P(Import, D6_WhatWasImportedExportsTheSameAgain) {
  const ExportReport exported = export_all();
  static_cast<void>(import_files(exported.files, other()).value_or_throw());
  const auto again =
      export_store(*read_store(other()), {}, place("again"), options_).value_or_throw();
  const auto a = open_file(exported.files[0]), b = open_file(again.files[0]);
  ASSERT_EQ(b->tensors().size(), a->tensors().size());
  for (std::size_t i = 0; i < b->tensors().size(); ++i) {
    const std::size_t at = find_tensor(*a, b->tensors()[i].name);
    if (a->tensors()[at].shape == b->tensors()[i].shape) {
      EXPECT_EQ(all_bytes(*b, i), all_bytes(*a, at)) << b->tensors()[i].name;
    } else {  // a rejected draft at the end is not there any more
      EXPECT_EQ(b->tensors()[i].name.substr(0, 4), "chat");
    }
  }
}

TEST_P(Import, D6_StoppedItLeavesAWholeStore) {
  const ExportReport exported = export_all();
  ImportOptions options;
  options.progress = [](const ImportProgress& progress) { return progress.rows == 0; };
  const ImportReport report = import_files(exported.files, other(), options).value_or_throw();
  EXPECT_TRUE(report.stopped);
  EXPECT_TRUE(verify_store(other(), true).value_or_throw().ok());
}

TEST_P(Import, E_WidenedOrTwiceGivenFilesAreRefused) {
  const ExportReport exported = export_all();
  const Status twice = import_files({exported.files[0], exported.files[0]}, other()).status();
  EXPECT_EQ(twice.code(), Code::invalid_argument);
  EXPECT_NE(twice.message().find("already"), std::string::npos) << twice.message();
  options_.float32 = true;
  const Status widened = import_files(export_all("wide").files, other()).status();
  EXPECT_EQ(widened.code(), Code::unsupported);
  EXPECT_NE(widened.message().find("--float32"), std::string::npos) << widened.message();
  EXPECT_FALSE(fs::exists(other()));  // nothing was begun
}

TEST_P(Import, E_EveryFailingSystemCallIsToldAndTheStoreStaysWhole) {
  const ExportReport exported = export_all();
  for (std::uint64_t call = 0;; ++call) {
    FaultyOps ops;
    ops.fail_once(call, Fault::partial, ENOSPC);
    auto source = store::ImportSource::open(exported.files, {}).value_or_throw();
    const auto report = store::Importer(ops, source, {}).run(other());
    if (!report.ok()) {
      EXPECT_EQ(report.status().code(), Code::exhausted) << report.status().message();
    }
    const bool reached = ops.calls() > call;
    if (fs::exists(other() / "graphtap-store.json")) {
      EXPECT_TRUE(verify_store(other(), true).value_or_throw().ok()) << "call " << call;
    }
    if (report.ok())
      expect_same_rows(*store_.reader(), *read_store(other()), report.value().runs.at(0));
    fs::remove_all(other());
    if (!reached) break;
  }
}

TEST_P(Import, E_DamageAnywhereIsRefusedOrHarmless) {
  const ExportReport exported = export_all();
  const auto whole = read_bytes(exported.files[0]);
  std::mt19937_64 random(7);
  const fs::path broken = place("broken");
  for (int round = 0; round < 300; ++round) {
    auto bytes = whole;
    if (round % 3 == 0) bytes.resize(below(random, bytes.size()));
    for (int change = 0; change < 3 && !bytes.empty(); ++change) {
      bytes[below(random, bytes.size())] = static_cast<std::byte>(random());
    }
    write_bytes(broken, bytes);
    const auto report = import_files({broken}, other());
    if (!report.ok()) {
      EXPECT_FALSE(report.status().message().empty());
    } else {
      EXPECT_TRUE(verify_store(other(), true).value_or_throw().ok());
    }
    fs::remove_all(other());
  }
}

std::vector<std::byte> safetensors(const std::string& header, std::size_t data = 0) {
  std::vector<std::byte> bytes(8 + header.size() + data);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

TEST(ImportCrafted, E_RowsWithoutWidthCannotKeepItBusy) {
  HookTable table("columns");
  static_cast<void>(
      table.add({"pattern", 0, DType::f32, {2, kPerStepColumns}, 1, 1}).value_or_throw());
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  const Request request = make_request(1, "a", 1);
  OwnedStep step;
  step.ticket = 1;
  step.wanted = HookSet::of(table.size(), std::vector<HookId>{0});
  step.gaps.push_back({0, 0, GapReason::shed_ring, {{request, 0, 0, 3, RowFlags::none}}});
  EXPECT_OK(sink->write(step.delivered(table)));
  const auto report =
      export_store(*read_store(dir.store()), {}, dir.path() / "gaps.safetensors").value_or_throw();
  EXPECT_EQ(report.missing_rows, 3u);
  const ImportReport back = import_files(report.files, dir.path() / "back").value_or_throw();
  EXPECT_EQ(back.missing_rows, 3u);
  const auto gaps = all_of(read_store(dir.path() / "back")->gaps({}));
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].rows, 3u);
  // The same file with a tensor of 2^62 such rows.
  const auto bytes = read_bytes(report.files[0]);
  std::string text(reinterpret_cast<const char*>(bytes.data()) + 8, bytes.size() - 8);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"[0,3]", "[0,4611686018427387904]"}, {"[3,2,0]", "[4611686018427387904,2,0]"}}) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  write_bytes(report.files[0], safetensors(text));
  const Status refused = import_files(report.files, dir.path() / "other").status();
  EXPECT_EQ(refused.code(), Code::unsupported) << refused.message();
  EXPECT_NE(refused.message().find("more than 4294967295 rows"), std::string::npos)
      << refused.message();
}

// Files from elsewhere.

TEST(ImportForeign, E_ASafetensorsFileThatIsOffIsRefusedByName) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const TempDir dir;
  const fs::path path = dir.path() / "x.safetensors";
  const auto refusal = [&](const std::vector<std::byte>& bytes) {
    write_bytes(path, bytes);
    const auto file = store::open_tensor_file(path);
    return file.ok() ? std::string("(taken)") : file.status().message();
  };
  EXPECT_EQ(refusal(safetensors(good, 8)), "(taken)");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  const std::vector<std::pair<std::vector<std::byte>, std::string>> cases{
      {{}, "it has 0 bytes"},
      {std::vector<std::byte>(8, std::byte{0xff}), "at most 100000000"},
      {std::vector<std::byte>(8), "does not begin with {"},
      {safetensors("{}", 3), "the tensors take 0"},
      {safetensors(good, 7), "lies at bytes [0, 8) of 7"},
      {safetensors(good, 9), "9 bytes of data"},
      {safetensors("[1]"), "does not begin with {"},
      {safetensors(R"({"a":)"), "is no JSON"},
      {safetensors(deep), "a list where none belongs"},
      {safetensors(R"({"a":{"b":{"c":{}}}})"), "nested too deep"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks one of"},
      {safetensors(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "F99"},
      {safetensors(R"({"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", 8), "f32"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "negative"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "not whole"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "needs 12"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "[8, 0)"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "two numbers"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,8]}})",
                   8),
       "exceeds 2^63"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
                   8),
       "exceeds 2^63"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                   6),
       "overlap"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}})",
                   7),
       "hole"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                   8),
       "\"a\" is there twice"},
      {safetensors(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
       "\"dtype\" of \"a\" is there twice"},
      {safetensors(R"({"__metadata__":{"a":1}})"), "a number where none belongs"},
      {safetensors(R"({"a":null})"), "null where none belongs"},
      {safetensors(R"({"a":{"dtype":true,"shape":[4],"data_offsets":[0,4]}})", 4), "true or false"},
  };
  for (const auto& [bytes, expected] : cases) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(expected), std::string::npos) << message << "\n  lacks: " << expected;
    EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
  }
}

TEST(ImportForeign, E_ANpyHeadThatIsOffIsRefused) {
  const auto refusal = [](const std::string& dictionary) {
    const std::string head = std::string("\x93NUMPY\x01\x00\x00\x00", 10) + dictionary;
    store::TensorEntry tensor;
    const Status status = store::parse_npy_head(std::as_bytes(std::span(head)), tensor);
    return status.ok() ? std::string("(taken)") : status.message();
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", "(taken)"},
      {"{\"shape\": (2,), 'descr': '|u1', 'fortran_order': False}", "(taken)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "(taken)"},
      {"", "does not begin"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "big-endian"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "no hook has"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", "several fields"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "whole numbers"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, }", "lacks one of"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "unknown key"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} {", "goes on"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 2)}",
       "exceeds 2^63"},
  };
  for (const auto& [dictionary, expected] : cases) {
    const std::string message = refusal(dictionary);
    EXPECT_NE(message.find(expected), std::string::npos) << dictionary << ": " << message;
  }
}

TEST(ImportForeign, D6_ATensorFromElsewhereNeedsAHookAndARequest) {
  const TempDir dir;
  const fs::path path = dir.path() / "probe.safetensors";
  auto bytes = safetensors(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24);
  for (std::size_t i = 0; i < 24; ++i) bytes[bytes.size() - 24 + i] = static_cast<std::byte>(i);
  write_bytes(path, bytes);
  const Status lacks = import_files({path}, dir.store()).status();
  EXPECT_EQ(lacks.code(), Code::invalid_argument);
  EXPECT_NE(lacks.message().find("--hook NAME --request ID"), std::string::npos);
  ImportOptions options;
  options.foreign = ForeignTensor{"blocks.4.resid_prx", "r/1"};
  const Status mistyped = import_files({path}, dir.store(), options).status();
  EXPECT_NE(mistyped.message().find("resid_pre"), std::string::npos) << mistyped.message();
  options.foreign = ForeignTensor{"blocks.4.resid_pre", "r/1", "", "tiny", 7};
  const ImportReport report = import_files({path}, dir.store(), options).value_or_throw();
  EXPECT_EQ(report.rows, 2u);
  const auto reader = read_store(dir.store());
  GatherQuery query;
  query.request = "r/1";
  query.hook = "blocks.4.resid_pre";
  query.begin = 7;
  const Gathered gathered = reader->gather(query).value_or_throw();
  EXPECT_EQ(gathered.tokens, (TokenRange{7, 9}));
  EXPECT_TRUE(same_bytes(gathered.data, std::span(bytes).last(24)));
  EXPECT_EQ(gathered.run->model, "tiny");
  // More rows than a step can count, in no bytes at all.
  write_bytes(path,
              safetensors(R"({"x":{"dtype":"F32","shape":[99999999999,0],"data_offsets":[0,0]}})"));
  EXPECT_FALSE(import_files({path}, dir.path() / "other", options).ok());
  write_bytes(path, bytes);
  options.foreign->tensor = "y";
  EXPECT_EQ(import_files({path}, dir.store(), options).status().code(), Code::not_found);
}

}  // namespace
}  // namespace graphtap::store_test
