#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "store/layout.hpp"
#include "store/open_sink.hpp"
#include "unit/store/support/faulty_ops.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

class Opening : public testing::Test {
 protected:
  Status open(const std::filesystem::path& path) { return open_store_sink(path, table_).status(); }
  static void says(const Status& status, Code code, std::string_view words) {
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  void fill() {
    const auto sink = open_store(dir_.store(), table_);
    ASSERT_OK(sink->write(make_step(table_, 1, make_request(1, "a"), 0, 1, {0}).delivered(table_)));
  }
  void set_manifest(const std::string& text) {
    std::ofstream(dir_.store() / "graphtap-store.json", std::ios::trunc) << text;
  }
  static std::vector<std::filesystem::path> listing(const std::filesystem::path& path) {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  const TempDir dir_;
  const HookTable table_ = small_table();
};

TEST_F(Opening, E_ParentsAreMadeAndTheStoreSaysWhatItIs) {
  const auto path = dir_.path() / "a" / "b" / "store";
  ASSERT_OK(open_store(path, table_)->close());
  const auto manifest = read_bytes(path / "graphtap-store.json");
  const std::string text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  EXPECT_NE(text.find("\"format\": \"graphtap-store\""), std::string::npos) << text;
  const auto reader = read_store(path);
  ASSERT_EQ(reader->runs().size(), 1u) << "a run that captured nothing is a run";
  EXPECT_NE(reader->runs()[0]->name.find("tiny 20"), std::string::npos) << reader->runs()[0]->name;
}

TEST_F(Opening, E_ASecondWriterIsToldWhoTheFirstIs) {
  const auto sink = open_store(dir_.store(), table_);
  says(open(dir_.store()), Code::unavailable, "pid " + std::to_string(::getpid()));
  says(rebuild_index(dir_.store()).status(), Code::unavailable, "one writer at a time");
  const std::string writer = read_store(dir_.store())->summary().writer;
  EXPECT_NE(writer.find("pid " + std::to_string(::getpid())), std::string::npos) << writer;
  ASSERT_OK(sink->close());
  EXPECT_OK(open(dir_.store()));
}

TEST_F(Opening, E_AnotherProcessHoldsTheLockUntilItDiesHowever) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto sink = open_store_sink(dir_.store(), table_);
    const char state = sink.ok() ? 'y' : 'n';
    static_cast<void>(!::write(ready[1], &state, 1));
    for (;;) ::pause();
  }
  char state = 0;
  ASSERT_EQ(::read(ready[0], &state, 1), 1);
  ASSERT_EQ(state, 'y');
  says(open(dir_.store()), Code::unavailable, "pid " + std::to_string(child));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_OK(open(dir_.store()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Opening, E_ADirectoryThatIsNotOursIsLeftAlone) {
  std::filesystem::create_directory(dir_.store());
  std::ofstream(dir_.store() / "thesis.tex") << "years of work";
  const auto before = listing(dir_.path());
  says(open(dir_.store()), Code::invalid_argument, "thesis.tex");
  says(StoreReader::open(dir_.store()).status(), Code::invalid_argument, "no graphtap-store.json");
  EXPECT_EQ(listing(dir_.path()), before);
}

TEST_F(Opening, E_WhatAnInterruptedCreationLeftIsGoneOnWith) {
  std::filesystem::create_directories(dir_.store() / "segments");
  std::ofstream(dir_.store() / "LOCK") << "pid 1 on nowhere\n";
  std::ofstream(dir_.store() / "graphtap-store.json.new") << "{";
  EXPECT_OK(open(dir_.store()));
}

TEST_F(Opening, E_AFileOrNothingInItsPlaceIsNamed) {
  std::ofstream(dir_.path() / "file") << "x";
  says(open(dir_.path() / "file"), Code::invalid_argument, "not a directory");
  says(open(dir_.path() / "file" / "store"), Code::io_error, "file");
  says(StoreReader::open(dir_.path() / "file").status(), Code::invalid_argument, "not a directory");
  says(StoreReader::open(dir_.path() / "nothing").status(), Code::not_found, "no such directory");
  says(verify_store(dir_.path() / "nothing", false).status(), Code::not_found, "no such directory");
  says(rebuild_index(dir_.path() / "nothing").status(), Code::not_found, "no such directory");
}

TEST_F(Opening, E_ANewerFormatIsRefusedByWritersAndReaders) {
  fill();
  const std::string id(32, 'a');
  set_manifest(R"({"format": "graphtap-store", "version": [2, 3], "id": ")" + id + "\"}");
  says(open(dir_.store()), Code::unsupported, "2.3 is newer");
  says(StoreReader::open(dir_.store()).status(), Code::unsupported, "2.3 is newer");
  says(verify_store(dir_.store(), true).status(), Code::unsupported, "2.3 is newer");
  set_manifest(R"({"format": "graphtap-store", "version": [1, 9], "id": ")" + id +
               "\", \"new\": 1}");
  EXPECT_OK(StoreReader::open(dir_.store()).status());
}

TEST_F(Opening, E_ASegmentOfANewerFormatIsRefused) {
  fill();
  const auto file = segment_files(dir_.store())[0];
  auto bytes = read_bytes(file);
  bytes[8] = std::byte{7};
  write_bytes(file, bytes);
  says(StoreReader::open(dir_.store()).status(), Code::unsupported,
       "segments/000001.gts: format version 7.");
  says(open(dir_.store()), Code::unsupported, "7.");
}

TEST_F(Opening, E_ADamagedManifestSaysWhatIsWrongWithIt) {
  fill();
  const std::pair<const char*, Code> cases[] = {
      {"", Code::corrupt},
      {"[1, 2]", Code::corrupt},
      {"{\"format\": \"sqlite\"}", Code::invalid_argument},
      {"{\"version\": [1, 0]}", Code::invalid_argument},
      {"{\"format\": \"graphtap-store\"}", Code::corrupt},
      {"{\"format\": \"graphtap-store\", \"version\": [-1, 0]}", Code::corrupt},
      {"{\"format\": \"graphtap-store\", \"version\": [1, 0], \"id\": \"xyz\"}", Code::corrupt},
      {"{\"format\": \"graphtap-store\", \"version\": [1, 0], \"id\": 7}", Code::corrupt}};
  for (const auto& [text, code] : cases) {
    set_manifest(text);
    says(StoreReader::open(dir_.store()).status(), code, "graphtap-store.json");
    says(open(dir_.store()), code, "graphtap-store.json");
  }
}

TEST_F(Opening, E_AStoreOnAReadOnlyDiskIsReadWithoutTouchingItAndNotWritten) {
  fill();
  const auto seen = dir_.path() / "seen";
  std::filesystem::create_directory(seen);
  if (::mount(dir_.store().c_str(), seen.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  struct Unmount {
    std::filesystem::path path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{seen};
  ASSERT_EQ(::mount(nullptr, seen.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  const auto before = listing(dir_.store());
  says(open(seen), Code::unavailable, "Read-only");
  EXPECT_EQ(tickets(*read_store(seen)), std::vector<std::uint64_t>{1});
  const VerifyReport report = verify_store(seen, true).value_or_throw();
  EXPECT_TRUE(report.findings.empty()) << describe(report.findings);
  EXPECT_GT(report.index_rows, 0u) << "the index is looked at as well";
  says(rebuild_index(seen).status(), Code::unavailable, "Read-only");
  EXPECT_EQ(listing(dir_.store()), before);
}

TEST_F(Opening, E_NoPermissionIsSaidAsSuch) {
  for (int error : {EROFS, EACCES}) {
    FaultyOps ops;
    ops.fail_always(Fault::refused, error);
    says(store::open_sink(ops, dir_.store(), table_, {}).status(), Code::unavailable,
         dir_.path().string());
  }
}

TEST_F(Opening, E_ARunNumberAndASegmentNumberAreNeverUsedTwice) {
  fill();
  fill();
  std::filesystem::remove(segment_files(dir_.store())[0]);
  fill();
  const auto reader = read_store(dir_.store());
  ASSERT_EQ(reader->runs().size(), 2u);
  EXPECT_EQ(reader->runs()[0]->number, 2u);
  EXPECT_EQ(reader->runs()[1]->number, 3u);
  EXPECT_NE(reader->runs()[0]->id, reader->runs()[1]->id);
  EXPECT_EQ(segment_files(dir_.store())[1].filename(), "000003.gts");
}

TEST_F(Opening, D5_AClosedSinkRefusesAndClosesAgainWithoutHarm) {
  const auto sink = open_store(dir_.store(), table_);
  EXPECT_NE(sink->name().find(dir_.store().string()), std::string::npos);
  ASSERT_OK(sink->close());
  ASSERT_OK(sink->close());
  ASSERT_OK(sink->flush());
  const Request a = make_request(1, "a");
  says(sink->write(make_step(table_, 1, a, 0, 1, {0}).delivered(table_)), Code::unavailable,
       "closed");
  says(sink->event({RequestEvent::Kind::begun, a, 0, 0, true, 0, 0}), Code::unavailable, "closed");
}

}  // namespace
}  // namespace graphtap::store_test
